"""A process' sign of life to whoever started it: its event loop gets on.

A process that is frozen, or whose loop is blocked for good, stays silent and is replaced
(`visavis/tools/stack/restarter.py`). The signs go through a pipe and not over the bus, so that
they need nothing else to work.
"""

from __future__ import annotations

import asyncio
import contextlib
import os

from visavis.serving.lifetime.supervision import Keeper

FD_VARIABLE = "VISAVIS_HEARTBEAT_FD"
"""Names the pipe's writing end, an open file of the process; unset: nobody listens."""
BEAT_S = 1.0
STARTING, WORKING = b"s", b"w"


class Heartbeat:
    """Beats from `start` to `stop`, once a second. Does nothing where nobody listens."""

    def __init__(self) -> None:
        told = os.environ.get(FD_VARIABLE)
        self._fd = int(told) if told else None
        self._sign = STARTING
        self._beating = Keeper("heartbeat", self._beat)

    def start(self) -> None:
        """Beat as a process that is starting."""
        if self._fd is not None:
            os.set_inheritable(self._fd, False)
            os.set_blocking(self._fd, False)
            self._beating.start()

    def working(self) -> None:
        """The start is over: from now on silence is short or a fault."""
        self._sign = WORKING
        self._give()

    async def stop(self) -> None:
        """Fall silent; the process is about to end."""
        await self._beating.stop()

    async def _beat(self) -> None:
        while True:
            self._give()
            await asyncio.sleep(BEAT_S)

    def _give(self) -> None:
        if self._fd is not None:
            # Whoever listens may be stopped at the moment, or gone.
            with contextlib.suppress(OSError):
                os.write(self._fd, self._sign)
