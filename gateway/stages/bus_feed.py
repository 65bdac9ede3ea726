"""A session's ends of the bus: what it reads, what it writes, in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gateway.apps.speech import VoicePiece
from gateway.talk.actions import AS_THE_SESSION_SAYS, Manner
from gateway.talk.microphone import RATE_HZ as MIC_RATE_HZ
from visavis.serving.errors import BusError
from visavis.serving.lifetime.supervision import end_tasks
from visavis.wire.bus import Bus, Subscription, enter_all
from visavis.wire.media import Chunk, ClockChunk, PcmChunk, Place, TokenChunk, TurnChunk
from visavis.wire.subjects import Kind

log = logging.getLogger(__name__)

# Chunks that may wait: seconds of voice and pictures, a whole answer's tokens.
LIMITS = {
    Kind.TRANSCRIPT: 64,
    Kind.TOKENS: 512,
    Kind.VOICE: 128,
    Kind.MEL: 128,
    Kind.VIDEO: 128,
}
OUTBOX_LIMIT = 512


class BusFeed:
    """Reads one session's chunks from the bus, and writes what it has to say, in order.

    handlers: what is called with each decoded chunk of a kind.
    """

    def __init__(self, bus: Bus, session: str, handlers: dict[Kind, Callable[[Any], None]]) -> None:
        self.dropped = 0
        self.cause = ""
        """The traceparent of the utterance of which was heard last; "": it is not traced."""
        self._bus = bus
        self._session = session
        self._handlers = handlers
        self._stack = AsyncExitStack()
        self._subscriptions: list[Subscription] = []
        self.tasks: list[asyncio.Task[None]] = []
        """They end only by a fault of ours."""
        self._outbox: asyncio.Queue[tuple[Kind, Chunk, str]] = asyncio.Queue(OUTBOX_LIMIT)
        self._announced: TurnChunk | None = None
        self._traceparent = ""
        self._mic_seq = 0
        self._clock_seq = 0
        self._answer_chars = 0
        """To be said, of the answer that is sent."""
        self._losses = bus.losses

    def newly_lost(self) -> bool:
        """Whether the bus is back that has gone since the newest turn was announced first, be it
        for a moment, and this was not told before.
        """
        if not self._bus.connected:
            return False
        before, self._losses = self._losses, self._bus.losses
        return self._losses > before

    async def open(self) -> None:
        """Subscribe. Raises BusError."""
        wanted = [self._bus.subscribe(self._session, k, limit=LIMITS[k]) for k in self._handlers]
        await enter_all(self._stack, wanted)
        self._subscriptions = wanted
        for subscription, handler in zip(wanted, self._handlers.values(), strict=True):
            self.tasks.append(asyncio.create_task(self._pump(subscription, handler)))
        self.tasks.append(asyncio.create_task(self._write()))

    async def close(self) -> None:
        await end_tasks(self.tasks)
        await self._stack.aclose()

    def announce(
        self,
        turn: int,
        reason: str,
        *,
        held: bool = False,
        manner: Manner = AS_THE_SESSION_SAYS,
        motion_frame: int | None = None,
        traceparent: str = "",
    ) -> None:
        """Make `turn` the epoch; what waits of older turns is dropped unread.

        motion_frame: of the face, where viewers see it from memory.
        traceparent: of the turn's span.
        """
        if self._announced is None or turn != self._announced.place.turn:
            self._losses = self._bus.losses  # one that is confirmed may have been at work by then
        for subscription in self._subscriptions:
            subscription.advance(turn)
        place = Place(self._session, turn, 0, 0)
        self._announced = TurnChunk(
            place, reason, held, manner.style, motion_frame, manner.language
        )
        self._traceparent = traceparent
        self._put(Kind.TURN, self._announced, traceparent)
        self._clock_seq = 0

    def announce_again(self, *, held: bool, motion_frame: int | None) -> None:
        """Say it to a replica that may have come too late for it."""
        again = replace(self.announced_as(motion_frame), held=held)
        self._put(Kind.TURN, again, self._traceparent)

    def announced_as(self, motion_frame: int | None) -> TurnChunk:
        """What was announced last, as it would be now. Call `announce` before."""
        assert self._announced is not None
        return replace(self._announced, motion_frame=motion_frame)

    def send_mic(self, pts: int, pcm: NDArray[np.int16], *, recorded: bool = False) -> None:
        """Microphone sound. pcm: [N] int16 at 16 kHz, at most one second.

        recorded: it was said before now.
        """
        place = Place(self._session, 0, self._mic_seq, pts)
        self._mic_seq += 1
        self._put(Kind.MIC, PcmChunk(place, MIC_RATE_HZ, pcm, recorded=recorded))

    def send_clock(
        self,
        turn: int,
        played_samples: int,
        sample_rate_hz: int,
        *,
        paused: bool = False,
        motion_frame: int | None = None,
    ) -> None:
        """So much of the turn's voice has been heard, and it goes on or stands still.

        motion_frame: as in `announce`.
        """
        place = Place(self._session, turn, self._clock_seq, played_samples)
        self._clock_seq += 1
        self._put(Kind.CLOCK, ClockChunk(place, sample_rate_hz, paused, motion_frame))

    def send_answer(
        self,
        turn: int,
        text: str,
        seq: int = 0,
        block: int = 0,
        language: str = "",
        *,
        last: bool = True,
        run: int = 0,
    ) -> None:
        """An answer that needs no language model of the session's: it goes where tokens go.

        seq: of a piece of it, from 0 on; last: nothing follows. block, language, run: as of a
        `TokenChunk`.
        """
        chars = self._answer_chars if seq else 0
        self._answer_chars = chars if block else chars + len(text)
        place = Place(self._session, turn, seq, chars, last=last)
        self._put(Kind.TOKENS, TokenChunk(place, text, block, language, run))

    def send_voice(self, turn: int, seq: int, piece: VoicePiece) -> None:
        """A piece of the voice that a client brings: where a synthesised one goes."""
        place = Place(self._session, turn, seq, piece.pts, piece.last)
        self._put(Kind.VOICE, PcmChunk(place, piece.rate_hz, piece.pcm))

    def _put(self, kind: Kind, chunk: Chunk, traceparent: str = "") -> None:
        try:
            self._outbox.put_nowait((kind, chunk, traceparent))
        except asyncio.QueueFull:
            # The bus has been away for seconds: fresh chunks matter, these do not.
            self.dropped += 1

    async def _write(self) -> None:
        while True:
            kind, chunk, traceparent = await self._outbox.get()
            try:
                await self._bus.publish(kind, chunk, traceparent)
            except BusError as error:
                self.dropped += 1
                log.warning("publish: %s", error)

    async def _pump(self, subscription: Subscription, handler: Callable[[Any], None]) -> None:
        async for chunk in subscription:
            if subscription.kind is Kind.TRANSCRIPT:
                self.cause = subscription.traceparent
            handler(chunk)
