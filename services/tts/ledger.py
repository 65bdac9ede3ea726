"""Where the time of a turn went."""

from __future__ import annotations

from dataclasses import dataclass, field

from visavis import metrics
from visavis.clock import Clock
from visavis.media import Stamp


@dataclass(slots=True)
class TurnLedger:
    """Moments of one turn on the clock's time; None: has not come yet."""

    clock: Clock
    started: float
    language: str
    first_phrase: float | None = None
    first_voice: float | None = None
    phrase_at: float = 0.0
    produced_samples: int = 0
    stamps: tuple[Stamp, ...] = ()
    _phrase_open: bool = field(default=False)
    _work_began: Stamp | None = None
    _text_ended: Stamp | None = None
    _voice_made: Stamp | None = None

    def phrase_begins(self) -> None:
        """A phrase is there and its synthesis begins."""
        self.phrase_at = self.clock.now()
        self._phrase_open = True
        if self.first_phrase is None:
            self.first_phrase = self.phrase_at
            self.stamps = (*self.stamps, Stamp.now("tts.first_ready"))

    def work_begins(self) -> None:
        """The engine turns to the phrase: until here it queued. Called on the engine's thread."""
        began = Stamp.now("tts.last_started")
        if self._work_began is None:
            self.stamps = (*self.stamps, began.renamed("tts.first_started"))
        self._work_began = began

    def text_ended(self) -> None:
        """No more text will come."""
        self._text_ended = self._text_ended or Stamp.now("tts.last_got")

    def voice_made(self, samples: int, sample_rate_hz: int) -> None:
        """A piece of voice is there."""
        self.produced_samples += samples
        metrics.tts_audio_seconds.labels(self.language).inc(samples / sample_rate_hz)
        now = self.clock.now()
        self._voice_made = Stamp.now("tts.last_finished")
        if self._phrase_open:
            self._phrase_open = False
            metrics.tts_ttfa_seconds.observe(now - self.phrase_at, metrics.exemplar())
        if self.first_voice is None:
            self.first_voice = now
            self.stamps = (*self.stamps, self._voice_made.renamed("tts.first_finished"))

    def take_stamps(self) -> tuple[Stamp, ...]:
        """Stamps that no chunk has carried yet."""
        stamps, self.stamps = self.stamps, ()
        return stamps

    def last_stamps(self) -> tuple[Stamp, ...]:
        """For the turn's last chunk, which is made once all of the voice is."""
        last = (self._text_ended, self._work_began, self._voice_made)
        return (*self.take_stamps(), *(stamp for stamp in last if stamp is not None))

    def seconds(self) -> dict[str, float]:
        """For TurnFinished: from the first text on."""
        moments = {"first_phrase": self.first_phrase, "first_voice": self.first_voice}
        seconds = {name: at - self.started for name, at in moments.items() if at is not None}
        seconds["total"] = self.clock.now() - self.started
        return seconds
