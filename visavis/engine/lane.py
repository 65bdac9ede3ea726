"""One thread in front of an engine: ask for work and await its answer.

The event loop never blocks, and order and batches of all who ask are decided in one place
(`queueing.DeadlineQueue`), at the moment when the thread is free. An engine that computes elsewhere
and forms its batches there has as many threads as it takes requests at once.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, TypeVarTuple

from visavis.engine.in_hand import InHand, taken_in
from visavis.engine.queueing import DeadlineQueue, Sharing, Urgency, Waiting
from visavis.engine.tensorrt import profiling
from visavis.serving import metrics
from visavis.serving.errors import EngineError, SupersededError, VisavisError
from visavis.wire.clock import Clock, MonotonicClock

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Ask = TypeVar("Ask")
Answer = TypeVar("Answer")

MOST_WAITING = 256
"""Requests that a lane lets wait: many times what the slots of one replica ask for at once."""
_AT_ONCE = Urgency()
_BEFORE_ALL = Urgency(priority=-1)
_END = object()

_Run = Callable[[Sequence[Any]], Sequence[Any]]
"""Answers the asks of one run, in their order."""


@dataclass(slots=True, eq=False)
class _Asked:
    """A request on its way through the lane."""

    run: _Run
    ask: Any
    answer: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    needed: bool
    """To be done even if nobody waits any more."""
    queued: Any = None
    """Nsight's range of its time in the queue."""
    hand: InHand | None = None
    """The run that it has become part of."""

    @property
    def wanted(self) -> bool:
        return self.needed or not self.answer.done()

    def tell(self, result: Any, error: BaseException | None = None) -> None:
        """Answer from any thread."""
        with suppress(RuntimeError):  # the asker's event loop is closed
            self.loop.call_soon_threadsafe(self._tell, result, error)

    def _tell(self, result: Any, error: BaseException | None) -> None:
        if self.answer.done():
            return
        if error is None:
            self.answer.set_result(result)
        elif isinstance(error, StopIteration):  # which no future takes
            self.answer.set_exception(RuntimeError(f"the work raised {error!r}"))
        else:
            self.answer.set_exception(error)


