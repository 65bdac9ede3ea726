"""Services of a running stack started anew, one process at a time, so that no turn is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from visavis.serving.admission.probes import free_memory_bytes
from visavis.serving.errors import VisavisError
from visavis.tools.stack.process import memory_bytes
from visavis.tools.stack.supervisor import Stack

# A process that has just started may become larger than the one that has worked for a while.
_ROOM = 1.2


class RollingRestart:
    """Restarts processes of one stack: of each, a new one is started, then the old one drains.

    One restart at a time.
    """

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self._under_way = asyncio.Lock()

    async def run(self, services: list[str], tell: Callable[[str], None]) -> None:
        """Restart these services or processes; "all": every one. tell: is called with each step.

        Raises VisavisError where one is not known or does not become ready: it goes on as it was,
        and so do those after it.
        """
        if self._under_way.locked():
            raise VisavisError("a restart is under way; wait until it is done")
        async with self._under_way:
            found = [n for service in services for n in self._stack.processes_of(service)]
            names = list(dict.fromkeys(found))
            for number, name in enumerate(names, start=1):

                def step(what: str, which: str = f"{number}/{len(names)} {name}") -> None:
                    tell(f"{which}: {what}")

                await self._restart(name, step)

    async def _restart(self, name: str, tell: Callable[[str], None]) -> None:
        if self._has_room_for_two(name):
            tell("a new process starts")
            spare = await self._stack.start_spare(name)
            tell("the new process is ready; the old one finishes its turns")
            await self._stack.retire(name, spare)
        else:
            tell("no memory for a second process; the others take its sessions meanwhile")
            await self._stack.restart_in_place(name)
        tell("done")

    def _has_room_for_two(self, name: str) -> bool:
        """Raises VisavisError where there is no room, and nobody else to take the sessions."""
        process = self._stack.children[name]
        needed_bytes = memory_bytes([process])[process.name] * _ROOM
        free_bytes = free_memory_bytes()
        if needed_bytes <= free_bytes:
            return True
        if not self._stack.siblings(name):
            raise VisavisError(
                f"{name} cannot be restarted without losing turns: a second process beside it "
                f"needs {needed_bytes / 2**20:.0f} MiB, and {free_bytes / 2**20:.0f} MiB are free"
            )
        return False
