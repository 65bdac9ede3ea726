"""Who may be at the model now, where requests of one session slow down those of others.

llama.cpp computes a step for all slots at once, and on a CPU a step that reads a prompt for one of
them takes as long as ten that write a word. So an answer that somebody waits for in silence is let
in at once, and until its first phrase is written nothing begins that may be thrown away: answers
that are prepared while the visitor may yet go on, and reading ahead. Such work that has begun and
has not written anything makes way; what it has read stays in its slot. It writes what it has begun
to write: nobody could take that back.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from enum import IntEnum

from services.llm.backends.base import Delta

FIRST_PHRASE_BYTES = 24
"""Of text: about what a voice needs to begin, four or five English words or eight characters of
Chinese."""


class Order(IntEnum):
    """What goes before what, whoever it is for."""

    ANSWER = 0
    """The visitor waits for it."""
    HELD = 1
    """Prepared, and may yet be thrown away."""
    AHEAD = 2
    """Read of a question that is not complete."""


class Place:
    """A request on its way through the gate. `Gate.place` makes it."""

    def __init__(self, order: Order, slot: int, settle: Callable[[], None]) -> None:
        self.order = order
        self.slot = slot
        self.may_run = False
        self.woken = asyncio.Event()
        """It may run, or was given up."""
        self.denied = asyncio.Event()
        """It may not run."""
        self._settle = settle
        self._written_bytes = 0
        self._given_up = False

    @property
    def hurried(self) -> bool:
        """Its first phrase is not written yet."""
        return self._written_bytes < FIRST_PHRASE_BYTES

    @property
    def makes_way(self) -> bool:
        """It may be begun anew without a loss: nothing is written."""
        return self.order is not Order.ANSWER and not self._written_bytes

    @property
    def given_up(self) -> bool:
        return self._given_up

    def confirm(self) -> None:
        """Somebody waits for it now."""
        self.order = Order.ANSWER
        self._settle()

    def give_up(self) -> None:
        """It is not to wait any more: what may run does, and what would have to wait ends."""
        self._given_up = True
        self._settle()

    def wrote(self, text: str) -> None:
        """A piece of the answer."""
        hurried = self.hurried
        self._written_bytes += len(text.encode())
        if hurried and not self.hurried:
            self._settle()


class Gate:
    """Lets requests to the model, and has those make way that may be thrown away."""

    def __init__(self, *, in_turn: bool) -> None:
        """in_turn: False where requests do not slow each other down: all are let in at once."""
        self._in_turn = in_turn
        self._places: set[Place] = set()

    def place(self, order: Order, slot: int) -> Place:
        """For one request of the session that has this slot. It counts from `deltas` on."""
        return Place(order, slot, self._settle)

    async def deltas(
        self, place: Place, begin: Callable[[], AsyncGenerator[Delta, None]]
    ) -> AsyncGenerator[Delta, None]:
        """What the backend says once it is the request's turn; begun anew where it made way.

        Nothing for one that is given up and would have to wait. Raises what the backend raises.
        """
        self._places.add(place)
        self._settle()
        try:
            while await _turn(place):
                made_way = False
                async with contextlib.aclosing(begin()) as deltas:
                    async for delta in _until_denied(place, deltas):
                        made_way = delta is None
                        if delta is not None:
                            place.wrote(delta.text)
                            yield delta
                if not made_way:
                    return
        finally:
            self._places.discard(place)
            self._settle()

    def _settle(self) -> None:
        for place in self._places:
            place.may_run = self._may_run(place)
            _put(place.woken, place.may_run or place.given_up)
            _put(place.denied, not place.may_run)

    def _may_run(self, place: Place) -> bool:
        return not self._in_turn or not any(
            other.hurried and other.order < place.order and other.slot != place.slot
            for other in self._places
        )


def _put(event: asyncio.Event, happened: bool) -> None:
    if happened:
        event.set()
    else:
        event.clear()


async def _turn(place: Place) -> bool:
    """Wait until the request may run. False: it was given up, and may not."""
    while not (place.may_run or place.given_up):
        await place.woken.wait()
    return place.may_run


async def _until_denied(
    place: Place, deltas: AsyncGenerator[Delta, None]
) -> AsyncGenerator[Delta | None, None]:
    """The deltas; None at the end: the request shall make way."""
    while True:
        if place.makes_way:
            delta = await _unless(place.denied, anext(deltas, _END))
            if delta is None:
                yield None
                return
        else:
            delta = await anext(deltas, _END)
        if delta is _END:
            return
        yield delta


_END = Delta(finish_reason="end of the stream")


async def _unless(event: asyncio.Event, work: Awaitable[Delta]) -> Delta | None:
    """The delta that comes; None where the event comes first, and then the work is cancelled."""
    coming = asyncio.create_task(_await(work))
    told = asyncio.create_task(event.wait())
    try:
        await asyncio.wait((coming, told), return_when=asyncio.FIRST_COMPLETED)
        return coming.result() if coming.done() else None
    finally:
        for task in (coming, told):
            task.cancel()
        await asyncio.gather(coming, told, return_exceptions=True)


async def _await(work: Awaitable[Delta]) -> Delta:
    return await work
