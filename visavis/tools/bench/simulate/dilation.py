"""An event loop that keeps the process's dilated time (`visavis.wire.clock.dilate`).

A simulated second takes `dilation` of the world's: a timer of 20 ms rings after 20 ms of the
process's clock, which are 200 ms of the world's at a dilation of 10. So two cores do the work of
many, and a moment in which another program has the processor is a tenth as long.
"""

from __future__ import annotations

import asyncio
import selectors
from typing import Any

from visavis.wire.clock import MonotonicClock, dilation

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
