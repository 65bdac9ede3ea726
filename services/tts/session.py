"""One attached session: its tokens become voice and mel, at most so far ahead of what is heard."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import numpy as np

from services.tts.phrase_feed import TextFeed, cut_phrases
from services.tts.sound import HOP_SAMPLES, N_MELS, SAMPLE_RATE_HZ
from services.tts.speech_lane import SpeechLane, TurnLedger
from services.tts.speech_options import SpeechOptions
from services.tts.synthesizer import SpeechPiece
from visavis.serving.errors import BusError, VisavisError
from visavis.serving.lease import EventStream
from visavis.serving.logs import log_context
from visavis.wire.bus import Bus, Subscription
from visavis.wire.clock import Clock
from visavis.wire.media import ClockChunk, MelChunk, PcmChunk, Place, Stamp, TokenChunk, TurnChunk
from visavis.wire.subjects import Kind

# ------------------------------------------------------------ credit
# Back-pressure by credit: a producer runs only so far ahead of what has been heard.


class CreditWindow:
    """How far a turn's producer may run ahead of the listener.

    Counts in the unit of the producer's choice (voice samples, frames). The consumer's
    progress comes from `clock` chunks; `window` is the lead allowed.
    """

    def __init__(self, window: int) -> None:
        self._window = window
        self._consumed = 0
        self._changed = asyncio.Event()

    @property
    def consumed(self) -> int:
        return self._consumed

    def lead(self, produced: int) -> int:
        """How far `produced` is ahead of what has been consumed."""
        return produced - self._consumed

    def grant(self, consumed: int) -> None:
        """The consumer has come as far as `consumed`. Never goes back."""
        if consumed > self._consumed:
            self._consumed = consumed
            self._changed.set()

    def reset(self) -> None:
        """A new turn begins: nothing of it has been consumed."""
        self._consumed = 0
        self._changed.set()

    async def wait(self, produced: int) -> None:
        """Return once having produced `produced` is within the window."""
        while self.lead(produced) > self._window:
            self._changed.clear()
            await self._changed.wait()


# ------------------------------------------------------------ session

# Text is never dropped: a language model does not get this far ahead of the reader.
_TOKENS_WAITING = 4096


class Turn:
    """The work on one turn."""

    def __init__(self, number: int, ledger: TurnLedger, lead_samples: int) -> None:
        self.number = number
        self.ledger = ledger
        self.feed = TextFeed()
        self.credit = CreditWindow(lead_samples)
        self.task: asyncio.Task[None] | None = None


class Session:
    """At most one turn is at work; a newer one, or its announcement, ends the older at once."""

    def __init__(
        self,
        name: str,
        lane: SpeechLane,
        bus: Bus,
        events: EventStream,
        options: SpeechOptions,
        *,
        lead_s: float,
        clock: Clock,
    ) -> None:
        self.options = options
        self._name = name
        self._lane = lane
        self._bus = bus
        self._events = events
        self._lead_samples = round(lead_s * SAMPLE_RATE_HZ)
        self._clock = clock
        self._epoch = 0
        self._turn_style = (0, "")
        self._turn: Turn | None = None
        self._closed = False
        self._subscriptions: dict[Kind, Subscription] = {}

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """While it lasts the session hears the bus. Its end ends the turn at work."""
        async with contextlib.AsyncExitStack() as stack:
            for kind in (Kind.TURN, Kind.TOKENS, Kind.CLOCK):
                limit = _TOKENS_WAITING if kind is Kind.TOKENS else 64
                subscription = self._bus.subscribe(self._name, kind, limit=limit)
                self._subscriptions[kind] = await stack.enter_async_context(subscription)
            try:
                yield
            finally:
                self._closed = True
                await self._stop()

    async def watch_turns(self) -> None:
        """Follow the session's epoch."""
        async for chunk in self._subscriptions[Kind.TURN]:
            if isinstance(chunk, TurnChunk) and chunk.place.turn >= self._epoch:
                self._turn_style = (chunk.place.turn, chunk.style)
            await self._advance(chunk.place.turn)

    async def watch_clock(self) -> None:
        """Take the credit that playing gives."""
        async for chunk in self._subscriptions[Kind.CLOCK]:
            turn = self._turn
            if turn and chunk.place.turn == turn.number and isinstance(chunk, ClockChunk):
                turn.credit.grant(chunk.place.pts * SAMPLE_RATE_HZ // chunk.sample_rate_hz)

    async def read_tokens(self) -> None:
        """Feed the tokens of each turn to its speaker; the first one starts it."""
        async for chunk in self._subscriptions[Kind.TOKENS]:
            number = chunk.place.turn
            if not isinstance(chunk, TokenChunk) or number < max(self._epoch, 1):
                continue
            await self._advance(number)
            if self._turn is None:
                await self._begin(chunk)
            turn = self._turn
            if turn is None or turn.number != number:
                continue
            turn.feed.add(chunk.text)
            if chunk.place.last:
                turn.ledger.text_ended()
                turn.feed.end()

    async def _advance(self, number: int) -> None:
        if number <= self._epoch:
            return
        self._epoch = number
        for subscription in self._subscriptions.values():
            subscription.advance(number)
        await self._stop()

    async def _begin(self, first: TokenChunk) -> None:
        options = self.options
        number, style = self._turn_style
        if style and number == first.place.turn:
            options = replace(options, style=style)
        stamps = (*first.place.stamps, Stamp.now("tts.first_got"))
        ledger = TurnLedger(self._clock, self._clock.now(), options.language, stamps=stamps)
        turn = Turn(first.place.turn, ledger, self._lead_samples)
        self._turn = turn
        await self._events.turn_started(turn.number)
        turn.task = asyncio.create_task(self._work(turn, options))

    async def _stop(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None and turn.task is not None:
            turn.task.cancel()
            await asyncio.gather(turn.task, return_exceptions=True)

    async def _work(self, turn: Turn, options: SpeechOptions) -> None:
        with log_context(turn=turn.number):
            try:
                await self._speak(turn, options)
            except asyncio.CancelledError:
                if not self._closed:
                    await self._finished(turn, cancelled=True)
                raise
            except Exception as error:
                await self._events.turn_failed(turn.number, error)
            else:
                await self._finished(turn, cancelled=False)

    async def _speak(self, turn: Turn, options: SpeechOptions) -> None:
        """Publish all pieces of the turn, then an empty last chunk of each kind."""
        seq = 0
        try:
            pieces = self._lane.speak(cut_phrases(turn.feed.texts()), options, turn.ledger)
            async with contextlib.aclosing(pieces):
                async for piece in pieces:
                    await self._publish(turn, seq, piece)
                    seq += 1
                    await turn.credit.wait(turn.ledger.produced_samples)
        except VisavisError:
            # What was said so far can be heard to its end.
            with contextlib.suppress(BusError):
                await self._publish_last(turn, seq)
            raise
        await self._publish_last(turn, seq)

    async def _publish(self, turn: Turn, seq: int, piece: SpeechPiece) -> None:
        for notice in piece.notices:
            await self._events.turn_notice(turn.number, "unsupported", notice)
        stamps = turn.ledger.take_stamps()
        place = Place(self._name, turn.number, seq, piece.pts_samples, stamps=stamps)
        voice = PcmChunk(place, SAMPLE_RATE_HZ, piece.voice, piece.marks)
        await self._bus.publish(Kind.VOICE, voice)
        place = Place(self._name, turn.number, seq, piece.pts_hops, stamps=stamps)
        mel = MelChunk(place, SAMPLE_RATE_HZ, HOP_SAMPLES, piece.mel, piece.phonemes, piece.style)
        await self._bus.publish(Kind.MEL, mel)

    async def _publish_last(self, turn: Turn, seq: int) -> None:
        samples, stamps = turn.ledger.produced_samples, turn.ledger.last_stamps()
        place = Place(self._name, turn.number, seq, samples, last=True, stamps=stamps)
        await self._bus.publish(Kind.VOICE, PcmChunk(place, SAMPLE_RATE_HZ, np.zeros(0, np.int16)))
        hops = samples // HOP_SAMPLES
        place = Place(self._name, turn.number, seq, hops, last=True, stamps=stamps)
        no_mel = np.zeros((0, N_MELS), np.float32)
        await self._bus.publish(Kind.MEL, MelChunk(place, SAMPLE_RATE_HZ, HOP_SAMPLES, no_mel))

    async def _finished(self, turn: Turn, *, cancelled: bool) -> None:
        await self._events.turn_finished(
            turn.number,
            seconds=turn.ledger.seconds(),
            produced=turn.ledger.produced_samples,
            cancelled=cancelled,
        )
