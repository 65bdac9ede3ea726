"""Times one session's turns: keeps the ledger of the newest turn and feeds the metrics."""

from __future__ import annotations

from prometheus_client import Histogram

from gateway import metrics
from gateway.api.events import LatencyEvent, Origin
from gateway.ledger.ledger import Ledger, Mark, milliseconds
from gateway.ledger.spans import overhead_s, spans_of
from gateway.ledger.traces import turn_traces
from gateway.playout.pictures import Picture
from gateway.playout.playout import Playout, PlayoutEvent, Tick
from gateway.stages.registry import HostClocks
from visavis.wire.media import PcmChunk, Place, Stamp, TokenChunk, TranscriptChunk, TranscriptEvent

_UNASKED = ("welcome", "say", "brought")
_ORIGINS: dict[str, Origin] = {
    "text": "text",
    "welcome": "welcome",
    "say": "say",
    "brought": "brought",
}
_LOOPED, _LIVE, _OF_TURN = (metrics.pictures.labels(of) for of in ("loop", "live", "turn"))
_SAYS_ALL = (TranscriptEvent.PAUSED, TranscriptEvent.FINAL)


class Stopwatch:
    """Notes when what happened in one session's newest turn, and measures it.

    All times in seconds of the monotonic clock, passed in.
    """

    def __init__(self, session: str, clocks: HostClocks) -> None:
        self._session = session
        self._clocks = clocks
        self._ledger: Ledger | None = None
        self._asked_at_s = 0.0
        self._heard: tuple[Stamp, ...] = ()
        self._traces = turn_traces(session)
        self._cause = ""
        self.traceparent = ""
        """Of the newest turn, for the stages that work on it; "": it is not traced."""
        self._called_at_s: float | None = None
        self._late = 0
        self._dropped = 0

    # ------------------------------------------------------------ what comes in

    def asked(self, at_s: float) -> None:
        """The visitor sent a text: time zero of what comes next."""
        self._asked_at_s, self._heard, self._cause = at_s, (), ""

    def caused_by(self, traceparent: str) -> None:
        """What is heard from now on, and a turn that comes of it, is of this trace."""
        self._cause = traceparent

    def heard(self, chunk: TranscriptChunk, speech_end_s: float) -> None:
        """The visitor stopped speaking, for now or for good."""
        if chunk.event in _SAYS_ALL:
            self._asked_at_s, self._heard = speech_end_s, chunk.place.stamps
        elif chunk.event is TranscriptEvent.PARTIAL:
            # An answer may be prepared before there is an end; it counts from that once it comes.
            self._asked_at_s, self._heard = speech_end_s, ()

    def opened(self, turn: int, origin: str, now: float, *, held: bool) -> None:
        """A turn begins; a held one is not understood yet."""
        if origin in _UNASKED or (held and origin == "text"):  # which is typed, and not sent yet
            self.asked(now)
        self._ledger = ledger = Ledger(turn, _ORIGINS.get(origin, "speech"))
        self._called_at_s = None
        ledger.mark(Mark.ASKED, self._asked_at_s)
        ledger.mark(Mark.OPENED, now)
        if not held:
            ledger.mark(Mark.UNDERSTOOD, now)
        self._note(ledger, self._heard)
        if self._traces is not None:
            self.traceparent = self._traces.opened(ledger, self._cause)

    def confirmed(self, now: float) -> None:
        """The held turn's words were final."""
        ledger = self._ledger
        if ledger is not None:
            ledger.marks[Mark.ASKED] = self._asked_at_s
            ledger.mark(Mark.UNDERSTOOD, now)
            # A later pause with the same words was judged anew.
            for name in [name for name in ledger.stamps if name.startswith("asr.")]:
                del ledger.stamps[name]
            self._note(ledger, self._heard)

    def called(self, turn: int, now: float) -> None:
        """Tools of a round begin their work."""
        ledger = self._ledger
        if ledger is not None and ledger.turn == turn and self._called_at_s is None:
            self._called_at_s = now
            if Mark.FIRST_TOKEN not in ledger.marks:
                ledger.mark(Mark.CALLED, now)

    def results(self, turn: int, now: float) -> None:
        """They have all come to something, and the answer goes on."""
        began_s, self._called_at_s = self._called_at_s, None
        if self._ledger is not None and self._ledger.turn == turn and began_s is not None:
            self._ledger.tools_done(began_s, now)

    def token(self, chunk: TokenChunk, now: float) -> None:
        """A piece of the answer's text has come."""
        self._came(chunk.place, Mark.FIRST_TOKEN, Mark.LAST_TOKEN, now)

    def voice(self, chunk: PcmChunk, now: float) -> None:
        """Voice has come."""
        first = Mark.FIRST_VOICE if len(chunk.pcm) else None
        self._came(chunk.place, first, Mark.LAST_VOICE, now)

    def picture(self, place: Place, picture: Picture, now: float) -> None:
        """A picture has come."""
        if not picture.live:
            self._came(place, Mark.FIRST_PICTURE, Mark.LAST_PICTURE, now)

    def ended(self, turn: int, now: float) -> None:
        """The turn is over."""
        if self._ledger is not None and self._ledger.turn == turn:
            self._ledger.mark(Mark.ENDED, now)

    def closed(self, turn: int, outcome: str) -> None:
        """Nothing more comes of the turn, which ended or was never heard."""
        if self._traces is not None:
            self._traces.closed(turn, outcome)

    def tick(self, tick: Tick, playout: Playout, now: float) -> None:
        """What left in this tick."""
        ledger = self._ledger
        for released in tick.pictures:
            idle = _LOOPED if released.looped else _LIVE
            (idle if released.picture.live else _OF_TURN).inc()
            if released.skew_s is None:
                continue
            side = "leads" if released.skew_s < 0 else "lags"
            metrics.av_skew_seconds.labels(side).observe(abs(released.skew_s))
            if ledger is not None and ledger.turn == released.picture.turn:
                if ledger.mark(Mark.FIRST_PICTURE_SHOWN, now):
                    self._observe(metrics.first_frame_seconds, ledger, Mark.FIRST_PICTURE_SHOWN)
        for event, number in tick.events:
            if event is PlayoutEvent.UNDERRUN:
                metrics.underruns.inc()
            if ledger is not None and ledger.turn == number:
                self._note_event(ledger, event, now)
        late, dropped = playout.late_pictures, playout.dropped_pictures
        if (late, dropped) != (self._late, self._dropped):
            # A codec that is no longer sent takes its counts with it.
            metrics.late_pictures.inc(max(0, late - self._late))
            metrics.dropped_pictures.inc(max(0, dropped - self._dropped))
            self._late, self._dropped = late, dropped

    # ------------------------------------------------------------ what is known

    def latency(self) -> LatencyEvent | None:
        """Where the newest turn's time went so far."""
        ledger = self._ledger
        if ledger is None:
            return None
        return LatencyEvent(
            turn=ledger.turn,
            origin=ledger.origin,
            stages=ledger.stages(),
            spans=spans_of(ledger),
            voice_to_voice_ms=_milliseconds(ledger.since_asked(Mark.STARTED)),
            first_frame_ms=_milliseconds(ledger.since_asked(Mark.FIRST_PICTURE_SHOWN)),
            overhead_ms=_milliseconds(overhead_s(ledger)),
            underruns=ledger.underruns,
            clock_error_ms=milliseconds(ledger.clock_error_s),
        )

    # ------------------------------------------------------------ inside

    def _came(self, place: Place, first: Mark | None, last: Mark, now: float) -> None:
        ledger = self._ledger
        if ledger is None or ledger.turn != place.turn:
            return
        if first is not None:
            ledger.mark(first, now)
        if place.last:
            ledger.mark(last, now)
        self._note(ledger, place.stamps)

    def _note(self, ledger: Ledger, stamps: tuple[Stamp, ...]) -> None:
        """Place what stages say on our clock; of an unknown clock, nothing can be said."""
        for stamp in stamps:
            offset = self._clocks.offset(stamp.clock)
            at_s = self._clocks.local_s(stamp)
            if offset is not None and at_s is not None:
                ledger.stamp(stamp.stage, at_s)
                ledger.clock_error_s = max(ledger.clock_error_s, offset.error_s)

    def _note_event(self, ledger: Ledger, event: PlayoutEvent, now: float) -> None:
        if event is PlayoutEvent.UNDERRUN:
            ledger.underruns += 1
        elif event is PlayoutEvent.STARTED and ledger.mark(Mark.STARTED, now):
            self._observe(metrics.voice_to_voice_seconds, ledger, Mark.STARTED)
            self._observe_spans(ledger)

    def _observe(self, histogram: Histogram, ledger: Ledger, moment: Mark) -> None:
        seconds = ledger.since_asked(moment)
        if seconds is not None:
            exemplar = self._exemplar(ledger)
            histogram.labels(ledger.origin).observe(max(0.0, seconds), exemplar)

    def _exemplar(self, ledger: Ledger) -> dict[str, str]:
        trace_id = "" if self._traces is None else self._traces.trace_id(ledger.turn)
        return metrics.exemplar(self._session, ledger.turn, trace_id)

    def _observe_spans(self, ledger: Ledger) -> None:
        exemplar = self._exemplar(ledger)
        overhead = overhead_s(ledger)
        if overhead is not None:
            metrics.overhead_seconds.labels(ledger.origin).observe(overhead, exemplar)
        for span in spans_of(ledger):
            if span.chunk == "first":
                seconds = (span.end_ms - span.start_ms) / 1000
                metrics.turn_span_seconds.labels(span.stage, span.kind).observe(seconds, exemplar)


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else milliseconds(seconds)
