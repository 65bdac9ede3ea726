"""Event loops that keep the process's dilated time.

A simulated second takes `dilation` of the world's: a timer of 20 ms rings after 20 ms of the
process's clock, which are 200 ms of the world's at a dilation of 10. So two cores do the work of
many, and a moment in which another program has the processor is a tenth as long.
"""

from __future__ import annotations

import asyncio
import selectors
from typing import Any

from visavis.wire.clock import MonotonicClock, dilate, dilation

_CLOCK = MonotonicClock()


class _DilatedSelector(selectors.DefaultSelector):
    """Waits as much longer as the clock goes slower."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, Any]]:
        return super().select(timeout * dilation() if timeout and timeout > 0 else timeout)


class DilatedEventLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is the process's own."""

    def __init__(self) -> None:
        super().__init__(_DilatedSelector())

    def time(self) -> float:
        return _CLOCK.now()


class _DilatedPolicy(asyncio.DefaultEventLoopPolicy):
    def new_event_loop(self) -> asyncio.AbstractEventLoop:
        return DilatedEventLoop()


def live_dilated(factor: float) -> None:
    """All clocks and event loops of this process go `factor` times slower from now on.

    Before anything has read the time. Raises ValueError for a factor below 1.
    """
    dilate(factor)
    asyncio.set_event_loop_policy(_DilatedPolicy())
