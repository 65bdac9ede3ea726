"""Text in, phrases out, with the limit on how much text one answer may have."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from services.tts.text_chunker import Phrase, TextChunker
from visavis.errors import InvalidInputError

MAX_TEXT_CHARACTERS = 100_000


class PhraseCutter:
    """A chunker that refuses text beyond MAX_TEXT_CHARACTERS."""

    def __init__(self) -> None:
        self._chunker = TextChunker()
        self._characters = 0

    def push(self, text: str) -> list[Phrase]:
        """Phrases that `text` completes. Raises InvalidInputError once there is too much."""
        self._characters += len(text)
        if self._characters > MAX_TEXT_CHARACTERS:
            raise InvalidInputError(
                f"text: more than {MAX_TEXT_CHARACTERS} characters; split it into several calls"
            )
        return self._chunker.push(text)

    def flush(self) -> list[Phrase]:
        return self._chunker.flush()


class PhraseFeed:
    """Phrases between the task that reads text and the one that speaks.

    Bounded by the cutter's limit on text, so that it need not block the reader.
    """

    def __init__(self) -> None:
        self._cutter = PhraseCutter()
        self._phrases: deque[Phrase] = deque()
        self._ended = False
        self._error: Exception | None = None
        self._changed = asyncio.Event()

    def push(self, text: str) -> None:
        """More text. Too much of it ends the feed with an error for the speaker."""
        if self._ended:
            return
        try:
            self._phrases.extend(self._cutter.push(text))
        except InvalidInputError as error:
            self._error = error
            self._ended = True
        self._changed.set()

    def end(self) -> None:
        """The text is complete."""
        if not self._ended:
            self._phrases.extend(self._cutter.flush())
            self._ended = True
        self._changed.set()

    async def phrases(self) -> AsyncIterator[Phrase]:
        """Phrases in order, until the end. Raises the feed's error after the last."""
        while True:
            while self._phrases:
                yield self._phrases.popleft()
            if self._ended:
                break
            self._changed.clear()
            await self._changed.wait()
        if self._error is not None:
            raise self._error
