"""What each of the four services is to a session that is attached to it: a stage.

`TurnNumbers` and `ChunkNumbers` are bookkeeping without a bus. `Stage` follows the session's
epoch, has one turn at work and tells how it ends; `Leases` hands stages out, as many as there are
slots. A service brings a `StageWork`, its part of the work, and a `Turn` of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import replace
from importlib.metadata import version
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from visavis.engine.base import EngineState
from visavis.serving import metrics
from visavis.serving.admission.admission import Admission, Capacity
from visavis.serving.admission.departures import Departures
from visavis.serving.admission.reporting import message_of
from visavis.serving.errors import AtCapacityError, DrainingError
from visavis.serving.lease import EventStream, Request, SlotTable, clock_reading, need_bus
from visavis.serving.lifetime.supervision import end_tasks
from visavis.serving.logs import log_context
from visavis.serving.telemetry.stages import Work, stage_traces
from visavis.v1 import control_pb2 as pb
from visavis.wire.bus import Bus, Subscription, enter_all
from visavis.wire.clock import MonotonicClock
from visavis.wire.media import Chunk, Place, Stamp, TurnChunk
from visavis.wire.subjects import Kind

log = logging.getLogger(__name__)

CHUNKS_WAITING = 64
"""How many chunks of a kind may wait to be read, where nothing speaks for another number."""


class TurnNumbers:
    """Which of a session's turns are over, begun or refused; turns count upwards from 1."""

    def __init__(self) -> None:
        self.epoch = 0
        """The session's turn now: older ones are over."""
        self.begun = 0
        """The newest turn that was begun here."""
        self._refused = 0

    def advance(self, number: int) -> bool:
        """The session's turn is `number` now. False where it was so before, or is a newer one."""
        newer = number > self.epoch
        self.epoch = max(self.epoch, number)
        return newer

    def begin(self, number: int, *, anew: bool = False) -> bool:
        """Whether the turn begins with this: False for one that is not newer than all before.

        anew: the newest one, too, also where it was refused.
        """
        begins = number > self.begun or (anew and number == self.begun)
        self.begun = max(self.begun, number)
        if begins and anew and self._refused == number:
            self._refused = number - 1
        return begins

    def refuse(self, number: int) -> bool:
        """Nothing more is to be made of the turn. False where that was so before."""
        wanted = self.wants(number)
        self._refused = max(self._refused, number)
        return wanted

    def wants(self, number: int) -> bool:
        """Whether chunks of this turn are of use: it is one, not over, and was not refused."""
        return number >= max(self.epoch, 1) and number > self._refused


class ChunkNumbers:
    """Counts what is sent: the chunks of each kind within a turn, and outside of turns."""

    def __init__(self) -> None:
        self._sent: Counter[tuple[int, Kind]] = Counter()

    def take(self, turn: int, kind: Kind) -> int:
        """The `seq` of the next chunk. Turn 0 is the session's own, and counts on for ever."""
        seq = self._sent[turn, kind]
        self._sent[turn, kind] += 1
        return seq

    def forget(self, before: int) -> None:
        """Turns older than `before` are over: nothing of them is counted any more."""
        for turn, kind in list(self._sent):
            if 0 < turn < before:
                del self._sent[turn, kind]

    def restart(self, turn: int) -> None:
        """All that is sent of it counts from 0 again."""
        for of, kind in list(self._sent):
            if of == turn:
                del self._sent[of, kind]


class Turn(ABC):
    """The work on one turn in one stage, as far as the lease's events tell of it."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.ended = False
        """Finished, failed or cancelled: nothing more comes of it."""

    @property
    @abstractmethod
    def produced(self) -> int:
        """Units made so far: tokens, voice samples or frames."""

    @abstractmethod
    def seconds(self) -> dict[str, float]:
        """Where the stage's time went: name to seconds."""

    def traced_as(self) -> Work:
        """How its span is called, and what it says beside `produced` and `seconds`."""
        return Work("turn")


