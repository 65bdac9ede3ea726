"""Text in, phrases out, with the limit on how much text one answer may have."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import replace

from services.tts.text.chunker import Pause, Phrase, TextChunker, pause_behind
from visavis.serving.errors import InvalidInputError
from visavis.styles import StyleTags
from visavis.wire.clock import Clock

MAX_TEXT_CHARACTERS = 100_000
# So much is cut at once before others get the event loop: about a millisecond.
_SLICE_CHARACTERS = 500
# So many pieces of text the next words that can be parted may take.
_PIECES_AHEAD = 3
_SHORTEST_WAIT_S = 0.001
# The last word or two, by which a full stop is told from the point of an abbreviation.
_LOOKED_BACK = 24
# Of a first phrase that is cut short: it lasts a third of a second at least, half of one mostly.
_FIRST_SYLLABLES = 2
# Text that comes more slowly than this has stopped for reasons of its own.
_SLOWEST_PIECE_S = 0.25
_SENTENCE_ENDS = frozenset(".!?…。！？\"'”’)")


def _never() -> bool:
    return False


def _for_ever() -> None:
    return None


async def cut_phrases(
    texts: AsyncIterator[str],
    hurried: Callable[[], bool] = _never,
    early: Callable[[], bool] = _never,
    said: int = 0,
) -> AsyncIterator[Phrase]:
    """Phrases of a text that comes in pieces, each as soon as it is complete.

    hurried: asked where a piece of text, an empty one as well, has completed none; True cuts what
    can be spoken of it.
    early: the same where a first phrase is awaited, which has two Latin syllables at least.
    said: so many of its characters, tags not counted, were said by somebody else. The first phrase
    is what parts them from the others then, and says nothing.

    A tag such as "[happy]" ends a phrase and is in none; the next one has its style. Raises
    InvalidInputError once there are more than MAX_TEXT_CHARACTERS.
    """
    cutter = _StyledChunker(said)
    characters = 0
    async for text in texts:
        characters += len(text)
        if characters > MAX_TEXT_CHARACTERS:
            raise InvalidInputError(
                f"text: more than {MAX_TEXT_CHARACTERS} characters; split it into several calls"
            )
        for start in range(0, len(text), _SLICE_CHARACTERS):
            for phrase in cutter.add(text[start : start + _SLICE_CHARACTERS]):
                yield phrase
            await asyncio.sleep(0)
        if early():
            for phrase in cutter.press(_FIRST_SYLLABLES):
                yield phrase
        elif hurried():
            for phrase in cutter.press():
                yield phrase
    for phrase in cutter.flush():
        yield phrase


def phrases_of(text: str) -> list[Phrase]:
    """Phrases of a whole text."""
    cutter = _StyledChunker()
    return [*cutter.add(text), *cutter.flush()]


class _StyledChunker:
    """A chunker that takes out the tags and cuts where one is.

    said: so many characters were said before, which make no phrases.
    """

    def __init__(self, said: int = 0) -> None:
        self._tags = StyleTags()
        self._chunker = TextChunker()
        self._style = ""
        self._said = said
        self._before = "" if said else None
        """The end of these; None once a word behind them is there."""
        self._between = ""
        """What stands between the two."""

    def add(self, text: str, *, last: bool = False) -> list[Phrase]:
        phrases: list[Phrase] = []
        for said, style in self._tags.feed(text, last=last):
            if style:
                phrases += self._styled(map(_at_tag, self._chunker.flush()))
                self._style = style
                continue
            if self._before is not None:
                parted, said = self._part(said)
                phrases += self._styled(parted)
            phrases += self._styled(self._chunker.add(said))
        return phrases

    def _part(self, text: str) -> tuple[list[Phrase], str]:
        """The silent phrase once it is known, and what of `text` is behind it."""
        before, self._said = text[: self._said], max(0, self._said - len(text))
        rest = text[len(before) :]
        between = rest[: next((n for n, c in enumerate(rest) if c.isalnum()), len(rest))]
        self._before = f"{self._before}{before}"[-_LOOKED_BACK:]
        self._between += between
        if len(between) == len(rest):
            return [], ""
        pause = pause_behind(self._before + self._between)
        self._before = None
        return [Phrase(self._between, pause)], rest[len(between) :]

    def press(self, syllables: int = 0) -> list[Phrase]:
        return self._styled(self._chunker.press(syllables))

    def flush(self) -> list[Phrase]:
        phrases = self.add("", last=True)
        return phrases + self._styled(self._chunker.flush())

    def _styled(self, phrases: Iterable[Phrase]) -> list[Phrase]:
        return [replace(phrase, style=self._style) for phrase in phrases]


def _at_tag(rest: Phrase) -> Phrase:
    """What a tag cuts off: a whole sentence only where it ends like one."""
    text = rest.text.rstrip()
    if not text:
        return replace(rest, pause=Pause.NONE)
    return rest if text[-1] in _SENTENCE_ENDS else replace(rest, pause=Pause.CLAUSE)


class TextFeed:
    """Carries text from the task that reads it to the one that speaks.

    Holds little more than MAX_TEXT_CHARACTERS, so that it need not block the reader.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._came_s: float | None = None
        self._piece_s = 0.0
        """How long a piece of text takes to come."""
        self._texts: deque[str] = deque()
        self._characters = 0
        self._ended = False
        self._changed = asyncio.Event()

    def add(self, text: str) -> None:
        """More text. What comes after too much of it is not kept."""
        now_s = self._clock.now()
        if self._came_s is not None:
            took_s = min(now_s - self._came_s, _SLOWEST_PIECE_S)
            self._piece_s += (took_s - self._piece_s) / 4
        self._came_s = now_s
        if text and not self._ended and self._characters <= MAX_TEXT_CHARACTERS:
            self._characters += len(text)
            self._texts.append(text)
            self._changed.set()

    def end(self) -> None:
        """The text is complete."""
        self._ended = True
        self._changed.set()

    @property
    def awaited(self) -> bool:
        """Whether more text will come, and none is there."""
        return not self._texts and not self._ended

    def hurried(self, spare_s: float) -> bool:
        """Whether a voice, which can await more text for so long, would break off, were the next
        phrase awaited."""
        return self.awaited and spare_s <= _SHORTEST_WAIT_S + _PIECES_AHEAD * self._piece_s

    async def texts(self, spare_s: Callable[[], float | None] = _for_ever) -> AsyncIterator[str]:
        """The text in order, to its end. spare_s: how long more of it can be awaited, None: for
        ever; that it has not come by then is told once, by an empty piece.
        """
        while True:
            while self._texts:
                yield self._texts.popleft()
            if self._ended:
                return
            self._changed.clear()
            if not await self._comes_within(spare_s):
                yield ""
                await self._changed.wait()

    async def _comes_within(self, spare_s: Callable[[], float | None]) -> bool:
        while (left_s := spare_s()) is None or left_s > _SHORTEST_WAIT_S:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    return await self._changed.wait()
        return False

    def look_again(self) -> None:
        """How long more text can be awaited has changed."""
        self._changed.set()
