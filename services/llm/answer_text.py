"""What a model writes to the pieces that leave the service: from the answer's first word, or behind
what of it is there already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from services.llm.backends.base import ChatMessage, Tool
from services.llm.blocks import TABLE, Blocks, SaidOrShown, Shown, pointer_to_blocks
from services.llm.loop_guard import LoopGuard
from services.llm.prompt import without_special_tokens
from services.llm.text_stream import InSigns, SpokenText, TextStream, WithoutCalls
from visavis.formulas import with_formulas_in_signs


class CleanText:
    """One answer's text on its way, of whole characters and without what is none of it."""

    def __init__(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[Tool] = (),
        *,
        stop: tuple[str, ...] = (),
        spoken: bool = False,
    ) -> None:
        """messages: that it answers; tools: that it may call; stop: it ends before any of these.

        spoken: it goes to a voice.
        """
        self._text = TextStream(stop)
        self._written = _Spoken(messages, tools) if spoken else _AsItIs()

    @property
    def ended(self) -> bool:
        """Nothing more is to come: a stop string was met, it goes round in circles, or the sentence
        is over with which it was to end.
        """
        return self._text.stopped or self._written.looping

    def close(self) -> None:
        """End what is said with the sentence at work."""
        self._written.close()

    def feed(self, text: str) -> Iterator[SaidOrShown]:
        """What is decided after `text`."""
        return self._written.feed(self._text.feed(text))

    def finish(self) -> Iterator[SaidOrShown]:
        """What was held back until now, once no more text comes."""
        yield from self._written.feed(self._text.finish())
        yield from self._written.finish()


class SoFar:
    """What of an answer is there already: nothing of it comes again."""

    def __init__(self, text: str, clean: CleanText) -> None:
        """clean: such an answer's, with nothing fed to it."""
        self._there = _by_block((*clean.feed(text), *clean.finish()))
        self._due: dict[int, str] = {}
        """What is there and comes yet, by block: it was held back, or is a blank."""
        # A blank at the end is a token of its own, behind which the next word is spelt otherwise:
        # the model writes it with that word.
        self._text = text.rstrip(" ")
        self.written = without_special_tokens(self._text)
        """As the model reads it."""

    @property
    def said(self) -> str:
        """What of it is for a voice."""
        return self._there.get(0, "")

    @property
    def blocks(self) -> int:
        """How many it shows."""
        return max(self._there, default=0)

    def pass_through(self, text: CleanText) -> None:
        """Feed it to `text`, which is then as if it had written that."""
        came = _by_block(text.feed(self._text))
        for block, there in self._there.items():
            self._due[block] = there.removeprefix(came.get(block, ""))

    def behind(self, pieces: Iterable[SaidOrShown]) -> Iterator[SaidOrShown]:
        """What of them is not there yet."""
        for piece in pieces:
            block, text = _block_and_text(piece)
            due = self._due.pop(block, "")
            same = _alike(due, text)
            if same == len(text):
                self._due[block] = due[same:]
            else:
                rest = text[same:]
                yield replace(piece, text=rest) if isinstance(piece, Shown) else rest


class _Spoken:
    """What a voice can say of an answer, and what is shown instead."""

    def __init__(self, messages: Sequence[ChatMessage], tools: Sequence[Tool]) -> None:
        known = {tool.name for tool in tools}
        called = {call.name for message in messages for call in message.tool_calls}
        self._uncalled, self._blocks = WithoutCalls(known | called), Blocks()
        self._signs, self._unmarked, self._guard = InSigns(), SpokenText(), LoopGuard()
        self._pointer = pointer_to_blocks(messages)
        self._said = False

    @property
    def looping(self) -> bool:
        return self._guard.looping

    def close(self) -> None:
        self._guard.closing = True

    def feed(self, text: str) -> Iterator[SaidOrShown]:
        return self._parted(self._blocks.feed(self._uncalled.feed(text)))

    def finish(self) -> Iterator[SaidOrShown]:
        yield from self._parted(self._blocks.feed(self._uncalled.finish()))
        yield from self._parted(self._blocks.finish())
        rest = self._guard.feed(self._unmarked.feed(self._signs.finish()))
        if rest := rest + self._guard.feed(self._unmarked.finish()) + self._guard.finish():
            yield rest

    def _parted(self, pieces: Iterable[SaidOrShown]) -> Iterator[SaidOrShown]:
        for piece in pieces:
            if isinstance(piece, Shown):
                if not self._said:
                    self._said = True
                    yield self._pointer
                yield _in_signs(piece)
            elif said := self._guard.feed(self._unmarked.feed(self._signs.feed(piece))):
                self._said = self._said or bool(said.strip())
                yield said


def _in_signs(piece: Shown) -> Shown:
    """Of tables, whose rows come whole; code is as it is."""
    if piece.language != TABLE:
        return piece
    return replace(piece, text=with_formulas_in_signs(piece.text))


class _AsItIs:
    """Leaves every mark where it is."""

    def __init__(self) -> None:
        self._guard = LoopGuard(spoken=False)

    @property
    def looping(self) -> bool:
        return self._guard.looping

    def close(self) -> None:
        """What is read may end anywhere."""

    def feed(self, text: str) -> Iterator[SaidOrShown]:
        if piece := self._guard.feed(text):
            yield piece

    def finish(self) -> Iterator[SaidOrShown]:
        if rest := self._guard.finish():
            yield rest


def _by_block(pieces: Iterable[SaidOrShown]) -> dict[int, str]:
    """The text of each block; 0: what is said."""
    texts: dict[int, str] = {}
    for block, text in map(_block_and_text, pieces):
        texts[block] = texts.get(block, "") + text
    return texts


def _block_and_text(piece: SaidOrShown) -> tuple[int, str]:
    return (piece.block, piece.text) if isinstance(piece, Shown) else (0, piece)


def _alike(one: str, other: str) -> int:
    """So many characters at their beginnings."""
    return next(
        (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
