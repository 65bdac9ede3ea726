"""The lane that synthesises, shared by all sessions, and the ledger of what it took."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import cast

from services.tts.phrase_cache import PhraseCache
from services.tts.sound import SAMPLE_RATE_HZ
from services.tts.speech_options import SpeechOptions
from services.tts.synthesizer import Answer, PieceSteps, SpeechPiece, Spoken, Synthesizer
from services.tts.text.chunker import Phrase
from visavis.engine import EngineLane, EngineState, Urgency
from visavis.serving import metrics
from visavis.serving.admission.meter import Assumed, Meter
from visavis.wire.clock import Clock, MonotonicClock
from visavis.wire.media import Stamp

ASSUMED = Assumed(units_per_s=0.15, unit_cost_s=0.15, cores=0.03)
"""Pieces of voice, until they are measured."""
# Until a phrase is sound; fewer deviations leave gaps, more make phrases shorter than they need be.
_LEAST_MAKING_S, _DEVIATIONS = 0.15, 2


@dataclass(slots=True)
class TurnLedger:
    """Moments of one turn on the clock's time; None: has not come yet."""

    clock: Clock
    started: float
    language: str
    held: bool = False
    """The answer is prepared and may yet be thrown away: nobody waits for it."""
    first_phrase: float | None = None
    first_voice: float | None = None
    phrase_at: float = 0.0
    heard_from: float | None = None
    """Since when it is heard, had it not broken off; until it is known, as soon as it may be."""
    produced_samples: int = 0
    stamps: tuple[Stamp, ...] = ()
    owner: object = field(default_factory=object)
    """Names the turn to the lane."""
    awaits_sound: bool = False
    """Nothing of its last phrase is made yet."""
    _work_began: Stamp | None = None
    _text_ended: Stamp | None = None
    _voice_made: Stamp | None = None

    def phrase_begins(self) -> None:
        """A phrase is there and its synthesis begins."""
        self.phrase_at = self.clock.now()
        self.awaits_sound = True
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

    @property
    def has_all_text(self) -> bool:
        return self._text_ended is not None

    def voice_made(self, samples: int, sample_rate_hz: int) -> None:
        """A piece of voice is there."""
        self.produced_samples += samples
        metrics.tts_audio_seconds.labels(self.language).inc(samples / sample_rate_hz)
        now = self.clock.now()
        self._voice_made = Stamp.now("tts.last_finished")
        if self.awaits_sound:
            self.awaits_sound = False
            metrics.tts_ttfa_seconds.observe(now - self.phrase_at, metrics.exemplar())
        if self.first_voice is None:
            self.first_voice = now
            self.stamps = (*self.stamps, self._voice_made.renamed("tts.first_finished"))

    def goes_on(self, samples: int) -> None:
        """So much of it was made before: it speaks, and may break off."""
        self.produced_samples = samples
        self.first_voice = self.clock.now() if samples else None

    def heard(self, samples: int) -> None:
        """So much of it has been heard by now."""
        if samples:
            self.heard_from = self.clock.now() - samples / SAMPLE_RATE_HZ

    def heard_out_s(self) -> float:
        """When all that was made so far has been heard, if it is played as soon as it may be."""
        if self.first_voice is None:
            return self.phrase_at
        since = self.clock.now() if self.held else self.heard_from or self.first_voice
        return since + self.produced_samples / SAMPLE_RATE_HZ

    def left_s(self) -> float:
        """Of what was made, this much has not been heard, if it is played as soon as it may be."""
        return self.heard_out_s() - self.clock.now()

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


class Order(IntEnum):
    """Classes of the lane: what goes before what, whoever it is for."""

    FIRST_PHRASE = 0
    """The visitor waits in silence."""
    LATER_PHRASE = 1
    """Among these whoever runs out of voice first. An answer that may yet be thrown away is one of
    them, its first phrase as well."""
    AHEAD = 2
    """Made before it is asked for."""


class MakingTime:
    """How long it takes from a phrase to its sound, by what phrases lately took. Pure.

    Mean and mean deviation, as a connection reckons its round trips (RFC 6298, section 2).
    """

    def __init__(self) -> None:
        self._mean_s = self._deviation_s = 0.0

    @property
    def likely_s(self) -> float:
        """Most take no longer."""
        return max(_LEAST_MAKING_S, self._mean_s + _DEVIATIONS * self._deviation_s)

    def note(self, took_s: float) -> None:
        """One more."""
        self._deviation_s += (abs(took_s - self._mean_s) - self._deviation_s) / 4
        self._mean_s += (took_s - self._mean_s) / 8


