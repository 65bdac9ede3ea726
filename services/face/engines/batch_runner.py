"""Runs a network for all sessions: their asks in batches, on a lane of its own."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from services.face.engines.batcher import Batcher
from visavis.clock import Clock
from visavis.engine import EngineLane
from visavis.errors import EngineError

Ask = TypeVar("Ask")
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
        self._task: asyncio.Task[None] | None = None
        self._owners = itertools.count()

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    def new_owner(self) -> int:
        """For whoever asks: owners take turns, and drop only what is their own."""
        return next(self._owners)

    def ask(self, owner: int, ask: Ask) -> asyncio.Future[Answer]:
        """The answer to come; it raises EngineError when the network failed. Cancel it if it is no
        longer wanted.
        """
        if self._task is None or self._task.done():
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
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

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
