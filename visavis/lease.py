"""Attach leases: who holds a slot, and the life of one Attach stream."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from typing import Any, TypeVar

from visavis import metrics
from visavis.errors import AlreadyExistsError, AtCapacityError
from visavis.logs import log_context
from visavis.subjects import check_session
from visavis.v1 import control_pb2 as pb

Request = TypeVar("Request")

# A client that does not read its events for this many of them has stopped listening;
# the stage then waits with it, which closes the credit window and costs no memory.
_EVENTS_WAITING = 64


class SlotTable:
    """Sessions attached to one service, at most `slots` at once."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self._sessions: set[str] = set()
        metrics.slots.set(slots)

    @property
    def free(self) -> int:
        return self.slots - len(self._sessions)

    @contextlib.contextmanager
    def hold(self, session: str) -> Iterator[None]:
        """A slot for as long as the context lasts; log lines inside carry the session.

        Raises InvalidInputError, AlreadyExistsError or AtCapacityError.
        """
        check_session(session)
        if session in self._sessions:
            raise AlreadyExistsError(f"session {session} is attached to this service already")
        if not self.free:
            raise AtCapacityError(f"all {self.slots} slots are taken")
        self._sessions.add(session)
        metrics.attached_sessions.set(len(self._sessions))
        try:
            with log_context(session=session):
                yield
        finally:
            self._sessions.discard(session)
            metrics.attached_sessions.set(len(self._sessions))


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

    async def turn_failed(self, turn: int, code: str, message: str) -> None:
        failed = pb.TurnFailed(turn=turn, code=code, message=message)
        await self._events.put(pb.AttachEvent(turn_failed=failed))

    async def serve(
        self,
        requests: AsyncIterator[Request],
        on_request: Callable[[Request], Awaitable[None]],
        *work: Coroutine[Any, Any, None],
    ) -> AsyncGenerator[pb.AttachEvent, None]:
        """Yield events while `work` runs and `requests` are handled.

        The lease ends when the client closes its side, goes away, or anything here
        raises (the error is raised from here). All tasks end with it.
        """

        async def read() -> None:
            async for request in requests:
                await on_request(request)

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
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
