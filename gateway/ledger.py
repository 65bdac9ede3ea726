"""Where a turn's time goes: when each stage had something, on the monotonic clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from gateway.events import StageTime


class Mark(StrEnum):
    """Moments of a turn, in the order in which they usually come."""

    ASKED = "asked"
    """End of the visitor's speech, or the text's arrival: time zero."""
    OPENED = "opened"
    UNDERSTOOD = "understood"
    """The transcript is final."""
    FIRST_TOKEN = "first_token"
    FIRST_VOICE = "first_voice"
    FIRST_PICTURE = "first_picture"
    STARTED = "started"
    """The first sample leaves."""
    FIRST_PICTURE_SHOWN = "first_picture_shown"
    ENDED = "ended"


# Stage: (from the later of these, to). The face works on the voice, and so on.
_STAGES: tuple[tuple[str, tuple[Mark, ...], Mark], ...] = (
    ("asr", (Mark.ASKED,), Mark.UNDERSTOOD),
    ("llm", (Mark.OPENED,), Mark.FIRST_TOKEN),
    ("tts", (Mark.FIRST_TOKEN,), Mark.FIRST_VOICE),
    ("face", (Mark.FIRST_VOICE,), Mark.FIRST_PICTURE),
    ("playout", (Mark.UNDERSTOOD, Mark.FIRST_VOICE), Mark.STARTED),
)


@dataclass(slots=True)
class Ledger:
    """One turn's moments, in seconds of the monotonic clock."""

    turn: int
    origin: str
    """"speech" or "text"."""
    marks: dict[Mark, float] = field(default_factory=dict)
    stage_seconds: dict[str, dict[str, float]] = field(default_factory=dict)
    """What each stage said of its own time, by stage and name."""

    def mark(self, moment: Mark, now: float) -> bool:
        """Note the first time that `moment` comes; whether this was it."""
        if moment in self.marks:
            return False
        self.marks[moment] = now
        return True

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
            if name == "asr" and self.origin == "text":
                continue
            starts = [self.marks[m] for m in begins if m in self.marks]
            if starts and end in self.marks:
                start = min(max(starts), self.marks[end])
                out.append(
                    StageTime(
                        name=name,
                        start_ms=_milliseconds(start - zero),
                        end_ms=_milliseconds(self.marks[end] - zero),
                    )
                )
        return out

    @property
    def voice_to_voice_ms(self) -> float | None:
        seconds = self.since_asked(Mark.STARTED)
        return None if seconds is None else _milliseconds(seconds)


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 1)
