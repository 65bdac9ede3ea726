"""Run as a program: one process of a load's visitors, apart from what is measured.

    python -m visavis.tools.bench.load.client

Reads its orders from standard input, a line of JSON each: first the `Orders`, then `{"start_s": …}`
on the machine's monotonic clock. Writes to standard output, a line of JSON each: `ready` once all
visitors are connected or refused, each `exchange` as it is settled, and `done` with the report. It
ends when its standard input does: with the process that wanted it.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from visavis.client import GatewayClient
from visavis.serving.errors import VisavisError
from visavis.serving.lifetime.collecting import Collecting
from visavis.serving.lifetime.supervision import cancelled_at_last, ends_unless
from visavis.tools.bench.load.exchange import Exchange
from visavis.tools.bench.load.guest import Deck, Guest, InLine, Notes, Questions, clips_of, watch
from visavis.tools.bench.load.results import ClientReport
from visavis.tools.bench.load.schedule import (
    LONG_ANSWERS,
    Habits,
    LoadPlan,
    planned,
    visit_lengths,
)
from visavis.tools.bench.visitor.visitor import Visitor, first_of, visit
from visavis.wire.clock import MonotonicClock

_LAG_STEP_S = 0.02
_FIRST_MEDIA_S = 20.0
_AFTER_REFUSAL_S = 5.0
_LINE_BYTES = 1 << 24
_GIVES_WAY = 10


@dataclass(frozen=True)
class Orders:
    """What one process is to do in one step."""

    url: str
    api_key: str
    plan: LoadPlan
    visitors: list[int]
    """Their numbers, from 0; no other process has the same."""
    watchers: list[int]
    length_s: float
    """How long this step is counted."""

    def to_line(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_line(cls, line: str | bytes) -> Self:
        told = json.loads(line)
        habits = Habits(**told["plan"].pop("habits"))
        return cls(**{**told, "plan": LoadPlan(habits, **told["plan"])})


class Parent:
    """The process that wanted this one, at the other end of standard input and output."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def connect(cls) -> Self:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_LINE_BYTES)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        # A StreamWriter needs a protocol that can wait for a full pipe.
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), sys.stdout
        )
        return cls(reader, asyncio.StreamWriter(transport, protocol, None, loop))

    async def line(self) -> bytes:
        """What it says next; empty: it is gone."""
        return await self._reader.readline()

    def tell(self, kind: str, **content: Any) -> None:
        self._writer.write(json.dumps({"kind": kind, **content}).encode() + b"\n")

    async def told(self) -> None:
        """Returns when all has been written."""
        await self._writer.drain()
        self._writer.close()
        await self._writer.wait_closed()


