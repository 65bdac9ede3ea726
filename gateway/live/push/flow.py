"""What of a stream a connection still gets when it does not keep up, and how often it is tried.

Pure: bytes that wait and times come as arguments.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

MOST_LAG_S = 2.0
"""More may not wait for the network: what is dropped then is dropped up to a key frame."""
_BACK_S = 0.5
_RETRIES_S = (0.5, 1.0, 1.0, 2.0, 2.0, 4.0, 8.0, 15.0, 30.0)
# A connection that has lasted so long was a good one. Whoever had such is tried no more seldom than
# this: until it is found again it shows nothing.
_GOOD_S = 5.0
_MOST_S = 4.0
GIVE_UP_S = 600.0
"""A target that takes no stream for so long is not tried any more."""


@dataclass(slots=True)
class Figures:
    """What a target has got so far, over all its connections."""

    sent_bytes: int = 0
    sent_pictures: int = 0
    dropped_pictures: int = 0
    reconnects: int = 0
    lag_s: float = 0.0
    """Media that waits for the network now."""


class Flow:
    """Lets through what one connection is to get, from a key frame on."""

    def __init__(self, figures: Figures) -> None:
        self.started = False
        """A key frame was let through."""
        self._figures = figures
        self._dropping = False
        self._written = 0
        self._marks: deque[tuple[int, float]] = deque()

    def look(self, waiting_bytes: int) -> None:
        """How much waits for the network now."""
        gone = self._written - waiting_bytes
        while self._marks and self._marks[0][0] <= gone:
            self._marks.popleft()
        lag_s = self._marks[-1][1] - self._marks[0][1] if self._marks else 0.0
        self._figures.lag_s = lag_s
        self._dropping = lag_s > (_BACK_S if self._dropping else MOST_LAG_S)

    def admits_picture(self, *, keyframe: bool) -> bool:
        """Whether the next picture is to be sent; where not, none is before a key frame."""
        if not self._dropping and (keyframe or self.started):
            self.started = True
            return True
        self.started = False
        self._figures.dropped_pictures += self._written > 0
        return False

    @property
    def admits_sound(self) -> bool:
        """Whether sound is to be sent: also before the key frame after a stall."""
        return self._written > 0 and not self._dropping

    def sent(self, count: int, time_s: float, *, picture: bool = False) -> None:
        """So many bytes were handed over, of media at `time_s`."""
        self._written += count
        self._marks.append((self._written, time_s))
        self._figures.sent_bytes += count
        self._figures.sent_pictures += picture


class Retries:
    """When a target is tried again, and when not any more. Times in seconds of one clock."""

    def __init__(self, now_s: float) -> None:
        self._good_s = now_s
        self._failures = 0
        self._was_good = False

    def wait_s(self, lived_s: float, now_s: float) -> float | None:
        """A connection has failed after `lived_s` (0: there was none); None: it is given up."""
        if lived_s > _GOOD_S:
            self._good_s = now_s
            self._failures = 0
            self._was_good = True
        if now_s - self._good_s > GIVE_UP_S:
            return None
        wait_s = _RETRIES_S[min(self._failures, len(_RETRIES_S) - 1)]
        self._failures += 1
        return min(wait_s, _MOST_S) if self._was_good else wait_s
