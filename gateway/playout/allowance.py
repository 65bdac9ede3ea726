"""How many bits of pictures the network of whoever watches carries."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

# The smallest pictures that still show lips; a network that carries less shows them late.
LEAST_BPS = 120_000
# No face sends so much by itself.
_ENOUGH_BPS = 4_000_000
# Of what was carried: the rest is for what waits already, and for the voice.
_KEPT = 0.8
# A network may have become wider: so much more is tried each second, and less near to where it was
# too much last.
_WIDER, _WIDER_NEAR, _NEAR = 1.1, 1.02, 1.15
# Of a browser's reports: so many are judged together, for one may wait in a busy browser, and after
# so long as many as there are; how much longer than at its shortest a way may take, and for how
# many looks that is remembered; what share is lost where more is sent than it carries, for a bad
# radio loses less, and of so few packets one row of losses would be as much.
_LOOK_REPORTS, _LOOK_S, _LONGEST_LOOK_S = 3, 0.5, 3.0
_REMEMBERED = 30
_LONGEST_WAIT_S = 0.12
_MUCH_LOST, _FEW_LOST = 0.12, 5
# For so long no report came: that is no narrow network, but none at all.
_SILENT_S = 1.2
# In a row so often it is tried whether sending less makes it shorter, each time by so much, and not
# where less than that is sent anyway.
_MOST_IN_VAIN = 6
_LEAST_OF_LAST = 0.7


@dataclass(frozen=True, slots=True)
class _Look:
    """What was known when reports were judged last."""

    at_s: float
    sent_bytes: int
    lost: int
    highest: int


class Allowance:
    """Of one viewer: no limit, until more has been sent than came through. Pure.

    Times in seconds of one clock, bits per second. As rate control of WebRTC does: down at once, by
    what came through, and up again slowly.
    """

    def __init__(self) -> None:
        self.bps: float | None = None
        """Of pictures, at the most; None: as much as they need."""
        self._at_s = 0.0
        self._too_much_bps = math.inf
        self._look = _Look(-math.inf, 0, 0, 0)
        self._reported_s = -math.inf
        self._trips_s: list[float] = []
        """There and back, since then."""
        self._shortest_s = deque[float](maxlen=_REMEMBERED)
        """Of each look."""
        self._in_vain = 0
        self._before_bps: float | None = None
        """Before less was tried."""
        self._put = (0.0, 0, 0)
        """When a queue was looked at, what it had been given by then, and what of it waited."""

    def overrun(self, carried_bps: float, now_s: float) -> None:
        """So much came through of the pictures, and more was sent."""
        self._too_much_bps = carried_bps
        self.bps = max(LEAST_BPS, _KEPT * carried_bps)
        self._at_s = now_s

    def passed(self, now_s: float) -> None:
        """All came through."""
        if self.bps is None:
            return
        near = self.bps < _NEAR * self._too_much_bps
        wider = (_WIDER_NEAR if near else _WIDER) ** (now_s - self._at_s)
        self.bps *= wider
        self._at_s = now_s
        if self.bps > _ENOUGH_BPS:
            self.bps = None

    def reported(
        self, round_trip_s: float | None, lost: int, highest: int, sent_bytes: int, now_s: float
    ) -> bool:
        """A browser reports what came; judged up to twice a second. Whether so much is lost that no
        picture can be shown before the next key frame.

        Where a way is longer than it was at its shortest, something waits on it, and there is
        always a report that tells how little at the least. lost, highest: of all packets up to now,
        and the number of the newest; sent_bytes: up to now.
        """
        silent_s, self._reported_s = now_s - self._reported_s, now_s
        if round_trip_s is not None:
            self._trips_s.append(round_trip_s)
        before, span_s = self._look, now_s - self._look.at_s
        newly_lost = lost - before.lost
        share = newly_lost / max(1, highest - before.highest)
        floods = share > _MUCH_LOST and newly_lost > _FEW_LOST
        early = not floods and len(self._trips_s) < _LOOK_REPORTS and span_s < _LONGEST_LOOK_S
        if span_s < _LOOK_S or early:
            return False
        self._look = _Look(now_s, sent_bytes, lost, highest)
        trips_s, self._trips_s = self._trips_s, []
        least_s = min(trips_s) if len(trips_s) >= _LOOK_REPORTS else math.nan
        if trips_s:
            self._shortest_s.append(min(trips_s))
        if before.highest == 0 or silent_s > _SILENT_S:
            return floods
        waits = least_s - min(self._shortest_s, default=0.0) > _LONGEST_WAIT_S
        sent_bps = 8 * (sent_bytes - before.sent_bytes) / span_s
        ours = floods or self.bps is None or sent_bps > _LEAST_OF_LAST * self.bps
        if (waits or floods) and ours:
            self._try_less(sent_bps * (1 - min(1.0, max(0.0, share))), now_s)
        elif not waits and not math.isnan(least_s):
            self._in_vain = 0
            self.passed(now_s)
        return floods

    def _try_less(self, carried_bps: float, now_s: float) -> None:
        if self._in_vain == 0:
            self._before_bps = self.bps
        self._in_vain += 1
        if self._in_vain > _MOST_IN_VAIN:  # the way itself has become longer
            self._shortest_s.clear()
            self._in_vain, self.bps = 0, self._before_bps
            return
        least_bps = 0.0 if self.bps is None else _LEAST_OF_LAST * self.bps
        self.overrun(max(carried_bps, least_bps / _KEPT), now_s)

    def queued(
        self, put_bytes: int, waiting_bytes: int, other_bps: float, now_s: float, *, late: bool
    ) -> None:
        """What goes by a queue, looked at twice a second: so much was put into it up to now, and so
        much of that waits. other_bps: of what is no pictures. late: it waits for too long.
        """
        began_s, put_then, waited = self._put
        span_s, put = now_s - began_s, put_bytes - put_then
        taken = put - (waiting_bytes - waited)
        self._put = (now_s, put_bytes, waiting_bytes)
        if span_s <= 0:
            return
        carried_bps = 8 * taken / span_s - other_bps
        if not late:
            self.passed(now_s)
        elif carried_bps > 0:  # else it is no narrow network, but none at all
            self.overrun(carried_bps, now_s)
