"""The one pacing loop of a session: calls the tick at start + n x 20 ms, without drift."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gateway import metrics
from gateway.timeline import TICK_S
from visavis.clock import Clock

# After a longer stop (a suspended laptop) the past is not caught up with.
MAX_LAG_S = 0.5


async def pace(tick: Callable[[], None], clock: Clock) -> None:
    """Run for ever. A late tick is followed by the next at its own time, not 20 ms later."""
    deadline = clock.now()
    while True:
        tick()
        deadline += TICK_S
        lag = clock.now() - deadline
        if lag > MAX_LAG_S:
            deadline += lag
        metrics.tick_late_seconds.observe(max(0.0, lag))
        await asyncio.sleep(max(0.0, -lag))
