"""One attached session: begins turns, publishes their tokens, drops what is over."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from services.llm.generator import Answer, AnswerRequest, Generator
from visavis.serving.errors import BusError, InvalidInputError, VisavisError
from visavis.serving.lease import EventStream
from visavis.serving.logs import log_context
from visavis.wire.bus import Bus, Subscription
from visavis.wire.media import Place, Stamp, TokenChunk
from visavis.wire.subjects import Kind

log = logging.getLogger(__name__)


class Session:
    """At most one turn is at work; a newer one, or its announcement, ends the older at once."""

    def __init__(
        self, name: str, slot: int, generator: Generator, bus: Bus, events: EventStream
    ) -> None:
        self._name = name
        self._slot = slot
        self._generator = generator
        self._bus = bus
        self._events = events
        self._epoch = 0
        self._begun = 0
        self._closed = False
        self._at_work: asyncio.Task[None] | None = None
        self._to_read: Callable[[], AnswerRequest] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._turns: Subscription | None = None

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """While it lasts the session hears of new turns. Its end ends the turn at work."""
        async with self._bus.subscribe(self._name, Kind.TURN) as self._turns:
            try:
                yield
            finally:
                self._closed = True
                await self._stop()
                await self._stop_reading()

    async def watch_turns(self) -> None:
        """Follow the session's epoch, for as long as `listening` lasts."""
        assert self._turns is not None, "watch_turns outside listening()"
        async for chunk in self._turns:
            turn = chunk.place.turn
            if turn > self._epoch:
                self._epoch = turn
                self._turns.advance(turn)
                if turn > self._begun:
                    await self._stop()

    async def begin(self, turn: int, read_request: Callable[[], AnswerRequest]) -> None:
        """Start to answer; what is wrong with the turn is told as an event, not raised."""
        if turn <= self._begun:
            message = f"turn: {turn} does not follow {self._begun}; turns count upwards from 1"
            await self._events.turn_failed(turn, InvalidInputError(message))
            return
        self._begun = turn
        # What is being read now is the beginning of what follows: it is let finish.
        self._to_read = None
        await self._stop()
        await self._events.turn_started(turn)
        if turn < self._epoch:
            await self._events.turn_finished(turn, seconds={}, produced=0, cancelled=True)
            return
        try:
            request = read_request()
        except InvalidInputError as error:
            await self._events.turn_failed(turn, error)
            return
        self._at_work = asyncio.create_task(self._answer(turn, request))
        # A task that is cancelled before its first step could not tell that it was.
        await asyncio.sleep(0)

    def read_ahead(self, read_request: Callable[[], AnswerRequest]) -> None:
        """Read a conversation whose last message is still being spoken, once the slot is free.

        Of several that wait the newest counts. It saves time or does nothing: no event tells.
        """
        if self._at_work is not None and not self._at_work.done():
            return
        self._to_read = read_request
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        while (read_request := self._to_read) is not None:
            self._to_read = None
            try:
                await self._generator.read_ahead(read_request(), self._slot)
            except VisavisError as error:
                log.debug("read ahead: %s", error)
            except Exception:
                log.exception("reading ahead failed")

    async def _stop_reading(self) -> None:
        task, self._reading, self._to_read = self._reading, None, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _stop(self) -> None:
        task, self._at_work = self._at_work, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _answer(self, turn: int, request: AnswerRequest) -> None:
        got = Stamp.now("llm.first_got")
        answer = self._generator.answer(request, self._slot)
        with log_context(turn=turn):
            try:
                if self._reading is not None:
                    await asyncio.wait({self._reading})
                await self._publish(turn, answer, got)
            except asyncio.CancelledError:
                if not self._closed:
                    await self._finished(turn, answer, cancelled=True)
                raise
            except Exception as error:
                await self._events.turn_failed(turn, error)
            else:
                await self._finished(turn, answer, cancelled=False)
            finally:
                answer.ledger.observe()

    async def _publish(self, turn: int, answer: Answer, got: Stamp) -> None:
        """Every piece as a chunk, and an empty last one; the first carries when it came."""
        asked = Stamp.now("llm.first_started")
        seq = chars = 0
        try:
            async with contextlib.aclosing(answer.pieces) as pieces:
                async for text in pieces:
                    stamps = () if seq else (got, *_first_stamps(asked, answer.ledger.queue_s))
                    place = Place(self._name, turn, seq, chars, stamps=stamps)
                    await self._bus.publish(Kind.TOKENS, TokenChunk(place, text))
                    seq += 1
                    chars += len(text)
        except VisavisError:
            # What was said so far can be spoken to its end.
            with contextlib.suppress(BusError):
                await self._publish_last(turn, seq, chars)
            raise
        await self._publish_last(turn, seq, chars)

    async def _publish_last(self, turn: int, seq: int, chars: int) -> None:
        stamps = (Stamp.now("llm.last_finished"),)
        place = Place(self._name, turn, seq, chars, last=True, stamps=stamps)
        await self._bus.publish(Kind.TOKENS, TokenChunk(place, ""))

    async def _finished(self, turn: int, answer: Answer, *, cancelled: bool) -> None:
        ledger = answer.ledger
        await self._events.turn_finished(
            turn,
            seconds=ledger.seconds(),
            produced=ledger.completion_tokens,
            cancelled=cancelled,
        )


def _first_stamps(asked: Stamp, queue_s: float | None) -> tuple[Stamp, ...]:
    """Of the first piece, which has just come. queue_s: from `asked` to the first work."""
    queued_ns = round((queue_s or 0.0) * 1e9)
    started = replace(asked, monotonic_ns=asked.monotonic_ns + queued_ns)
    return started, Stamp.now("llm.first_finished")
