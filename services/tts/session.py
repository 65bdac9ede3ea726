"""One attached session: its tokens become voice and mel, at most so far ahead of what is heard."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from services.tts.phrase_feed import TextFeed, cut_phrases
from services.tts.sound import HOP_SAMPLES, N_MELS, SAMPLE_RATE_HZ
from services.tts.speech_lane import SpeechLane, TurnLedger
from services.tts.speech_options import SpeechOptions
from services.tts.synthesizer import SpeechPiece, Spoken
from visavis.serving.errors import BusError, VisavisError
from visavis.serving.stage import CHUNKS_WAITING, Stage, StageWork, Turn
from visavis.serving.telemetry.stages import Work
from visavis.wire.clock import Clock
from visavis.wire.media import ClockChunk, MelChunk, PcmChunk, Stamp, TokenChunk, TurnChunk
from visavis.wire.subjects import Kind

# Text is never dropped: a language model does not get this far ahead of the reader.
_TOKENS_WAITING = 4096


class CreditWindow:
    """How far a turn's voice may run ahead of the listener, in samples."""

    def __init__(self, window: int) -> None:
        """window: the lead allowed."""
        self._window = window
        self._consumed = 0
        self._changed = asyncio.Event()

    def grant(self, consumed: int) -> None:
        """The listener has come as far as `consumed`. Never goes back."""
        if consumed > self._consumed:
            self._consumed = consumed
            self._changed.set()

    async def wait_for_room(self, produced: int) -> None:
        """Return once having produced `produced` is within the window."""
        while produced - self._consumed > self._window:
            self._changed.clear()
            await self._changed.wait()


@dataclass(frozen=True, slots=True)
class Resumption:
    """How far a turn is whose voice is to go on here."""

    turn: TurnChunk
    """As it was announced."""
    text: str
    """So far, tags and all."""
    complete: bool
    spoken: Spoken
    """What of it has a voice."""
    heard_samples: int
    run: int = 0
    """Of the voice, as in `PcmChunk`."""
    text_run: int = 0
    """Of the tokens behind the text."""


class SpokenTurn(Turn):
    """The voice of one turn: its text as it comes, and how much of it may be made now."""

    def __init__(
        self,
        number: int,
        ledger: TurnLedger,
        lead_samples: int,
        clock: Clock,
        resumed: Resumption | None = None,
    ) -> None:
        super().__init__(number)
        self.ledger = ledger
        self.spoken = Spoken()
        self.run, self._text_run = 0, 0
        self._chars = 0
        """Of the text so far, tags and all."""
        self.feed = TextFeed(clock)
        self.credit = CreditWindow(lead_samples)
        if resumed is not None:
            self._resume(resumed)

    def _resume(self, resumed: Resumption) -> None:
        self.spoken = resumed.spoken
        self.run, self._text_run = resumed.run, resumed.text_run
        self.ledger.goes_on(resumed.spoken.samples)
        self.heard(resumed.heard_samples)
        self._take(resumed.text, last=resumed.complete)

    @property
    def produced(self) -> int:
        return self.ledger.produced_samples

    def add(self, chunk: TokenChunk) -> None:
        """Text that follows; what is known of it is left out. Nothing is taken of another run, or
        behind words that are missing: how the turn goes on then is told.
        """
        known = self._chars - chunk.place.pts
        if chunk.run == self._text_run and known >= 0:
            self._take(chunk.text[known:], last=chunk.place.last)

    def _take(self, text: str, *, last: bool) -> None:
        self._chars += len(text)
        self.feed.add(text)
        if last:
            self.ledger.text_ended()
            self.feed.end()

    def heard(self, samples: int) -> None:
        """The listener has come as far as this."""
        self.credit.grant(samples)
        self.ledger.heard(samples)

    @property
    def unspoken(self) -> bool:
        """There is no phrase yet, and no more text than was looked at."""
        return self.ledger.first_phrase is None and self.feed.awaited

    def spare_s(self, making_s: float) -> float | None:
        """How long more text can be awaited before the voice breaks off, with so much time for the
        next phrase to be made. None: it does not speak, or nobody waits for it yet.

        Once it has broken off an ordinary phrase is better: short ones cost more and are gaps
        again.
        """
        left_s = self.ledger.left_s()
        speaks = self.ledger.first_voice is not None and left_s > 0
        return left_s - making_s if speaks and not self.ledger.held else None

    def hurried(self, making_s: float) -> bool:
        """The voice would break off before a phrase of ordinary length is written and made."""
        spare_s = self.spare_s(making_s)
        return spare_s is not None and self.feed.hurried(spare_s)

    def seconds(self) -> dict[str, float]:
        return self.ledger.seconds()

    def traced_as(self) -> Work:
        return Work("speak")


