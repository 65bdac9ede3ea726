"""One thread in front of an engine: ask for work and await its answer.

The event loop hardly ever blocks, and order and batches of all who ask are decided in one place
(`queueing.DeadlineQueue`), at the moment when the thread is free. An engine that computes elsewhere
and forms its batches there has as many threads as it takes requests at once. Runs that take less
than handing them over does are done on the event loop itself (`SharedRuns`).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Generator, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, TypeVarTuple

from visavis.engine.batching import RunCurve, Sharing, run_size
from visavis.engine.in_hand import InHand, in_hand, taken_in
from visavis.engine.queueing import DeadlineQueue, Urgency, Waiting
from visavis.engine.rows import RowAsk, RowNetwork, step_of
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
SHORT_S = 0.002
"""What a run may take on the event loop: so short a halt harms nobody, and handing the run to a
thread and its answer back takes half a millisecond of processor time where the caches are cold."""
_AT_ONCE = Urgency()
_BEFORE_ALL = Urgency(priority=-1)

_Run = Callable[[Sequence[Any]], Sequence[Any]]
"""Answers the asks of one run, in their order."""


@dataclass(slots=True, eq=False)
class _Asked:
    """A request on its way through the lane."""

    run: _Run
    ask: Any
    urgency: Urgency
    answer: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    needed: bool = False
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
            self.loop.call_soon_threadsafe(self.tell_here, result, error)

    def tell_here(self, result: Any, error: BaseException | None = None) -> None:
        """Answer on the asker's event loop."""
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
        self._here = False
        """An event loop does a run itself."""
        self._networks: dict[RowNetwork, SharedRuns[Any, Any]] = {}
        self._queue_seconds = metrics.engine_queue_seconds.labels(name)
        self._batch_rows = metrics.engine_batch_rows.labels(name)
        self._batch_gain = metrics.engine_batch_gain.labels(name)
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
        work: Callable[[*Ts], Generator[T | RowAsk, Any, None]],
        *args: *Ts,
        urgency: Callable[[], Urgency] = Urgency,
    ) -> AsyncIterator[T]:
        """Items of the generator work(*args), each asked for as `urgency` says by then.

        Between two items other work may use the lane, so a long synthesis of one
        session does not hold up the first phrase of another. Where the generator yields a RowAsk
        it is sent the answer, out of a run that others may share. Leaving the loop
        early closes the generator. Raises as `run` does.
        """
        steps = work(*args)
        answer: Any = None
        try:
            while (
                step := await self.run(self._advance, steps, answer, urgency=urgency())
            ) is not None:
                answer = None
                if isinstance(step, RowAsk):
                    answer = await self._runs_of(step.network).ask(step.row, urgency())
                else:
                    yield step
        finally:
            if not self._closed:
                with suppress(RuntimeError):  # the interpreter is shutting down
                    self.release(steps.close)

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
        length: Callable[[Ask], float] | None = None,
        curve: RunCurve | None = None,
        short: bool = False,
    ) -> SharedRuns[Ask, Answer]:
        """Work that answers up to `largest` requests in one run, in their order.

        How many they are is decided by what such runs were measured to take (`batching.py`).
        length: of an ask, where a run costs by its longest; curve: what is known of it before.
        short: a run that is known to take SHORT_S at most is done on the event loop of those who
        ask, where the thread has nothing to do, with what else is asked in the same round of it.
        """
        curve = curve or RunCurve()
        sharing = Sharing(largest, curve=curve)
        if length is not None:
            sharing = Sharing(largest, length, curve=curve)
        return SharedRuns(self, work, sharing, short=short and self._at_once == 1)

    def _runs_of(self, network: RowNetwork) -> SharedRuns[Any, Any]:
        with self._changed:
            if network not in self._networks:
                self._networks[network] = self.shared(
                    network.run,
                    largest=network.largest,
                    length=network.length,
                    curve=network.curve,
                )
            return self._networks[network]

    def withdraw(self, key: Hashable) -> None:
        """Whoever waits under this key gets SupersededError; what has begun goes on."""
        with self._changed:
            gone = self._queue.supersede(key)
        self._refuse(gone, SupersededError(f"{self.name}: a newer request took its place"))

    def hasten(self, key: Hashable, priority: int) -> None:
        """What waits under this key is of this class from now on."""
        with self._changed:
            self._queue.hasten(key, priority)

    def close(self) -> None:
        """Finish what has begun; who waits gets EngineError. Blocks until the thread is free."""
        with self._changed:
            self._closed = True
            left = self._queue.clear()
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._here)
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
        loop = asyncio.get_running_loop()
        asked = _Asked(run, ask, urgency, loop.create_future(), loop, needed)
        self._add(asked, sharing)
        return asked.answer

    def _add(self, asked: _Asked, sharing: Sharing | None) -> None:
        """Into the queue. Raises as `_ask` does."""
        urgency = asked.urgency
        if urgency.supersedes is not None:
            self.withdraw(urgency.supersedes)
        with self._changed:
            if self._closed:
                raise self._closed_error()
            if self._serving < self._at_once and not self._here:
                self._begin_serving()
            now_s = self._clock.now()
            place = self._queue.add(
                asked, urgency, now_s, sharing=sharing, ask=asked.ask, always=asked.needed
            )
            asked.queued = profiling.start(f"{self.name}: queue")
            self._changed.notify()
        asked.answer.add_done_callback(lambda _: self._answered(place))

    def _begin_serving(self) -> None:
        self._thread.submit(self._serve)
        self._serving += 1

    def _run_here(self, asked: Sequence[_Asked], sharing: Sharing) -> int:
        """Answer the first of those asked, on the event loop, without the thread: so many.

        0: the thread is at work, or it is not known that the run is short.
        """
        lengths = [sharing.length(each.ask) for each in asked]
        with self._changed:
            began_s = self._clock.now()
            size = run_size(sharing, lengths, 0.0, began_s)
            seconds, longest = sharing.curve.seconds(size, began_s), max(lengths[:size])
            short = seconds is not None and seconds * longest <= SHORT_S
            if not short or self._closed or self._serving or self._here:
                return 0
            self._here = True
        run = asked[:size]
        for _ in run:
            self._queue_seconds.observe(0.0)
        fine = _work_off(run, _Asked.tell_here)
        with self._changed:
            self._here = False
            self._note(sharing, size, longest, began_s, fine)
            if len(self._queue):
                self._begin_serving()
            self._changed.notify_all()
        return size

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
            began_s = self._clock.now()
            for place in run:
                profiling.end(place.item.queued)
                self._queue_seconds.observe(began_s - place.since_s)
            wanted = [place for place in run if place.item.wanted]
            if wanted:
                items = [place.item for place in wanted]
                with taken_in(self._hand(run[0].urgency, items, began_s)):
                    fine = _work_off(items)
                self._account(wanted, began_s, fine)

    def _advance(self, steps: Generator[Any, Any, None], answer: Any) -> Any:
        """The next item, or an ask that is to wait for company; None: there is no more.

        Whoever has the thread keeps it where others would gain nothing by sharing: taking turns at
        every network, all would get their answers when the last one does. Nor does he give it up
        to those of a lower class.
        """
        hand = in_hand()
        own = hand.urgency.priority if hand is not None else 0
        while True:
            step = step_of(steps, answer)
            if not isinstance(step, RowAsk):
                return step
            runs = self._runs_of(step.network)
            with self._changed:
                first = self._queue.most_urgent
                others = first is not None and first <= own
                if others and runs.sharing.promises(self._clock.now()):
                    return step
            began_s = self._clock.now()
            (answer,) = step.network.run([step.row])
            ended_s = self._clock.now()
            with self._changed:
                length = runs.sharing.length(step.row)
                runs.sharing.curve.observe(1, length, ended_s - began_s, ended_s)
            self._batch_rows.observe(1)

    def _account(self, run: list[Waiting[_Asked]], began_s: float, fine: bool) -> None:
        """Whose time it was, and what it tells of how long such a run takes."""
        longest = max(place.length for place in run)
        with self._changed:
            self._queue.finished(run, self._clock.now() - began_s)
            self._note(run[0].sharing, len(run), longest, began_s, fine)

    def _note(
        self, sharing: Sharing, rows: int, longest: float, began_s: float, fine: bool
    ) -> None:
        """How long a run of so many requests has taken, by now."""
        ended_s = self._clock.now()
        if sharing.largest == 1:
            return
        if fine:
            sharing.curve.observe(rows, longest, ended_s - began_s, ended_s)
        self._batch_rows.observe(rows)
        if (gain := sharing.curve.gain(rows, ended_s)) is not None:
            self._batch_gain.set(gain)

    def _hand(self, urgency: Urgency, run: Sequence[_Asked], now_s: float) -> InHand:
        deadline_s = urgency.deadline_s
        left_s = None if deadline_s is None else deadline_s - now_s
        with self._changed:
            waiting = [asked for asked in run if asked.wanted]  # who is gone by now leaves no more
            hand = InHand(urgency, waiting=len(waiting), left_s=left_s)
            for asked in waiting:
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