class Client:
    """The visitors and watchers of one process, for one step."""

    def __init__(self, orders: Orders, parent: Parent) -> None:
        self._orders, self._parent = orders, parent
        self._clock = MonotonicClock()
        self._report = ClientReport()
        self._notes: list[Notes] = []
        self._guests: list[tuple[Notes, Visitor]] = []
        self._watching: list[asyncio.Task[None]] = []
        self._deck_of = self.decks()

    def decks(self) -> Callable[[int], Questions]:
        """What each visitor asks, by his number: all draw from one deck."""
        plan = self._orders.plan
        clips = clips_of(Path(plan.clips), plan.language)
        deck = Deck(clips, LONG_ANSWERS, plan.habits.seed)
        return lambda visitor: deck

    def notes_of(self, visitor: int) -> Notes:
        """Where what comes to him is noted."""
        return Notes(visitor)

    async def run(self) -> None:
        orders = self._orders
        if not orders.visitors:
            # Who only watches sits before another machine: he takes what time this one has left.
            os.nice(_GIVES_WAY)
        async with GatewayClient(orders.url, orders.api_key) as gateway, AsyncExitStack() as stack:
            tasks = await stack.enter_async_context(cancelled_at_last())
            for number in () if orders.plan.visit_s else orders.visitors:
                await self._let_in(number, gateway, stack)
            for number in orders.watchers:
                await self._let_watch(number, gateway, tasks)
            refused = self._report.refused
            Collecting().settled()  # what holds up his own process is no fault of the stack's
            self._parent.tell("ready", connected=len(self._notes), refused=refused)
            start = await self._parent.line()
            if not start:
                return
            step = self._step(float(json.loads(start)["start_s"]), gateway)
            if await ends_unless(step, self._parent.line()):  # the parent's next line is its end
                self._parent.tell("done", report=self._report.to_dict())

    async def _let_in(self, number: int, gateway: GatewayClient, stack: AsyncExitStack) -> None:
        notes, language = self.notes_of(number), self._orders.plan.language
        carrier = self._orders.plan.transport
        visiting = visit(
            gateway,
            self._clock,
            transport=carrier,
            witness=notes,
            comes_back=True,
            language=language,
            avatar=self._orders.plan.avatar_of(number),
        )
        try:
            visitor = await stack.enter_async_context(visiting)
        except VisavisError as error:
            self._report.refused.append(str(error))
            return
        self._notes.append(notes)
        self._guests.append((notes, visitor))

    async def _let_watch(self, number: int, gateway: GatewayClient, tasks: set[Any]) -> None:
        notes, ready = Notes(number), asyncio.Event()
        carrier = self._orders.plan.transport
        avatar = self._orders.plan.avatar_of(number)
        task = asyncio.create_task(watch(gateway, notes, self._clock, carrier, ready, avatar))
        coming = asyncio.create_task(ready.wait())
        tasks |= {task, coming}
        await asyncio.wait(
            {task, coming}, timeout=_FIRST_MEDIA_S, return_when=asyncio.FIRST_COMPLETED
        )
        if ready.is_set():
            self._notes.append(notes)
            self._watching.append(task)
            return
        why = _why_over(task)
        self._report.refused.append(str(why or f"no picture came within {_FIRST_MEDIA_S:g} s"))

    async def _step(self, start_s: float, gateway: GatewayClient) -> None:
        """Keep all schedules from `start_s` on, and note what it cost."""
        plan = self._orders.plan
        from_s = start_s + plan.warmup_s
        until_s = from_s + self._orders.length_s
        for notes in self._notes:
            _count(notes, start_s, from_s, until_s)
        async with asyncio.TaskGroup() as work:
            work.create_task(self._measure_itself(from_s, until_s))
            for notes, visitor in self._guests:
                deck = self._deck_of(notes.visitor)
                guest = Guest(visitor, notes, deck, self._clock, self._settled)
                questions = planned(plan.habits, notes.visitor, until_s - start_s)
                work.create_task(guest.converse(questions, start_s, until_s + plan.drain_s))
            for number in self._orders.visitors if plan.visit_s else ():
                work.create_task(self._come_and_go(number, gateway, start_s, until_s))
        self._report.playouts = [notes.judge.figures for notes in self._notes]
        self._report.lines = [line for notes in self._notes for line in notes.lines]
        self._report.breaks = [one for notes in self._notes for one in notes.breaks]
        self._report.lost += [visitor.lost for _, visitor in self._guests if visitor.lost]
        self._report.lost += [str(why) for why in map(_why_over, self._watching) if why is not None]

    async def _come_and_go(
        self, number: int, gateway: GatewayClient, start_s: float, until_s: float
    ) -> None:
        """One visitor after the other, each through the queue where there is no room."""
        plan, clock = self._orders.plan, self._clock
        questions = planned(plan.habits, number, until_s - start_s)
        for visit_number, length_s in enumerate(visit_lengths(plan, number), 1):
            if clock.now() >= until_s:
                return
            notes, line, let_in = self.notes_of(number), InLine(clock), False
            notes.visit = visit_number
            _count(notes, start_s, start_s + plan.warmup_s, until_s)
            visiting = visit(
                gateway,
                clock,
                transport=plan.transport,
                witness=notes,
                on_place=line.told,
                comes_back=True,
                language=plan.language,
                avatar=plan.avatar_of(number),
            )
            try:
                async with AsyncExitStack() as stack:
                    async with asyncio.timeout(until_s - clock.now()):
                        visitor = await stack.enter_async_context(visiting)
                    self._notes.append(notes)
                    let_in = True
                    leaves_s = min(clock.now() + length_s, until_s)
                    his = (clock.now() - start_s, leaves_s - start_s)
                    guest = Guest(visitor, notes, self._deck_of(number), clock, self._settled)
                    asked = [q for q in questions if his[0] < q.due_s < his[1]]
                    await guest.converse(asked, start_s, leaves_s + plan.drain_s)
                    await visitor.pause(leaves_s - clock.now())
            except TimeoutError:
                pass  # the run has ended while he was waiting
            except VisavisError as error:
                (self._report.lost if let_in else self._report.refused).append(str(error))
                await asyncio.sleep(_AFTER_REFUSAL_S)
            if (wait := line.wait()) is not None:
                self._report.waits.append(wait)

    def _settled(self, exchange: Exchange) -> None:
        self._report.exchanges.append(exchange)
        self._parent.tell("exchange", outcome=exchange.outcome)

    async def _measure_itself(self, from_s: float, until_s: float) -> None:
        """CPU time between the two moments, and how late who asks keeps appointments meanwhile."""
        await asyncio.sleep(from_s - self._clock.now())
        used_s, due_s = time.process_time(), from_s
        while self._orders.visitors and due_s < until_s:
            due_s = max(due_s + _LAG_STEP_S, self._clock.now())
            await asyncio.sleep(due_s - self._clock.now())
            self._report.lags_s.append(round(max(0.0, self._clock.now() - due_s), 5))
        await asyncio.sleep(until_s - self._clock.now())
        self._report.cpu_s = time.process_time() - used_s


def _why_over(watching: asyncio.Task[None]) -> VisavisError | None:
    """Why somebody watches no more; None: he does. Raises what nobody foresees."""
    error = watching.exception() if watching.done() else None
    why = None if error is None else first_of(error)
    if why is not None and not isinstance(why, VisavisError):
        raise why
    return why


def _count(notes: Notes, start_s: float, from_s: float, until_s: float) -> None:
    """What is noted of a visitor counts between the two moments."""
    notes.start_s = start_s
    notes.judge.from_s, notes.judge.until_s = from_s, until_s


async def main() -> int:
    """Exit status."""
    parent = await Parent.connect()
    line = await parent.line()
    if not line:
        return 1
    await Client(Orders.from_line(line), parent).run()
    await parent.told()
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
