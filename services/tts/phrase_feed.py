"""Text in, phrases out, with the limit on how much text one answer may have."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from services.tts.text_chunker import Phrase, TextChunker
from visavis.errors import InvalidInputError

MAX_TEXT_CHARACTERS = 100_000
# So much is cut at once before others get the event loop: about a millisecond.
_SLICE_CHARACTERS = 500


async def cut_phrases(texts: AsyncIterator[str]) -> AsyncIterator[Phrase]:
    """Phrases of a text that comes in pieces, each as soon as it is complete.

    Raises InvalidInputError once there are more than MAX_TEXT_CHARACTERS.
    """
    chunker = TextChunker()
    characters = 0
    async for text in texts:
        characters += len(text)
        if characters > MAX_TEXT_CHARACTERS:
            raise InvalidInputError(
                f"text: more than {MAX_TEXT_CHARACTERS} characters; split it into several calls"
            )
        for start in range(0, len(text), _SLICE_CHARACTERS):
            for phrase in chunker.push(text[start : start + _SLICE_CHARACTERS]):
                yield phrase
            await asyncio.sleep(0)
    for phrase in chunker.flush():
        yield phrase


class TextFeed:
    """Text between the task that reads it and the one that speaks.

    Holds little more than MAX_TEXT_CHARACTERS, so that it need not block the reader.
    """

    def __init__(self) -> None:
        self._texts: deque[str] = deque()
        self._characters = 0
        self._ended = False
        self._changed = asyncio.Event()

    def push(self, text: str) -> None:
        """More text. What comes after too much of it is not kept."""
        if text and not self._ended and self._characters <= MAX_TEXT_CHARACTERS:
            self._characters += len(text)
            self._texts.append(text)
            self._changed.set()

    def end(self) -> None:
        """The text is complete."""
        self._ended = True
        self._changed.set()

    async def texts(self) -> AsyncIterator[str]:
        """The text in order, to its end."""
        while True:
            while self._texts:
                yield self._texts.popleft()
            if self._ended:
                return
            self._changed.clear()
            await self._changed.wait()
