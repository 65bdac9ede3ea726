"""Times one session's turns: keeps the ledger of the newest turn and feeds the metrics."""

from __future__ import annotations

from prometheus_client import Histogram

from gateway import metrics
from gateway.events import LatencyEvent
from gateway.ledger import Ledger, Mark
from gateway.playout import Playout, PlayoutEvent, Tick


class Stopwatch:
    """All times in seconds of the monotonic clock, passed in."""

    def __init__(self) -> None:
        self._ledger: Ledger | None = None
        self._asked_at_s = 0.0
        self._silenced_at_s: float | None = None
        self._late = 0
        self._dropped = 0

    def asked(self, at_s: float) -> None:
        """The visitor stopped speaking or sent a text: time zero of what comes next."""
        self._asked_at_s = at_s

    def opened(self, turn: int, origin: str, now: float, *, held: bool) -> None:
        """A turn begins; a held one is not understood yet."""
        self._ledger = ledger = Ledger(turn, origin)
        ledger.mark(Mark.ASKED, self._asked_at_s)
        ledger.mark(Mark.OPENED, now)
        if not held:
            ledger.mark(Mark.UNDERSTOOD, now)

    def confirmed(self, now: float) -> None:
        """The held turn's words were final."""
        if self._ledger is not None:
            self._ledger.marks[Mark.ASKED] = self._asked_at_s
            self._ledger.mark(Mark.UNDERSTOOD, now)

    def silenced(self, now: float) -> None:
        """A turn that was being heard is void."""
        self._silenced_at_s = now

    def mark(self, turn: int, moment: Mark, now: float) -> bool:
        """Note the first time that `moment` comes in `turn`; whether this was it."""
        ledger = self._ledger
        return ledger is not None and ledger.turn == turn and ledger.mark(moment, now)

    def tick(self, tick: Tick, playout: Playout, now: float) -> None:
        """What left in this tick."""
        for released in tick.pictures:
            if released.skew_s is None:
                continue
            metrics.av_skew_seconds.observe(abs(released.skew_s))
            if self.mark(released.picture.turn, Mark.FIRST_PICTURE_SHOWN, now):
                self._observe(metrics.first_frame_seconds, Mark.FIRST_PICTURE_SHOWN)
        for event, number in tick.events:
            if event is PlayoutEvent.UNDERRUN:
                metrics.underruns.inc()
            elif event is PlayoutEvent.STARTED and self.mark(number, Mark.STARTED, now):
                self._observe(metrics.voice_to_voice_seconds, Mark.STARTED)
        if self._silenced_at_s is not None:
            metrics.barge_in_seconds.observe(now - self._silenced_at_s)
            self._silenced_at_s = None
        late, dropped = playout.late_pictures, playout.dropped_pictures
        # A codec that is no longer sent takes its counts with it.
        metrics.late_pictures.inc(max(0, late - self._late))
        metrics.dropped_pictures.inc(max(0, dropped - self._dropped))
        self._late, self._dropped = late, dropped

    def latency(self) -> LatencyEvent | None:
        """Where the newest turn's time went so far."""
        ledger = self._ledger
        if ledger is None:
            return None
        return LatencyEvent(
            turn=ledger.turn,
            stages=ledger.stages(),
            voice_to_voice_ms=ledger.voice_to_voice_ms,
        )

    def _observe(self, histogram: Histogram, moment: Mark) -> None:
        ledger = self._ledger
        seconds = ledger.since_asked(moment) if ledger is not None else None
        if ledger is not None and seconds is not None:
            histogram.labels(ledger.origin).observe(max(0.0, seconds))