def _work_off(
    run: Sequence[_Asked],
    tell: Callable[[_Asked, Any, BaseException | None], None] = _Asked.tell,
) -> bool:
    """Answers them all; says whether that went well."""
    try:
        answers = run[0].run([asked.ask for asked in run])
        for asked, answer in zip(run, answers, strict=True):
            tell(asked, answer, None)
    except BaseException as error:  # whatever it is, nobody must wait for ever
        for asked in run:
            tell(asked, None, error)
        return False
    return True


class SharedRuns(Generic[Ask, Answer]):
    """A network that answers several sessions in one run. `EngineLane.shared` makes it."""

    def __init__(
        self,
        lane: EngineLane,
        work: Callable[[Sequence[Ask]], Sequence[Answer]],
        sharing: Sharing,
        *,
        short: bool,
    ) -> None:
        self._lane = lane
        self._work = work
        self.sharing = sharing
        self._short = short
        self._gathered: list[_Asked] = []
        """What was asked in this round of the event loop, where runs are short."""

    def ask(self, ask: Ask, urgency: Urgency = _AT_ONCE) -> asyncio.Future[Answer]:
        """The answer to come; it raises EngineError when the run failed. Cancel it if it is no
        longer wanted.

        Raises AtCapacityError where too many requests wait, EngineError where the lane is closed;
        of short runs the answer raises that.
        """
        answer: asyncio.Future[Answer]
        if not self._short:
            answer = self._lane._ask(self._run, ask, urgency, sharing=self.sharing)
            return answer
        loop = asyncio.get_running_loop()
        answer = loop.create_future()
        if not self._gathered or self._gathered[0].loop is not loop:
            self._gathered = []
            loop.call_soon(self._answer, self._gathered)
        self._gathered.append(_Asked(self._run, ask, urgency, answer, loop))
        return answer

    def _answer(self, gathered: list[_Asked]) -> None:
        """On the event loop: here what is short, by the thread what is not."""
        if gathered is self._gathered:
            self._gathered = []
        left = [asked for asked in gathered if asked.wanted]
        while left and (done := self._lane._run_here(left, self.sharing)):
            left = left[done:]
        for asked in left:
            try:
                self._lane._add(asked, self.sharing)
            except VisavisError as error:
                asked.tell_here(None, error)

    def _run(self, asks: Sequence[Ask]) -> Sequence[Answer]:
        try:
            return self._work(asks)
        except Exception as error:
            raise EngineError(f"the run on {self._lane.name} failed: {error}") from error
