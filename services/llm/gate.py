"""Who may be at the model now, where requests of one session slow down those of others.

llama.cpp computes a step for all slots at once, and on a CPU a step that reads a prompt for one of
them takes as long as ten that write a word. So an answer that somebody waits for in silence is let
in at once, and until its first phrase is written nothing begins that may be thrown away: answers
that are prepared while the visitor may yet go on, and reading ahead, which waits until some seconds
are. Such work that has begun and has not written anything makes way; what it has read stays in its
slot.

An answer that is written further than its voice can have come rests while others are without their
first phrase, and goes on where it stopped before the voice could run out: a step for two takes
nearly twice as long as a step for one. An answer that is prepared rests with its first phrase
until it is wanted: most of what else it says would be thrown away with it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from enum import IntEnum
from typing import TypeVar

from services.llm.backends.base import Delta
from visavis.serving.lifetime.supervision import ends_unless
from visavis.wire.clock import Clock

FIRST_PHRASE_BYTES = 24
"""Of text: about what a voice needs to begin, four or five English words or eight characters of
Chinese."""
_SPOKEN_BYTES_PER_S = 16.0
"""Of text that a quick voice says, in English as in Chinese."""
# Where a voice begins late, it has begun with so much.
_HELD_BYTES = 48
# An answer rests from so many seconds of voice in hand on, and until there are so many. Others'
# first phrases take half a second, and what is written can be spoken without its sentence's end.
_REST_FROM_S, _REST_UNTIL_S = 2.0, 1.0
# Reading ahead is not that short.
_READ_FROM_S = 5.0
# From here on come writing systems that put no spaces between words.
_FIRST_UNSPACED = "\u2e80"

_T = TypeVar("_T")
Begin = Callable[[str, int], AsyncGenerator[Delta, None]]
"""Has the backend answer on from a text that is written, and that took so many tokens."""


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

    def __init__(
        self, order: Order, slot: int, clock: Clock, settle: Callable[[], None], *, spoken: bool
    ) -> None:
        self.order = order
        self.slot = slot
        self.spoken = spoken
        self.may_run = False
        self.woken = asyncio.Event()
        """It may run, or was given up."""
        self.denied = asyncio.Event()
        """It may not run."""
        self.text = ""
        self.tokens = 0
        """Of the text, which is what is written so far."""
        self.calls = False
        """A call of a tool has begun."""
        self._clock = clock
        self._settle = settle
        self._began_s = 0.0
        self._written_bytes = 0
        self._shown_bytes = 0
        """Of those."""
        self._given_up = False

    @property
    def hurried(self) -> bool:
        """Its first phrase is not written yet."""
        return self._written_bytes < FIRST_PHRASE_BYTES

    @property
    def prepared(self) -> bool:
        """Nobody waits for it yet, and what is written is enough for a voice to begin with."""
        return self.order is Order.HELD and self._written_bytes >= _HELD_BYTES

    @property
    def makes_way(self) -> bool:
        """It may be begun anew without a loss: nothing is written."""
        return self.order is not Order.ANSWER and not self.text and not self.calls

    @property
    def reserve_s(self) -> float:
        """Of voice: so much is written that cannot have been heard yet."""
        if not self.text:
            return 0.0
        return self._said_s - (self._clock.now() - self._began_s)

    @property
    def _said_s(self) -> float:
        """As long as a voice takes for what is written."""
        return (self._written_bytes - self._shown_bytes) / _SPOKEN_BYTES_PER_S

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
        if not text:
            return
        # What comes once the voice has run dry is said from now on.
        now = self._clock.now()
        self._began_s = max(self._began_s, now - self._said_s) if self.text else now
        self.text += text
        self._written_bytes += len(text.encode())  # asked of all places at each piece of one
        self.tokens += 1
        self._settle()

    def showed(self, text: str) -> None:
        """A part of what was written is not said: no voice is in hand by it."""
        self._shown_bytes += len(text.encode())
        self._settle()


class Gate:
    """Lets requests to the model, and has those make way that may be thrown away or may rest."""

    def __init__(self, clock: Clock, *, in_turn: bool, resumes: bool) -> None:
        """in_turn: False where requests do not slow each other down: all are let in at once.

        resumes: an answer can go on where it was dropped, so it may rest.
        """
        self._clock = clock
        self._in_turn = in_turn
        self._resumes = in_turn and resumes
        self._places: set[Place] = set()

    def place(self, order: Order, slot: int, *, spoken: bool = True) -> Place:
        """For one request of the session that has this slot. It counts from `deltas` on.

        spoken: a voice reads the answer, so that there is a time by which it is wanted.
        """
        return Place(order, slot, self._clock, self._settle, spoken=spoken)

    async def deltas(self, place: Place, begin: Begin) -> AsyncGenerator[Delta, None]:
        """What the backend says once it is the request's turn; begun anew where it made way.

        Nothing for one that is given up and would have to wait. Raises what the backend raises.
        """
        self._places.add(place)
        self._settle()
        try:
            while await self._turn(place):
                made_way = False
                async with contextlib.aclosing(begin(place.text, place.tokens)) as deltas:
                    async for delta in self._until_denied(place, deltas):
                        made_way = delta is None
                        if delta is not None:
                            place.calls = place.calls or bool(delta.tool_calls)
                            place.wrote(delta.text)
                            yield delta
                if not made_way:
                    return
        finally:
            self._places.discard(place)
            self._settle()

    async def _turn(self, place: Place) -> bool:
        """Wait until the request may run. False: it was given up, and may not."""
        while not (place.may_run or place.given_up):
            rests = place.text and not place.prepared
            rest_s = place.reserve_s - _REST_UNTIL_S if rests else None
            try:
                async with asyncio.timeout(rest_s):
                    await place.woken.wait()
            except TimeoutError:
                self._settle()
        return place.may_run

    async def _until_denied(
        self, place: Place, deltas: AsyncGenerator[Delta, None]
    ) -> AsyncGenerator[Delta | None, None]:
        """The deltas; None at the end: the request shall make way."""
        while True:
            if place.makes_way:
                delta = await unless(place.denied, anext(deltas, _END))
                if delta is None:
                    yield None
                    return
            else:
                delta = await anext(deltas, _END)
                # What is left out is written again: of a word in two halves the second might be
                # another.
                if _begins_word(delta.text) and self._rests(place, _REST_FROM_S):
                    self._settle()
                    yield None
                    return
            if delta is _END:
                return
            yield delta

    def _settle(self) -> None:
        for place in self._places:
            place.may_run = self._may_run(place)
            _put(place.woken, place.may_run or place.given_up)
            _put(place.denied, not place.may_run)

    def _may_run(self, place: Place) -> bool:
        if place.text:
            return not self._rests(place, _REST_UNTIL_S)
        others = (o for o in self._places if o.order < place.order and o.slot != place.slot)
        if place.order is Order.AHEAD:
            # A prompt is read in long steps: an answer whose voice has just begun would break off.
            return not self._in_turn or all(o.reserve_s >= _READ_FROM_S for o in others)
        return not self._in_turn or not any(o.hurried for o in others)

    def _rests(self, place: Place, reserve_s: float) -> bool:
        """Whether it makes way for others' first phrases, having more in hand than `reserve_s`."""
        if not (self._resumes and place.spoken):
            return False
        if place.prepared:
            return True
        if place.hurried or place.reserve_s <= reserve_s:
            return False
        return any(
            other.hurried and other.order is not Order.AHEAD and other.slot != place.slot
            for other in self._places
        )


def _begins_word(text: str) -> bool:
    return text[:1].isspace() or text[:1] >= _FIRST_UNSPACED


def _put(event: asyncio.Event, happened: bool) -> None:
    if happened:
        event.set()
    else:
        event.clear()


_END = Delta(finish_reason="end of the stream")


async def unless(event: asyncio.Event, work: Awaitable[_T]) -> _T | None:
    """What the work comes to; None where the event comes first, and then the work is cancelled."""
    coming = asyncio.ensure_future(work)
    return coming.result() if await ends_unless(coming, event.wait()) else None
