"""One worker thread in front of engine work, so that the event loop never blocks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import ParamSpec, TypeVar

from visavis.engine.tensorrt import profiling
from visavis.serving import metrics
from visavis.serving.errors import EngineError

P = ParamSpec("P")
T = TypeVar("T")

_END = object()


class EngineLane:
    """Runs engine work one piece after the other, first come first served."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"lane-{name}")
        self._queue_seconds = metrics.engine_queue_seconds.labels(name)
        self._closed = False

    async def run(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Result of work(*args). Work that has not begun is dropped on cancellation."""
        if self._closed:
            raise EngineError(f"lane {self.name} is closed")
        waiting = profiling.start(f"{self.name}: queue")
        given_s = time.perf_counter()

        def begin() -> T:
            profiling.end(waiting)
            self._queue_seconds.observe(time.perf_counter() - given_s)
            return work(*args, **kwargs)

        future = self._thread.submit(begin)
        try:
            return await asyncio.wrap_future(future)
        finally:
            if future.cancelled():  # it never began
                profiling.end(waiting)

    async def stream(
        self, work: Callable[P, Iterator[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> AsyncIterator[T]:
        """Items of the generator work(*args), each made on the lane when asked for.

        Between two items other work may use the lane, so a long synthesis of one
        session does not hold up the first phrase of another. Leaving the loop
        early closes the generator.
        """
        items = await self.run(work, *args, **kwargs)
        try:
            while (item := await self.run(next, items, _END)) is not _END:
                yield item  # type: ignore[misc]  # _END is the only other type
        finally:
            close = getattr(items, "close", None)
            if close is not None and not self._closed:
                with suppress(RuntimeError):  # the interpreter is shutting down
                    self._thread.submit(close)

    def close(self) -> None:
        """Finish what has begun, drop the rest. Blocks until the thread is free."""
        self._closed = True
        self._thread.shutdown(wait=True, cancel_futures=True)
