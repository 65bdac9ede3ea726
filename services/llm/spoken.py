"""Takes out of a text what can be seen but not said: the marks of markdown."""

from __future__ import annotations

import re

_BULLET = re.compile(r"[ \t]*(?:#{1,6}|[-*+•>])[ \t]+")
_NUMBER = re.compile(r"[ \t]*(\d{1,2})[.)][ \t]+")
# The beginning of a line that may yet turn out to be one of the two above.
_UNDECIDED = re.compile(r"[ \t]*(?:#{0,6}|[-*+•>]|\d{1,2}[.)]?)[ \t]*")
# A single star between spaces or digits is a multiplication; it stays.
_EMPHASIS = re.compile(r"\*{2,}|_{2,}|`+|(?<![\s\d])\*|\*(?![\s\d])")
_EMPHASIS_END = re.compile(r"[*_`]+$")


class SpokenText:
    """Passes an answer through, without headings, list marks and emphasis.

    Only what may be such a mark waits for the next piece. Line ends stay: they
    are pauses. A number is a list's mark only where it counts on from 1, so an
    answer such as "12. That was easy." keeps its beginning.
    """

    def __init__(self) -> None:
        self._held = ""
        self._line_start = True
        self._last = "\n"
        self._number = 0

    def feed(self, text: str) -> str:
        self._held += text
        return self._release(final=False)

    def finish(self) -> str:
        return self._release(final=True)

    def _release(self, *, final: bool) -> str:
        ready = ""
        while self._held:
            if self._line_start:
                if not final and _UNDECIDED.fullmatch(self._held):
                    break
                self._drop_marks()
                self._line_start = False
            line, end, rest = self._held.partition("\n")
            if not end:
                keep = 0 if final or not (tail := _EMPHASIS_END.search(line)) else len(tail[0])
                line, rest = line[: len(line) - keep], line[len(line) - keep :]
            ready += self._say(line + end)
            self._held = rest
            self._line_start = bool(end)
            if not end:
                break
        return ready

    def _drop_marks(self) -> None:
        while match := _BULLET.match(self._held):
            self._held = self._held[match.end() :]
        match = _NUMBER.match(self._held)
        if match and int(match[1]) == self._number + 1:
            self._number += 1
            self._held = self._held[match.end() :]

    def _say(self, text: str) -> str:
        said = _EMPHASIS.sub("", self._last + text)[1:]
        if said:
            self._last = said[-1]
        return said