class StageWork:
    """What a service does for one session; its stage calls these."""

    inputs: Mapping[Kind, int] = MappingProxyType({Kind.TURN: CHUNKS_WAITING})
    """The kinds of chunks that it reads, and how many of each may wait.

    Where `turn` is among them the stage follows the session's epoch.
    """

    def announced(self, chunk: TurnChunk) -> None:
        """A turn has begun in the gateway; called before older ones are ended."""

    def loops(self) -> Sequence[Coroutine[Any, Any, None]]:
        """What runs for as long as the lease does; what one of them raises ends the lease."""
        return ()


TurnT = TypeVar("TurnT", bound=Turn)


class Stage(Generic[TurnT]):
    """One session at one service: its chunks, its epoch and the one turn that is at work.

    A newer turn, or its announcement on the bus, ends the older at once. A turn that fails is an
    event of the lease, and the next one may succeed.
    """

    def __init__(self, session: str, bus: Bus, instance: str, draining: asyncio.Event) -> None:
        """session: as in the subjects. instance: the replica, as `ready` names it.

        draining: set once the session is to go to another replica.
        """
        self.turn: TurnT | None = None
        """The newest turn that was begun, until a newer one has come: see its `ended`."""
        self.session = session
        self._bus = bus
        self._instance = instance
        self._draining = draining
        self._events = EventStream()
        self._turns = TurnNumbers()
        self._sent = ChunkNumbers()
        self._traces = stage_traces(session)
        self._inputs: dict[Kind, Subscription] = {}
        self._work: asyncio.Task[None] | None = None
        # One task at a time ends the turn at work and begins the next one.
        self._changing = asyncio.Lock()

    @property
    def begun(self) -> int:
        """Number of the newest turn that was begun here; 0 before the first."""
        return self._turns.begun

    @property
    def busy(self) -> bool:
        """Whether a turn is at work."""
        return self.turn is not None and not self.turn.ended

    def wants(self, number: int) -> bool:
        """Whether chunks of this turn are of use: it is not over and has not failed."""
        return self._turns.wants(number)

    # The bus

    def chunks(self, kind: Kind) -> Subscription:
        """What comes of one of the work's `inputs`; chunks of turns that are over do not."""
        return self._inputs[kind]

    def place(
        self,
        turn: int,
        kind: Kind,
        pts: int,
        *,
        last: bool = False,
        stamps: tuple[Stamp, ...] = (),
    ) -> Place:
        """Where the next chunk of `kind` belongs; it counts as sent. Turn 0: to no turn."""
        seq = self._sent.take(turn, kind)
        return Place(self.session, turn, seq, pts, last=last, stamps=stamps)

    async def publish(self, kind: Kind, chunk: Chunk, traceparent: str = "") -> None:
        """Send a chunk to whoever reads it. Raises BusError."""
        await self._bus.publish(kind, chunk, traceparent)

    # Turns

    async def advance(self, number: int) -> None:
        """The session's turn is `number` now: what is of older ones is dropped, in every queue."""
        if not self._turns.advance(number):
            return
        self._sent.forget(number)
        for subscription in self._inputs.values():
            subscription.advance(number)
        async with self._changing:
            old = self.turn
            if old is not None and old.number < self._turns.epoch:
                await self._cancel_work()
                self.turn = None
                await self.finish(old, cancelled=True)

    async def begin_turn(
        self,
        turn: TurnT,
        work: Callable[[], Awaitable[None]] | None = None,
        *,
        anew: bool = False,
    ) -> None:
        """Put `turn` to work in place of an older one, and tell that it has started.

        work: runs in a task of its own; how it ends is told. Without it, `finish` is to be called.
        Nothing happens where the turn was begun before; one that is over by now is told as
        cancelled. anew: the newest is begun again, also where it failed, and what was at work on it
        ends untold.
        """
        if not self._turns.begin(turn.number, anew=anew):
            return
        await self.advance(turn.number)
        if self._traces is not None:
            self._traces.began(turn.number)
        async with self._changing:
            over = turn.number < self._turns.epoch
            if not over:
                if self.turn is not None and self.turn.number == turn.number:
                    await self._cancel_work()
                    self._sent.restart(turn.number)
                self.turn = turn
            await self._events.turn_started(turn.number)
            if over:
                await self.finish(turn, cancelled=True)
            elif work is not None:
                self._work = asyncio.create_task(self._run(turn, work))

    async def finish(self, turn: TurnT, *, cancelled: bool = False) -> None:
        """The turn is complete, or was cancelled. Told once."""
        if not turn.ended:
            turn.ended = True
            self._trace(turn, cancelled=cancelled)
            await self._events.turn_finished(
                turn.number, seconds=turn.seconds(), produced=turn.produced, cancelled=cancelled
            )

    async def fail(self, number: int, error: Exception) -> None:
        """The turn cannot go on, or never began; the lease lives on. Told once."""
        if not self._turns.refuse(number):
            log.info("turn %d, of which nothing is wanted any more: %s", number, error)
            return
        if self.turn is not None and self.turn.number == number:
            self.turn.ended = True
            self._trace(self.turn, error=str(error) or type(error).__name__)
        await self._events.turn_failed(number, error)

    def _trace(self, turn: TurnT, *, cancelled: bool = False, error: str = "") -> None:
        if self._traces is not None:
            seconds = {f"visavis.{name}_s": value for name, value in turn.seconds().items()}
            about = {"visavis.produced": turn.produced, "visavis.cancelled": cancelled, **seconds}
            self._traces.ended(turn.number, turn.traced_as(), about, error=error)

    async def refuse_request(self, number: int, error: Exception) -> None:
        """What the client asked of this turn cannot be; turns and their work stay as they are."""
        await self._events.turn_failed(number, error)

    async def notice(self, number: int, message: str) -> None:
        """Something that was asked for is not supported; the turn goes on without it."""
        await self._events.turn_notice(number, "unsupported", message)

    async def tools_called(
        self, number: int, text: str, calls: Iterable[tuple[str, str, str]], run: int
    ) -> None:
        """The turn waits for results. calls: id, name and arguments in JSON; text: said before;
        run: that calls.
        """
        await self._events.tools_called(number, text, calls, run)

    # The lease

    async def serve(
        self,
        work: StageWork,
        requests: AsyncIterator[Request],
        on_request: Callable[[Request], Awaitable[None]],
    ) -> AsyncGenerator[pb.AttachEvent, None]:
        """The events of an Attach stream, from `ready` to the end of the lease.

        It ends as the client closes its side or goes away, or with the error that a request or
        one of the work's loops raises; everything that was started for it ends with it. Raises
        BusError where the session's subjects cannot be heard.
        """
        async with contextlib.AsyncExitStack() as held:
            self._inputs = {
                kind: self._bus.subscribe(self.session, kind, limit=limit)
                for kind, limit in work.inputs.items()
            }
            await enter_all(held, list(self._inputs.values()))
            held.push_async_callback(self._cancel_work)
            await self._events.ready(self._instance)
            loops = [*work.loops(), self._tell_draining(), self._tell_losses()]
            if Kind.TURN in self._inputs:
                loops.append(self._follow(work.announced))
            stream = self._events.serve(requests, on_request, *loops)
            await held.enter_async_context(contextlib.aclosing(stream))
            async for event in stream:
                yield event

    async def _tell_draining(self) -> None:
        await self._draining.wait()
        await self._events.draining()

    async def _tell_losses(self) -> None:
        losses = self._bus.losses
        while True:
            losses = await self._bus.next_loss(losses)
            await self._events.bus_lost(away=not self._bus.connected)

    async def _follow(self, announced: Callable[[TurnChunk], None]) -> None:
        async for chunk in self._inputs[Kind.TURN]:
            assert isinstance(chunk, TurnChunk)
            if self._traces is not None:
                self._traces.announced(chunk.place.turn, self._inputs[Kind.TURN].traceparent)
            if chunk.place.turn >= self._turns.epoch:
                announced(chunk)
                await self.advance(chunk.place.turn)

    async def _run(self, turn: TurnT, work: Callable[[], Awaitable[None]]) -> None:
        with log_context(turn=turn.number):
            try:
                await work()
            except Exception as error:
                await self.fail(turn.number, error)
            else:
                await self.finish(turn)

    async def _cancel_work(self) -> None:
        if self._work is not None:
            await end_tasks([self._work])
            self._work = None


