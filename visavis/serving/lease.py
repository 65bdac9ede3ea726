"""Attach leases: who holds a slot, and the life of one Attach stream."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
)
from typing import Any, Literal, Protocol, TypeVar

from visavis.serving import metrics
from visavis.serving.errors import (
    AlreadyExistsError,
    AtCapacityError,
    BusError,
    OutOfOrderError,
    VisavisError,
    status_of,
)
from visavis.serving.lifetime.supervision import end_tasks
from visavis.serving.logs import log_context
from visavis.v1 import control_pb2 as pb
from visavis.wire.bus import Bus
from visavis.wire.clock import clock_id, monotonic_ns
from visavis.wire.subjects import check_session


class _Oneof(Protocol):
    """A message of a client's stream: its `request` is the config or what follows it."""

    def WhichOneof(self, name: Literal["request"], /) -> str | None: ...


Request = TypeVar("Request", bound=_Oneof)

log = logging.getLogger(__name__)

# A client that does not read its events for this many of them has stopped listening;
# the stage then waits with it, which closes the credit window and costs no memory.
_EVENTS_WAITING = 64
# Of 40 Python clients that sent 190 KB at once, as fast as two slow cores could, 9 were still
# sending after a quarter of it, and none behind it.
_HEAR_OUT_S = 1.0


async def read_config(requests: AsyncIterator[Request], call: str) -> Request:
    """The first message of a stream named `call`. Raises OutOfOrderError if it is no config."""
    first = await anext(aiter(requests), None)
    if first is None or first.WhichOneof("request") != "config":
        raise OutOfOrderError(f"the first message of {call} must be the config")
    return first


@contextlib.asynccontextmanager
async def hearing_out(requests: AsyncIterator[Any]) -> AsyncIterator[None]:
    """Before an error ends a call, let the client finish what it is sending.

    A Python client that is cut off while it writes sees a broken stream instead of our status.
    """
    try:
        yield
    except VisavisError:
        with contextlib.suppress(TimeoutError, VisavisError):
            async with asyncio.timeout(_HEAR_OUT_S):
                async for _ in requests:
                    pass
        raise


def clock_reading() -> pb.ClockReading:
    """This machine's monotonic clock now, for GetStatus."""
    return pb.ClockReading(clock=clock_id(), monotonic_ns=monotonic_ns())


def need_bus(bus: Bus | None) -> Bus:
    """The bus, without which nothing can be attached. Raises BusError."""
    if bus is None:
        raise BusError("this service runs without a bus: set nats_url to attach sessions")
    return bus


class CallLimit:
    """Calls of one kind that are answered at once: without a session, they take no slot."""

    def __init__(self, most: int, what: str) -> None:
        """what: names the calls in the error, such as "recordings"."""
        self.running = 0
        self._most = most
        self._what = what

    @property
    def free(self) -> int:
        """How many more would be answered."""
        return self._most - self.running

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        """Counted for as long as the context lasts. Raises AtCapacityError."""
        if self.free <= 0:
            raise AtCapacityError(f"{self._what}: {self.running} are being answered already")
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1


LIGHT_FOR_A_SLOT = 8
"""Sessions that ask next to nothing of a service and stand in the room of one that does."""


class SlotTable:
    """Sessions attached to one service, at most `slots` at once that ask something of it.

    A light one takes no slot: there may be LIGHT_FOR_A_SLOT times as many of them.
    """

    def __init__(
        self, slots: int, on_change: Callable[[int], None] = lambda sessions: None
    ) -> None:
        """on_change: told how many hold a slot, whenever that has changed."""
        self.slots = slots
        self.left = asyncio.Event()
        """Set whenever a session has left."""
        self._on_change = on_change
        self._sessions: set[str] = set()
        self._light: set[str] = set()
        metrics.slots.set(slots)

    @property
    def free(self) -> int:
        return max(0, self.slots - len(self._sessions) + len(self._light))

    @property
    def held(self) -> int:
        """Sessions that are attached, light ones among them."""
        return len(self._sessions)

    def __contains__(self, session: str) -> bool:
        return session in self._sessions

    @contextlib.contextmanager
    def hold(self, session: str, *, light: bool = False) -> Iterator[None]:
        """A slot for as long as the context lasts; log lines inside carry the session.

        light: it takes none. Raises InvalidInputError, AlreadyExistsError or AtCapacityError.
        """
        check_session(session)
        if session in self._sessions:
            raise AlreadyExistsError(f"session {session} is attached to this service already")
        if light and len(self._light) >= LIGHT_FOR_A_SLOT * self.slots:
            raise AtCapacityError(
                f"{len(self._light)} light sessions are attached, the most allowed"
            )
        if not light and not self.free:
            raise AtCapacityError(f"all {self.slots} slots are taken")
        self._sessions.add(session)
        self.weigh(session, light=light)
        try:
            with log_context(session=session):
                yield
        finally:
            self._sessions.discard(session)
            self._light.discard(session)
            self._changed()
            self.left.set()

    def weigh(self, session: str, *, light: bool) -> None:
        """An attached session asks next to nothing from now on, or more again: nobody is sent away
        for that, so that for a while there may be more than there are slots.
        """
        (self._light.add if light else self._light.discard)(session)
        self._changed()

    def _changed(self) -> None:
        metrics.attached_sessions.set(len(self._sessions))
        self._on_change(len(self._sessions) - len(self._light))


