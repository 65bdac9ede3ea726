"""Blocks of code and tables in an answer: they are no speech, so they are shown instead."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from services.llm.backends.base import ChatMessage
from services.llm.prompt import asks_in_chinese

_FENCE = "```"
# A fence that opens a block, with the name of the code's language; and what may yet become one.
_OPENS = re.compile(r"`{3,9}[ \t]{0,9}([\w+#.-]{0,32})[^\n`]{0,80}\n")
_MAY_OPEN = re.compile(r"`{1,3}\Z|`{3,9}[^\n`]{1,120}\Z")
_LAST_FENCE = re.compile(r"`{3,9}[ \t]{0,9}[\w+#.-]{0,32}[ \t]{0,9}\Z")
# A line of a table; and what, where a line begins, may yet become one or a fence.
_ROW = re.compile(r"\s{0,99}(\|[^\n]{0,1000}\|)[ \t]{0,9}\n")
# Of one that has begun, a row is a row without its last mark, too.
_NEXT_ROW = re.compile(r"\s{0,99}(\|[^\n]{0,1000}?)[ \t]{0,9}\n")
_UNDECIDED = re.compile(r"\s{0,99}(?:\|[^\n]{0,1000}|`{1,2}|`{3,9}[^\n`]{0,120})?\Z")
TABLE = "markdown"
"""What a table is written in."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A piece of a block: shown, and not said. `block` counts those of the answer, from 1."""

    block: int
    language: str
    """Of code, as the model calls it; `TABLE`; "": not told."""
    text: str


SaidOrShown: TypeAlias = str | Shown


class Blocks:
    """Parts an answer that comes in pieces: what stands between two fences is shown, and so are the
    rows of a table; all else is said. No piece is empty, and none has a fence. Empty lines around a
    block go.
    """

    def __init__(self) -> None:
        self._block = 0
        self._held = ""
        self._language: str | None = None
        """Of the code that the next piece belongs to; None: it is no code."""
        self._in_table = False
        self._line_start = True
        self._behind_block = False
        """Nothing is said yet behind one."""

    def feed(self, text: str) -> list[SaidOrShown]:
        """What is decided after `text`."""
        self._held += text
        return [piece for piece in self._parted(final=False) if piece]

    def finish(self) -> list[SaidOrShown]:
        """What was held back until now, once no more text comes."""
        if self._line_start and self._held.lstrip().startswith("|"):
            self._held += "\n"
        return [piece for piece in self._parted(final=True) if piece]

    def _parted(self, *, final: bool) -> Iterator[SaidOrShown]:
        left = None
        while self._held and self._held != left:
            left = self._held
            if self._language is not None:
                yield from self._code(self._language, final=final)
            elif self._line_start and (row := self._a_row.match(self._held)):
                yield self._row(row)
            elif not self._line_start or final or not _UNDECIDED.match(self._held):
                yield self._said(final=final)

    def _code(self, language: str, *, final: bool) -> Iterator[Shown]:
        code, closes, rest = self._held.partition(_FENCE)
        if closes:
            self._language, self._line_start, self._behind_block = None, True, True
        elif not final and (may_close := _MAY_OPEN.search(code)):
            code, rest = code[: may_close.start()], code[may_close.start() :]
        self._held = rest
        if code:
            yield Shown(self._block, language, code)

    @property
    def _a_row(self) -> re.Pattern[str]:
        return _NEXT_ROW if self._in_table else _ROW

    def _row(self, row: re.Match[str]) -> Shown:
        self._block += not self._in_table
        self._in_table = self._behind_block = True
        self._held = self._held[row.end() :]
        return Shown(self._block, TABLE, f"{row[1]}\n")

    def _said(self, *, final: bool) -> str:
        """To the end of the line at most, or to a fence that opens a block."""
        self._in_table = False
        if self._behind_block:
            self._held = self._held.lstrip()
            self._behind_block = not self._held
        if self._line_start and _OPENS.match(self._held.lstrip()):
            self._held = self._held.lstrip()
        line, end, _ = self._held.partition("\n")
        opens = _OPENS.search(line + end)
        if opens:
            self._block += 1
            self._language = opens[1].lower()
            self._held = self._held[opens.end() :]
            return line[: opens.start()]
        if final and not end:
            self._held = ""
            return _LAST_FENCE.sub("", line)
        if not end and (may_open := _MAY_OPEN.search(line)):
            line = line[: may_open.start()]
        self._held = self._held[len(line + end) :]
        self._line_start = bool(end) or (self._line_start and not line)
        return line + end


def pointer_to_blocks(messages: Sequence[ChatMessage]) -> str:
    """What is said where an answer begins with a block: nobody hears that."""
    return "请看屏幕。\n" if asks_in_chinese(messages) else "It is on the screen.\n"