class Leases:
    """One replica's sessions: each holds a slot for as long as its Attach stream is open."""

    def __init__(self, service: str, instance: str, bus: Bus | None, admission: Admission) -> None:
        """bus: None where the service runs for its plain gRPC API alone."""
        self.admission = admission
        self.slots = SlotTable(admission.slots, admission.meter.attached)
        self._service = service
        self._instance = instance
        self._bus = bus
        self._version = version("visavis")
        self.free_slots: Callable[[], int] = lambda: self.slots.free
        """How many sessions more find a slot; a service whose other calls take slots, too, says."""
        self._draining = asyncio.Event()
        self._departures = Departures()
        self._clock = MonotonicClock()

    @contextlib.contextmanager
    def attach(
        self, session: str, *, admitted: bool = False, light: bool = False
    ) -> Iterator[Stage[Any]]:
        """A slot and the stage of `session` in it, if deadlines hold with it.

        admitted: it was let in before and only comes back; a slot is all that it needs. light: it
        asks so little that it is not weighed and takes no slot, until `slots.weigh`. Raises
        BusError without a bus, InvalidInputError, AlreadyExistsError, DrainingError, or
        AtCapacityError with the wait that is to be expected, by how long sessions were here.
        """
        bus = need_bus(self._bus)
        if self._draining.is_set():
            raise DrainingError(f"{self._instance} is about to end; ask another replica")
        # Nothing is awaited between the question and the slot: no two get the same place.
        weighed = not admitted and not light and session not in self.slots
        if weighed and (why := self.admission.refusal()):
            metrics.admission_refusals.inc()
            raise self._refused(why)
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(self.slots.hold(session, light=light))
            except AtCapacityError as error:
                raise self._refused(str(error)) from None
            self._departures.opened(session, self._clock.now())
            held.callback(self._left, session)
            yield Stage(session, bus, self._instance, self._draining)

    def _left(self, session: str) -> None:
        self._departures.ended(session, self._clock.now())

    def _refused(self, why: str) -> AtCapacityError:
        [wait_s] = self._departures.waits_s(1, self._clock.now())
        return AtCapacityError(why, expected_wait_s=wait_s)

    def drain(self) -> None:
        """Take no further session, and tell those that are here to leave between two turns."""
        self._draining.set()
        metrics.draining.set(1)

    @property
    def draining(self) -> bool:
        """Whether this replica is about to end."""
        return self._draining.is_set()

    @property
    def held(self) -> int:
        """Sessions that have not left."""
        return self.slots.held

    def capacity(self) -> Capacity:
        """What there is to give now: nothing in a replica that is about to end."""
        now = self.admission.capacity()
        if self._draining.is_set():
            return replace(now, free_slots=0, refusal=f"{self._instance} is about to end")
        free = self.free_slots()
        if now.free_slots and not free:
            return replace(now, free_slots=0, refusal=f"all {self.slots.slots} slots are taken")
        return replace(now, free_slots=min(now.free_slots, free))

    def status(
        self, engines: Iterable[pb.EngineStatus], languages: Sequence[str]
    ) -> pb.ServiceStatus:
        """What GetStatus answers."""
        capacity = message_of(self.capacity(), self._service, self._instance)
        return pb.ServiceStatus(
            service=self._service,
            instance=self._instance,
            version=self._version,
            engines=engines,
            slots=self.slots.slots,
            free_slots=capacity.free_slots,
            capacity=capacity,
            clock=clock_reading(),
            languages=languages,
        )


def engine_status(bundle: str, state: EngineState, *, file: str = "") -> pb.EngineStatus:
    """Where the networks of a bundle run. file: of the weights, where its name says more."""
    return pb.EngineStatus(
        bundle=bundle, backend=state.backend, device=state.device, detail=state.detail, file=file
    )
