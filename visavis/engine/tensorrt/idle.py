"""Unloads engines that nobody has used for long enough. One thread, only while there are any."""

from __future__ import annotations

import threading
import weakref
from functools import cache
from typing import Protocol

from visavis.clock import Clock, MonotonicClock


class Unloadable(Protocol):
    def unload_idle(self, now_s: float) -> float:
        """Unload if idle; seconds until it makes sense to ask again."""
        ...


class IdleUnloader:
    """Asks the engines that it watches, in a thread of its own."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or MonotonicClock()
        self._engines: weakref.WeakSet[Unloadable] = weakref.WeakSet()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def watch(self, engine: Unloadable) -> None:
        with self._changed:
            self._engines.add(engine)
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="idle-plans", daemon=True)
                self._thread.start()

    def forget(self, engine: Unloadable) -> None:
        with self._changed:
            self._engines.discard(engine)
            self._changed.notify()

    def ask_all(self) -> float | None:
        """Unload what is idle; seconds until the next may be, None where nothing is watched."""
        now_s = self._clock.now()
        return min((engine.unload_idle(now_s) for engine in list(self._engines)), default=None)

    def _loop(self) -> None:
        while True:
            wait_s = self.ask_all()
            with self._changed:
                if not self._engines:
                    self._thread = None
                    return
                self._changed.wait(wait_s)


@cache
def shared_unloader() -> IdleUnloader:
    """The process's own."""
    return IdleUnloader()
