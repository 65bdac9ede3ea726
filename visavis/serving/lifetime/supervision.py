"""Tasks that are looked after: lasting work cannot end unseen, and none outlives its owner."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from visavis.serving import metrics

log = logging.getLogger(__name__)

T = TypeVar("T")

# Long enough that work which fails at once does not fill the log.
_PAUSE_S = 1.0
# Longer than what any of them does to end in order.
_TOLD_AGAIN_S = 5.0
_READ_ENDS_S = 0.1
"""So soon a read has ended whose call has."""


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait until they have ended; what they raise is left with them.

    Who goes on is told again: `asyncio.wait_for` of Python 3.11, on which NATS's client stands,
    forgets a cancellation that comes in the moment of its result (python/cpython issue 81839).
    """
    told = tuple(tasks)
    left = {task for task in told if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=_TOLD_AGAIN_S)
    await asyncio.gather(*told, return_exceptions=True)


def told_to_end() -> bool:
    """Whether somebody has cancelled the running task, and not only what it waited for.

    A gRPC channel that is closed cancels whoever waits for one of its calls.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def read_whole(read: Awaitable[T], end: Callable[[], object] = lambda: None) -> T:
    """What a read of a gRPC stream comes to. Cancelled, it has the call `end` and the read with it.

    Of a read that is cut off by itself grpcio keeps 100 bytes for ever. A server's end with the
    call that its client has cancelled.
    """
    reading = asyncio.ensure_future(read)
    try:
        return await asyncio.shield(reading)
    except asyncio.CancelledError:
        end()
        await asyncio.wait({reading}, timeout=_READ_ENDS_S)
        reading.cancel()
        raise


class Keeper:
    """Keeps one piece of work running; where it raises or ends, that is told and it begins anew.

    `start` it, `stop` it. work: called for each beginning.
    """

    def __init__(
        self, name: str, work: Callable[[], Coroutine[Any, Any, None]], *, pause_s: float = _PAUSE_S
    ) -> None:
        self._name = name
        self._work = work
        self._pause_s = pause_s
        self._task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        """Whether it is started and not stopped."""
        return self._task is not None

    def start(self) -> None:
        """Begin the work, in a task of its own."""
        self._task = asyncio.create_task(self._keep(), name=self._name)

    async def stop(self) -> None:
        """End the work. Harmless where it was never started."""
        task, self._task = self._task, None
        if task is not None:
            await end_tasks([task])

    async def _keep(self) -> None:
        while True:
            try:
                await self._work()
                log.error("%s has ended; it begins anew", self._name)
            except asyncio.CancelledError:
                if told_to_end():
                    raise
                log.exception("%s was cut off; it begins anew", self._name)
            except Exception:
                log.exception("%s failed; it begins anew", self._name)
            metrics.background_restarts.labels(self._name).inc()
            await asyncio.sleep(self._pause_s)


@asynccontextmanager
async def cancelled_at_last(
    *work: Coroutine[Any, Any, Any],
) -> AsyncIterator[set[asyncio.Task[Any]]]:
    """Runs `work`, a task each; these, and those added to the set, end with the context.

    Nobody waits for them, and what they raise is left with them.
    """
    tasks = {asyncio.create_task(one) for one in work}
    try:
        yield tasks
    finally:
        await end_tasks(tasks)


async def first_of(*work: Coroutine[Any, Any, Any]) -> None:
    """Run until one ends; the others are cancelled. Raises what that one raises."""
    async with cancelled_at_last(*work) as tasks:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


async def ends_unless(work: Awaitable[Any], told: Coroutine[Any, Any, Any]) -> bool:
    """Whether `work` comes to its end; where `told` does before that, it is cancelled.

    Raises what it raises. work: a task, where it is also wanted what it comes to.
    """
    async with cancelled_at_last(told) as tasks:
        working = asyncio.ensure_future(work)
        tasks.add(working)
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
        return working.done()
