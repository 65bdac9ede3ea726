"""What viewers see of a face that is shown from memory, and makes no frames itself. Pure.

Frames are those of the motion that runs through life and speech.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from services.face.life.accents import LISTENERS_NOD, Accent, AccentKind
from visavis.wire.idle_order import LISTENING_PART_S

_LEAD_FRAMES = 1
"""Shown elsewhere until a turn's first frame is there: drawing, bus, the gateway's tick."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Where the face goes on that was shown from memory."""

    frame: int
    """The first to be made."""
    listened: int
    """For so many frames it was shown as it listens."""
    nods: list[Accent]
    """That have begun."""


class FromMemory:
    """Knows whether a face is shown from memory, and which frame of it is seen when."""

    def __init__(self, fps: int) -> None:
        self.resting = False
        """No frames are to be made."""
        self._fps = fps
        self._rest_from: int | None = None
        self._seen: tuple[int, float] | None = None
        self._listens_from: int | None = None
        self._nods_from: int | None = None

    def rest(self, frame: int) -> None:
        """From this frame on it is."""
        self._rest_from = frame

    def listen(self, frame: int) -> None:
        """With this frame it begins to listen there."""
        self._listens_from = frame

    def nod(self, frame: int) -> None:
        """And with this one to nod."""
        self._nods_from = frame

    def see(self, frame: int, now_s: float) -> None:
        """Viewers see this frame now."""
        self._seen = (frame, now_s)

    def has_begun(self, frame: int, now_s: float, *, listening: bool) -> bool:
        """Whether it is from the next frame on, which would be due now. listening: the face does
        by now, and goes on to.
        """
        self.resting = self._rest_from is not None and frame >= self._rest_from
        if self.resting and self._seen is None:
            self._seen = (frame, now_s)
            if listening:
                self._listens_from = frame - LISTENING_PART_S * self._fps
        return self.resting

    def listens_later(self, frame: int) -> bool:
        """Whether it will be seen to begin to listen, but not yet."""
        return self._listens_from is not None and frame < self._listens_from

    def leave(self, now_s: float) -> Seen | None:
        """Frames are made again: what they follow. None: it was not shown from memory."""
        found = None
        if self._seen is not None:
            frame, at_s = self._seen
            frame += math.floor((now_s - at_s) * self._fps) + 1 + _LEAD_FRAMES
            listened = 0 if self._listens_from is None else max(0, frame - self._listens_from)
            nods = []
            if self._nods_from is not None and self._nods_from < frame:
                nods = [Accent(AccentKind.NOD, self._nods_from, LISTENERS_NOD, self._fps)]
            found = Seen(frame, listened, nods)
        self.resting = False
        self._rest_from = self._seen = self._listens_from = self._nods_from = None
        return found
