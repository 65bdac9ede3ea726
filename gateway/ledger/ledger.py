"""What is known of one turn: when each stage had what, on the gateway's monotonic clock."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from gateway.api.events import Origin, StageTime


class Mark(StrEnum):
    """Moments that the gateway sees itself, in the order in which they usually come."""

    ASKED = "asked"
    """End of the visitor's speech, or the text's arrival: time zero."""
    OPENED = "opened"
    UNDERSTOOD = "understood"
    """The transcript is final."""
    CALLED = "called"
    """The answer has begun by calling tools."""
    RESULTS = "results"
    """What they have come to is there; what is said comes after it."""
    FIRST_TOKEN = "first_token"
    FIRST_VOICE = "first_voice"
    FIRST_PICTURE = "first_picture"
    STARTED = "started"
    """The first sample leaves."""
    FIRST_PICTURE_SHOWN = "first_picture_shown"
    LAST_TOKEN = "last_token"
    LAST_VOICE = "last_voice"
    LAST_PICTURE = "last_picture"
    ENDED = "ended"


# Stage: (from the later of these, to). The face works on the voice, and so on.
_STAGES: tuple[tuple[str, tuple[Mark, ...], Mark], ...] = (
    ("asr", (Mark.ASKED,), Mark.UNDERSTOOD),
    ("tools", (Mark.CALLED,), Mark.RESULTS),
    ("llm", (Mark.OPENED, Mark.RESULTS), Mark.FIRST_TOKEN),
    ("tts", (Mark.FIRST_TOKEN,), Mark.FIRST_VOICE),
    ("face", (Mark.FIRST_VOICE,), Mark.FIRST_PICTURE),
    ("playout", (Mark.UNDERSTOOD, Mark.FIRST_VOICE), Mark.STARTED),
)


@dataclass(slots=True)
class Ledger:
    """One turn's moments, in seconds of the monotonic clock."""

    turn: int
    origin: Origin
    marks: dict[Mark, float] = field(default_factory=dict)
    stamps: dict[str, float] = field(default_factory=dict)
    """What the stages say, named as in StageStamp of the protocol."""
    tools: list[tuple[float, float]] = field(default_factory=list)
    """From when to when tools were at work, round by round."""
    clock_error_s: float = 0.0
    """How far the stamps of other machines may be misplaced."""
    underruns: int = 0
    """Gaps in its voice."""

    def mark(self, moment: Mark, now: float) -> bool:
        """Note the first time that `moment` comes; whether this was it."""
        if moment in self.marks:
            return False
        self.marks[moment] = now
        return True

    def tools_done(self, began: float, now: float) -> None:
        """What the answer has called since `began` has come to something."""
        self.tools.append((began, now))
        if Mark.FIRST_TOKEN not in self.marks:
            self.marks[Mark.RESULTS] = now

    def stamp(self, name: str, at_s: float) -> None:
        """Note what a stage says; where it says it twice, the first counts."""
        self.stamps.setdefault(name, at_s)

    def at(self, name: str) -> float | None:
        """When a mark or a stamp was, in seconds of the clock; None: it has not come."""
        if name in self.stamps:
            return self.stamps[name]
        mark = _MARKS.get(name)
        return None if mark is None else self.marks.get(mark)

    def latest(self, names: Iterable[str]) -> float | None:
        """The last of those moments that have come."""
        times = [time for name in names if (time := self.at(name)) is not None]
        return max(times, default=None)

    def since_asked(self, moment: Mark) -> float | None:
        """Seconds from time zero, None before `moment`."""
        zero, then = self.marks.get(Mark.ASKED), self.marks.get(moment)
        return None if zero is None or then is None else then - zero

    def stages(self) -> list[StageTime]:
        """Each stage's share so far, relative to time zero.

        A stage that worked ahead, on words that were not yet final, starts before zero.
        """
        zero = self.marks.get(Mark.ASKED)
        if zero is None:
            return []
        out = []
        for name, begins, end in _STAGES:
            if name == "asr" and self.origin != "speech":
                continue
            starts = [self.marks[m] for m in begins if m in self.marks]
            if starts and end in self.marks:
                start = min(max(starts), self.marks[end])
                out.append(
                    StageTime(
                        name=name,
                        start_ms=milliseconds(start - zero),
                        end_ms=milliseconds(self.marks[end] - zero),
                    )
                )
        return out


_MARKS = {mark.value: mark for mark in Mark}


def milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 2)
