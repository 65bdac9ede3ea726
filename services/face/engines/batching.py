"""Batches of a network's asks over frames and sessions: the policy, and the lane that runs them."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from visavis.engine import EngineLane
from visavis.serving.errors import EngineError
from visavis.serving.supervision import Keeper
from visavis.wire.clock import Clock

# ------------------------------------------------------------ batcher
# Which asks go into a network together: pure bookkeeping, without I/O, the time passed in.

Ask = TypeVar("Ask")


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[Ask]):
    ask: Ask
    since_s: float


class Batcher(Generic[Ask]):
    """Collects what several owners ask for. A batch is due when it is full, or its oldest ask has
    waited long enough for others to join.

    Owners take turns, each giving its oldest: one that asks for much ahead of time does not hold
    up the others.
    """

    def __init__(self, *, largest: int, gather_s: float) -> None:
        """`largest`: asks in one batch; `gather_s`: how long an ask may wait for company."""
        self._largest = largest
        self._gather_s = gather_s
        self._queues: OrderedDict[int, deque[_Waiting[Ask]]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def add(self, owner: int, ask: Ask, now_s: float) -> None:
        """Queue behind what the owner has asked before."""
        self._queues.setdefault(owner, deque()).append(_Waiting(ask, now_s))

    def drop(self, owner: int) -> list[Ask]:
        """Forget what the owner still waits for, and give it back."""
        return [waiting.ask for waiting in self._queues.pop(owner, ())]

    def due_in_s(self, now_s: float) -> float | None:
        """How long until a batch is due; 0: it is; None: nobody waits."""
        if not self._queues:
            return None
        if len(self) >= self._largest:
            return 0.0
        oldest_s = min(queue[0].since_s for queue in self._queues.values())
        return max(0.0, oldest_s + self._gather_s - now_s)

    def take(self, now_s: float) -> list[Ask]:
        """The batch that is due, or nothing."""
        if self.due_in_s(now_s) != 0.0:
            return []
        batch: list[Ask] = []
        while self._queues and len(batch) < self._largest:
            owner, queue = next(iter(self._queues.items()))
            batch.append(queue.popleft().ask)
            if queue:
                self._queues.move_to_end(owner)
            else:
                del self._queues[owner]
        return batch


# ------------------------------------------------------------ batch runner
# Runs a network for all sessions: their asks in batches, on a lane of its own.


Answer = TypeVar("Answer")

GATHER_S = 0.004
"""How long an ask waits for those of other sessions: a tenth of a picture."""


@dataclass(frozen=True, slots=True)
class _Asked(Generic[Ask, Answer]):
    ask: Ask
    answer: asyncio.Future[Answer]


class BatchRunner(Generic[Ask, Answer]):
    """`start` it on the event loop; then `ask`. Ask no more than what can be shown soon."""

    def __init__(
        self,
        work: Callable[[Sequence[Ask]], Sequence[Answer]],
        lane: EngineLane,
        clock: Clock,
        *,
        largest: int,
    ) -> None:
        """`work` runs on the lane and answers a batch in its order."""
        self._work = work
        self._lane = lane
        self._clock = clock
        self._batcher: Batcher[_Asked[Ask, Answer]] = Batcher(largest=largest, gather_s=GATHER_S)
        self._news = asyncio.Event()
        self._keeper = Keeper("face-batches", self._run)
        self._owners = itertools.count()

    def start(self) -> None:
        self._keeper.start()

    def new_owner(self) -> int:
        """For whoever asks: owners take turns, and drop only what is their own."""
        return next(self._owners)

    def ask(self, owner: int, ask: Ask) -> asyncio.Future[Answer]:
        """The answer to come; it raises EngineError when the network failed. Cancel it if it is no
        longer wanted.
        """
        if not self._keeper.running:
            raise EngineError("the face's network is not running")
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._batcher.add(owner, _Asked(ask, answer), self._clock.now())
        self._news.set()
        return answer

    def drop(self, owner: int) -> None:
        """What the owner has asked for and is not being worked on is no longer wanted."""
        for asked in self._batcher.drop(owner):
            asked.answer.cancel()

    async def close(self) -> None:
        """Stop; whoever still waits is told so."""
        await self._keeper.close()

    async def _run(self) -> None:
        while True:
            batch = self._batcher.take(self._clock.now())
            wanted = [asked for asked in batch if not asked.answer.done()]
            if wanted:
                await self._answer(wanted)
            elif not batch:
                await self._wait(self._batcher.due_in_s(self._clock.now()))

    async def _wait(self, delay_s: float | None) -> None:
        self._news.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._news.wait()

    async def _answer(self, batch: Sequence[_Asked[Ask, Answer]]) -> None:
        try:
            answers = await self._lane.run(self._work, [asked.ask for asked in batch])
        except asyncio.CancelledError:
            _tell(batch, EngineError("the face's network was stopped"))
            raise
        except Exception as error:  # whatever it was: nobody must wait for ever
            told = EngineError(f"the face's network failed: {error}")
            told.__cause__ = error
            _tell(batch, told)
            return
        for asked, answer in zip(batch, answers, strict=True):
            if not asked.answer.done():
                asked.answer.set_result(answer)


def _tell(batch: Sequence[_Asked[Ask, Answer]], error: EngineError) -> None:
    for asked in batch:
        if not asked.answer.done():
            asked.answer.set_exception(error)
            asked.answer.exception()  # it may be that nobody asks any more
