"""Python's search for garbage that refers to itself, kept short: it stops the whole process.

A full search looks at every object there is. In a gateway with six visitors these are 185,000,
most of them of modules, which stay for ever: 0.12 s in which no sound leaves, where players have
0.1 s in reserve. The services are held up as long.
"""

from __future__ import annotations

import asyncio
import gc
import time

from visavis.serving import metrics

_FULL = 2


class Collecting:
    """Full searches of the process leave out what was there at the end of its start.

    Such objects are freed as before once nothing refers to them; only what of them refers to itself
    would stay.
    """

    def __init__(self) -> None:
        self._began_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None

    def settled(self) -> None:
        """The start is over: search once more, and from now on only among what is new.

        Called on the event loop, by one in a process, which may have had nothing searched so far.
        """
        gc.collect()
        gc.freeze()
        gc.enable()
        self._loop = asyncio.get_running_loop()
        gc.callbacks.append(self._told)

    def stop(self) -> None:
        """The process is about to end. Harmless where it was never settled."""
        if self._told in gc.callbacks:
            gc.callbacks.remove(self._told)
            gc.unfreeze()

    def _told(self, phase: str, info: dict[str, int]) -> None:
        if info["generation"] < _FULL:
            return
        if phase == "start":
            self._began_s = time.perf_counter()
        elif self._loop is not None and not self._loop.is_closed():
            # Whoever's code is at work may be inside of a metric, and hold its lock.
            took_s = time.perf_counter() - self._began_s
            self._loop.call_soon_threadsafe(metrics.full_collection_seconds.observe, took_s)