class SpeechLane:
    """One synthesizer for all sessions: each piece of an answer is asked for, and awaited."""

    def __init__(
        self, synthesizer: Synthesizer, lane: EngineLane, meter: Meter | None = None
    ) -> None:
        """meter: counts what is made for answers; None: nobody asks."""
        self._synthesizer = synthesizer
        self._lane = lane
        self._meter = meter or Meter(MonotonicClock(), ASSUMED)
        self._speaking: list[TurnLedger] = []
        self.making = MakingTime()
        """Of phrases behind an answer's first one, which goes before them."""

    def is_alone(self, ledger: TurnLedger) -> bool:
        """Whether no other answer that is spoken is still being written."""
        return all(other is ledger or other.has_all_text for other in self._speaking)

    @property
    def phrases(self) -> PhraseCache | None:
        """Sound that was made before it is asked for."""
        return self._synthesizer.phrases

    def state(self, bundle: str) -> EngineState | None:
        """Where the networks of a bundle run; None where that is not known."""
        return self._synthesizer.state(bundle)

    async def speak(
        self,
        phrases: AsyncIterator[Phrase],
        options: SpeechOptions,
        ledger: TurnLedger,
        spoken: Spoken | None = None,
    ) -> AsyncGenerator[SpeechPiece, None]:
        """Pieces of the whole answer, or of what follows what was `spoken`. Close it to stop at
        once.

        Raises InvalidInputError or UnknownNameError for bad options, EngineError.
        """
        answer = self._synthesizer.answer(options, spoken)
        self._speaking.append(ledger)
        try:
            pieces = self._pieces(answer, phrases, ledger)
            async with contextlib.aclosing(pieces):
                async for piece in pieces:
                    yield piece
        finally:
            self._speaking.remove(ledger)

    async def _pieces(
        self, answer: Answer, phrases: AsyncIterator[Phrase], ledger: TurnLedger
    ) -> AsyncGenerator[SpeechPiece, None]:
        begun, owner = False, ledger.owner

        def urgency() -> Urgency:
            order = Order.LATER_PHRASE if begun or ledger.held else Order.FIRST_PHRASE
            return Urgency(order, ledger.heard_out_s(), key=owner, owner=owner)

        async for phrase in phrases:
            ledger.phrase_begins()
            items = self._lane.stream(_timed, answer, phrase, ledger, urgency=urgency)
            stream = cast(AsyncGenerator[Sequence[SpeechPiece], None], items)
            async with contextlib.aclosing(stream) as blocks:
                while (pieces := await self._next(blocks, ledger)) is not None:
                    if begun and pieces and ledger.awaits_sound:
                        self.making.note(ledger.clock.now() - ledger.phrase_at)
                    for piece in pieces:
                        ledger.voice_made(len(piece.voice), SAMPLE_RATE_HZ)
                        yield piece
            begun = ledger.first_voice is not None
        for piece in answer.finish():
            ledger.voice_made(len(piece.voice), SAMPLE_RATE_HZ)
            yield piece

    def confirm(self, ledger: TurnLedger) -> None:
        """A held answer is wanted, and heard from now on. Does nothing for any other."""
        if not ledger.held:
            return
        ledger.held, ledger.heard_from = False, ledger.clock.now()
        if ledger.first_voice is None:
            self._lane.hasten(ledger.owner, Order.FIRST_PHRASE)

    async def _next(
        self, blocks: AsyncGenerator[Sequence[SpeechPiece], None], ledger: TurnLedger
    ) -> Sequence[SpeechPiece] | None:
        """None where there is none. Between two blocks nothing is at work."""
        unit, pieces = self._meter.begin(), None
        try:
            pieces = await anext(blocks, None)
            if pieces and ledger.first_voice is None and not ledger.held:
                unit.first()
            return pieces
        finally:
            self._meter.end(made=pieces is not None)

    async def prerender(
        self, phrases: AsyncIterator[Phrase], options: SpeechOptions
    ) -> tuple[int, int]:
        """Make the sound of all phrases of an answer ahead of time.

        How many there are and how many were not there already. Raises InvalidInputError or
        UnknownNameError for bad options, EngineError.
        """
        answer = self._synthesizer.answer(options)
        count = made = 0
        async for phrase in phrases:
            count += 1
            new = False
            made_ahead = self._lane.stream(
                answer.prerender, phrase, urgency=lambda: Urgency(Order.AHEAD)
            )
            async for _block in made_ahead:
                new = True
            made += new
        return count, made


def _timed(answer: Answer, phrase: Phrase, ledger: TurnLedger) -> PieceSteps:
    ledger.work_begins()
    yield from answer.steps(phrase)
