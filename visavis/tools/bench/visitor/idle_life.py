"""The face's idle life, which is drawn before anything is measured.

A face draws it once on a machine and keeps it, first at rest and, once somebody has spoken to it,
listening: 6,000 pictures, for which a slow processor needs minutes beside conversations. What a
question costs and how long it takes is measured as it is from then on.
"""

from __future__ import annotations

from collections.abc import Callable

from visavis.client import GatewayClient
from visavis.tools.bench.figures.counters import Scraper
from visavis.tools.bench.visitor.clips import Clip
from visavis.tools.bench.visitor.visitor import Drawer, Transport, visit
from visavis.wire.clock import MonotonicClock

_DRAWN = "face_frames_total{mode=loop}"
_HELD_AGAINST = 2
"""The first picture of each loop is drawn in any case, and the kept one held against it."""
_LOOK_S = 0.5
_STILL_LOOKS = 6
"""Then it is all there: nobody who draws idle life rests for so long between two pictures."""


async def draw_idle_life(
    client: GatewayClient,
    question: Clip,
    transport: Transport,
    drawn_by: Drawer = "server",
    *,
    tell: Callable[[str], None],
) -> list[str]:
    """Have the face draw what it has not kept, as a visitor who asks `question` and stays.

    -> a note for the reader of the figures, where there was something. Where the face's metrics
    cannot be reached nothing is seen and nothing waited for.
    """
    scraper = Scraper(client)
    visiting = visit(
        client,
        MonotonicClock(),
        transport=transport,
        drawn_by=drawn_by,
        language=question.language,
    )
    async with visiting as visitor:

        async def drawn() -> int:
            return round((await scraper.read()).get(_DRAWN, 0.0))

        first = await drawn()
        # It is drawn listening once somebody speaks to a face that is seen from memory.
        for ask in (False, True):
            if ask:
                await visitor.say(question)
            last, still = await drawn(), 0
            while still < _STILL_LOOKS:
                await visitor.pause(_LOOK_S)
                now = await drawn()
                last, still = now, still + 1 if now == last else 0
                if now > first:
                    tell(f"first the face draws its idle life, once on a machine: {now - first}")
    if last - first <= _HELD_AGAINST:
        return []
    return [f"before, the face drew its idle life, once on a machine: {last - first} pictures"]