class EngineLane:
    """Does the work of everybody who needs an engine on one thread, one piece after the other.

    What is most urgent goes first; a request that nobody awaits any more is not done at all.
    """

    def __init__(
        self,
        name: str,
        *,
        most_waiting: int = MOST_WAITING,
        at_once: int = 1,
        clock: Clock | None = None,
    ) -> None:
        """`most_waiting`: requests beyond them are refused; `at_once`: runs that the engine takes
        at the same time; `clock`: that of the deadlines.
        """
        self.name = name
        self._clock = clock or MonotonicClock()
        self._queue: DeadlineQueue[_Asked] = DeadlineQueue(most_waiting)
        self._changed = threading.Condition(threading.Lock())
        self._at_once = at_once
        self._thread = ThreadPoolExecutor(max_workers=at_once, thread_name_prefix=f"lane-{name}")
        self._serving = 0
        self._closed = False
        self._queue_seconds = metrics.engine_queue_seconds.labels(name)
        metrics.engine_queue_depth.labels(name).set_function(self._queue.__len__)

    async def run(self, work: Callable[[*Ts], T], *args: *Ts, urgency: Urgency = _AT_ONCE) -> T:
        """Result of work(*args), or what it raises. Cancelled, it is not begun any more.

        Raises AtCapacityError where too many requests wait, SupersededError where a newer one took
        its place, EngineError where the lane is closed.
        """

        def alone(_: Sequence[None]) -> list[T]:
            return [work(*args)]

        answer: asyncio.Future[T] = self._ask(alone, None, urgency)
        return await answer

    async def stream(
        self,
        work: Callable[[*Ts], Iterator[T]],
        *args: *Ts,
        urgency: Callable[[], Urgency] = Urgency,
    ) -> AsyncIterator[T]:
        """Items of the generator work(*args), each asked for as `urgency` says by then.

        Between two items other work may use the lane, so a long synthesis of one
        session does not hold up the first phrase of another. Leaving the loop
        early closes the generator. Raises as `run` does.
        """
        items = work(*args)
        try:
            while (item := await self.run(next, items, _END, urgency=urgency())) is not _END:
                yield item  # type: ignore[misc]  # _END is the only other type
        finally:
            close = getattr(items, "close", None)
            if close is not None and not self._closed:
                with suppress(RuntimeError):  # the interpreter is shutting down
                    self.release(close)

    def release(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Have something given back as soon as the thread is free, whoever else waits.

        It is done even if the answer is cancelled. Raises EngineError where the lane is closed.
        """

        def alone(_: Sequence[None]) -> list[T]:
            return [work()]

        answer: asyncio.Future[T] = self._ask(alone, None, _BEFORE_ALL, needed=True)
        return answer

    def shared(
        self,
        work: Callable[[Sequence[Ask]], Sequence[Answer]],
        *,
        largest: int,
    ) -> SharedRuns[Ask, Answer]:
        """Work that answers up to `largest` requests in one run, in their order."""
        return SharedRuns(self, work, Sharing(largest))

    def close(self) -> None:
        """Finish what has begun; who waits gets EngineError. Blocks until the thread is free."""
        with self._changed:
            self._closed = True
            left = self._queue.clear()
            self._changed.notify_all()
        self._refuse(left, self._closed_error())
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _ask(
        self,
        run: _Run,
        ask: Any,
        urgency: Urgency,
        *,
        sharing: Sharing | None = None,
        needed: bool = False,
    ) -> asyncio.Future[Any]:
        """The answer to come. Raises AtCapacityError or EngineError."""
        if urgency.supersedes is not None:
            self._supersede(urgency.supersedes)
        loop = asyncio.get_running_loop()
        asked = _Asked(run, ask, loop.create_future(), loop, needed)
        with self._changed:
            if self._closed:
                raise self._closed_error()
            if self._serving < self._at_once:
                self._thread.submit(self._serve)
                self._serving += 1
            now_s = self._clock.now()
            place = self._queue.add(asked, urgency, now_s, sharing=sharing, always=needed)
            asked.queued = profiling.start(f"{self.name}: queue")
            self._changed.notify()
        asked.answer.add_done_callback(lambda _: self._answered(place))
        return asked.answer

    def _answered(self, place: Waiting[_Asked]) -> None:
        asked = place.item
        if not asked.answer.cancelled():
            asked.answer.exception()  # it may be that nobody asks for it any more
        elif not asked.needed:
            with self._changed:
                waited = self._queue.drop(place)
                hand = asked.hand
            if waited:
                profiling.end(asked.queued)
            elif hand is not None:
                hand.leave()

    def _supersede(self, key: Hashable) -> None:
        """Whoever waits under this key is told so; what has begun goes on."""
        with self._changed:
            gone = self._queue.supersede(key)
        self._refuse(gone, SupersededError(f"{self.name}: a newer request took its place"))

    def _refuse(self, places: Sequence[Waiting[_Asked]], error: VisavisError) -> None:
        for place in places:
            profiling.end(place.item.queued)
            place.item.tell(None, error)

    def _closed_error(self) -> EngineError:
        return EngineError(f"lane {self.name} is closed")

    # On the lane's thread

    def _serve(self) -> None:
        """Work until nobody waits."""
        while (run := self._next_run()) is not None:
            now_s = self._clock.now()
            for place in run:
                profiling.end(place.item.queued)
                self._queue_seconds.observe(now_s - place.since_s)
            wanted = [place.item for place in run if place.item.wanted]
            if wanted:
                with taken_in(self._hand(run[0].urgency, wanted, now_s)):
                    _work_off(wanted)

    def _hand(self, urgency: Urgency, run: Sequence[_Asked], now_s: float) -> InHand:
        deadline_s = urgency.deadline_s
        left_s = None if deadline_s is None else deadline_s - now_s
        hand = InHand(urgency, waiting=len(run), left_s=left_s)
        with self._changed:
            for asked in run:
                asked.hand = hand
        return hand

    def _next_run(self) -> list[Waiting[_Asked]] | None:
        with self._changed:
            while True:
                now_s = self._clock.now()
                if run := self._queue.take(now_s):
                    return run
                delay_s = self._queue.due_in_s(now_s)
                if delay_s is None:
                    self._serving -= 1
                    return None
                self._changed.wait(delay_s)


def _work_off(run: Sequence[_Asked]) -> None:
    try:
        answers = run[0].run([asked.ask for asked in run])
        for asked, answer in zip(run, answers, strict=True):
            asked.tell(answer)
    except BaseException as error:  # whatever it is, nobody must wait for ever
        for asked in run:
            asked.tell(None, error)


class SharedRuns(Generic[Ask, Answer]):
    """A network that answers several sessions in one run. `EngineLane.shared` makes it."""

    def __init__(
        self,
        lane: EngineLane,
        work: Callable[[Sequence[Ask]], Sequence[Answer]],
        sharing: Sharing,
    ) -> None:
        self._lane = lane
        self._work = work
        self._sharing = sharing

    def ask(self, ask: Ask, urgency: Urgency = _AT_ONCE) -> asyncio.Future[Answer]:
        """The answer to come; it raises EngineError when the run failed. Cancel it if it is no
        longer wanted.

        Raises AtCapacityError where too many requests wait, EngineError where the lane is closed.
        """
        answer: asyncio.Future[Answer] = self._lane._ask(
            self._run, ask, urgency, sharing=self._sharing
        )
        return answer

    def _run(self, asks: Sequence[Ask]) -> Sequence[Answer]:
        try:
            return self._work(asks)
        except Exception as error:
            raise EngineError(f"the run on {self._lane.name} failed: {error}") from error