class EventStream:
    """The answering half of an Attach stream."""

    def __init__(self) -> None:
        self._events: asyncio.Queue[pb.AttachEvent] = asyncio.Queue(_EVENTS_WAITING)

    async def ready(self, instance: str) -> None:
        await self._events.put(pb.AttachEvent(ready=pb.AttachReady(instance=instance)))

    async def turn_started(self, turn: int) -> None:
        await self._events.put(pb.AttachEvent(turn_started=pb.TurnStarted(turn=turn)))

    async def turn_finished(
        self, turn: int, *, seconds: dict[str, float], produced: int, cancelled: bool = False
    ) -> None:
        finished = pb.TurnFinished(
            turn=turn, seconds=seconds, produced=produced, cancelled=cancelled
        )
        await self._events.put(pb.AttachEvent(turn_finished=finished))

    async def turn_failed(self, turn: int, error: Exception) -> None:
        """The turn ends, the lease lives on. What is no error of ours goes into the log."""
        if not isinstance(error, VisavisError):
            log.exception("turn %d failed", turn, exc_info=error)
        code, message = status_of(error)
        failed = pb.TurnFailed(turn=turn, code=code.name, message=message)
        await self._events.put(pb.AttachEvent(turn_failed=failed))

    async def turn_notice(self, turn: int, code: str, message: str) -> None:
        """Something that was asked for cannot be done; the turn goes on without it."""
        notice = pb.TurnNotice(turn=turn, code=code, message=message)
        await self._events.put(pb.AttachEvent(turn_notice=notice))

    async def tools_called(
        self, turn: int, text: str, calls: Iterable[tuple[str, str, str]], run: int
    ) -> None:
        """The turn waits for results. calls: id, name and arguments in JSON; text: said before;
        run: that calls.
        """
        told = (pb.ToolCall(id=id_, name=name, arguments_json=json) for id_, name, json in calls)
        called = pb.ToolsCalled(turn=turn, text=text, calls=told, run=run)
        await self._events.put(pb.AttachEvent(tools_called=called))

    async def draining(self) -> None:
        """The replica is about to end: the session is to go to another one, between turns."""
        await self._events.put(pb.AttachEvent(draining=pb.Draining()))

    async def bus_lost(self, *, away: bool) -> None:
        """The replica's connection to the bus has gone, or is back: chunks may be lost."""
        await self._events.put(pb.AttachEvent(bus_lost=pb.BusLost(away=away)))

    async def serve(
        self,
        requests: AsyncIterator[Request],
        on_request: Callable[[Request], Awaitable[None]],
        *work: Coroutine[Any, Any, None],
    ) -> AsyncGenerator[pb.AttachEvent, None]:
        """Yield events while `work` runs and `requests` are handled.

        The lease ends when the client closes its side, goes away, or anything here
        raises (the error is raised from here). All tasks end with it. What a client of a later
        version asks for, and is not known here, is passed over.
        """

        async def read() -> None:
            unknown = False
            async for request in requests:
                if request.WhichOneof("request") is not None:
                    await on_request(request)
                elif not unknown:
                    unknown = True
                    log.warning("the gateway asks for what only a later version of this can do")

        reader = asyncio.create_task(read())
        tasks: list[asyncio.Task[Any]] = [reader, *(asyncio.create_task(w) for w in work)]
        try:
            while True:
                event = asyncio.create_task(self._events.get())
                tasks.append(event)
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                tasks.remove(event)
                if event.done():
                    yield event.result()
                else:
                    event.cancel()
                for task in [t for t in tasks if t.done()]:
                    task.result()  # raises what the task raised
                    tasks.remove(task)
                if reader.done():
                    return
        finally:
            await end_tasks(tasks)