class SpeakingSession(StageWork):
    """One session's voice: `tokens` in, `voice` and `mel` out, as `clock` gives credit."""

    inputs = MappingProxyType(
        {Kind.TURN: CHUNKS_WAITING, Kind.TOKENS: _TOKENS_WAITING, Kind.CLOCK: CHUNKS_WAITING}
    )

    def __init__(
        self,
        stage: Stage[SpokenTurn],
        lane: SpeechLane,
        options: SpeechOptions,
        *,
        lead_s: float,
        clock: Clock,
    ) -> None:
        """options: of the turns that begin from now on; they may be replaced at any time."""
        self.options = options
        self._stage = stage
        self._lane = lane
        self._lead_samples = round(lead_s * SAMPLE_RATE_HZ)
        self._clock = clock
        self._announced: TurnChunk | None = None
        self._came: deque[TokenChunk] = deque(maxlen=_TOKENS_WAITING)
        """Of the newest turn, in order: where that is told to go on, some of it may be behind what
        is told."""

    def announced(self, chunk: TurnChunk) -> None:
        """A turn that was held is announced again once its answer is wanted."""
        self._announced = chunk
        turn = self._stage.turn
        if turn is not None and turn.number == chunk.place.turn and not chunk.held:
            self._lane.confirm(turn.ledger)
            turn.feed.look_again()

    def loops(self) -> Sequence[Coroutine[Any, Any, None]]:
        return [self._read_tokens(), self._take_credit()]

    async def _take_credit(self) -> None:
        """Playing gives credit."""
        async for chunk in self._stage.chunks(Kind.CLOCK):
            turn = self._stage.turn
            if turn and chunk.place.turn == turn.number and isinstance(chunk, ClockChunk):
                turn.heard(chunk.place.pts * SAMPLE_RATE_HZ // chunk.sample_rate_hz)

    async def _read_tokens(self) -> None:
        """Feed the tokens of each turn to its speaker; the first one starts it. Of one whose
        beginning went to another replica they wait until it is told to go on here.
        """
        async for chunk in self._stage.chunks(Kind.TOKENS):
            number = chunk.place.turn
            if not isinstance(chunk, TokenChunk) or not self._stage.wants(number):
                continue
            if chunk.block:
                continue  # nobody says it
            self._keep(chunk)
            if number > self._stage.begun and not (chunk.place.pts or chunk.run):
                await self._begin(chunk)
            turn = self._stage.turn
            if turn is not None and turn.number == number:
                turn.add(chunk)

    async def _begin(self, first: TokenChunk) -> None:
        # The older turn ends first: meanwhile it may be announced how this one is to be said.
        await self._stage.advance(first.place.turn)
        stamps = (*first.place.stamps, Stamp.now("tts.first_got"))
        await self._start(first.place.turn, self._announced, stamps)

    async def resume(self, resumed: Resumption) -> None:
        """Go on with a turn of another replica's, or of this one's that has missed some text."""
        number = resumed.turn.place.turn
        if not self._stage.wants(number):
            return
        await self._stage.advance(number)
        turn = await self._start(number, resumed.turn, (), resumed)
        for chunk in self._came:
            if chunk.place.turn == number:
                turn.add(chunk)

    def _keep(self, chunk: TokenChunk) -> None:
        if self._came and self._came[-1].place.turn != chunk.place.turn:
            self._came.clear()
        self._came.append(chunk)

    async def _start(
        self,
        number: int,
        announced: TurnChunk | None,
        stamps: tuple[Stamp, ...],
        resumed: Resumption | None = None,
    ) -> SpokenTurn:
        options, held = self.options, False
        if announced is not None and announced.place.turn == number:
            held = announced.held
            style = announced.style or options.style
            language = announced.language or options.language
            options = replace(options, style=style, language=language)
        now_s = self._clock.now()
        ledger = TurnLedger(self._clock, now_s, options.language, held, stamps=stamps)
        turn = SpokenTurn(number, ledger, self._lead_samples, self._clock, resumed)
        anew = resumed is not None
        await self._stage.begin_turn(turn, lambda: self._speak(turn, options), anew=anew)
        return turn

    async def _speak(self, turn: SpokenTurn, options: SpeechOptions) -> None:
        """Publish all pieces of the turn, then an empty last chunk of each kind."""
        try:
            making = self._lane.making
            phrases = cut_phrases(
                turn.feed.texts(lambda: turn.spare_s(making.likely_s)),
                lambda: turn.hurried(making.likely_s),
                # Another answer that is written delays this one: what is said first has to last.
                early=lambda: turn.unspoken and self._lane.is_alone(turn.ledger),
                said=turn.spoken.chars,
            )
            pieces = self._lane.speak(phrases, options, turn.ledger, turn.spoken)
            async with contextlib.aclosing(pieces):
                async for piece in pieces:
                    await self._publish(turn, piece)
                    await turn.credit.wait_for_room(turn.ledger.produced_samples)
        except VisavisError:
            # What was said so far can be heard to its end.
            with contextlib.suppress(BusError):
                await self._publish_last(turn)
            raise
        await self._publish_last(turn)

    async def _publish(self, turn: SpokenTurn, piece: SpeechPiece) -> None:
        for notice in piece.notices:
            await self._stage.notice(turn.number, notice)
        stamps = turn.ledger.take_stamps()
        place = self._stage.place(turn.number, Kind.VOICE, piece.pts_samples, stamps=stamps)
        voice = PcmChunk(place, SAMPLE_RATE_HZ, piece.voice, piece.marks, run=turn.run)
        await self._stage.publish(Kind.VOICE, voice)
        place = self._stage.place(turn.number, Kind.MEL, piece.pts_hops, stamps=stamps)
        mel = MelChunk(
            place, SAMPLE_RATE_HZ, HOP_SAMPLES, piece.mel, piece.phonemes, piece.style, turn.run
        )
        await self._stage.publish(Kind.MEL, mel)

    async def _publish_last(self, turn: SpokenTurn) -> None:
        samples, stamps = turn.ledger.produced_samples, turn.ledger.last_stamps()
        place = self._stage.place(turn.number, Kind.VOICE, samples, last=True, stamps=stamps)
        voice = PcmChunk(place, SAMPLE_RATE_HZ, np.zeros(0, np.int16), run=turn.run)
        await self._stage.publish(Kind.VOICE, voice)
        hops = samples // HOP_SAMPLES
        place = self._stage.place(turn.number, Kind.MEL, hops, last=True, stamps=stamps)
        no_mel = np.zeros((0, N_MELS), np.float32)
        mel = MelChunk(place, SAMPLE_RATE_HZ, HOP_SAMPLES, no_mel, run=turn.run)
        await self._stage.publish(Kind.MEL, mel)
