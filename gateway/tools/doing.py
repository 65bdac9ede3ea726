"""Has done what the answers of one session call: by the gateway's own tools, or by its clients."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from gateway import metrics
from gateway.background import Background
from gateway.tools.offers import Call, ToolOffer


class ServerTools(Protocol):
    """Tools that the gateway does itself, for all sessions."""

    @property
    def offers(self) -> tuple[ToolOffer, ...]: ...

    def knows(self, name: str) -> bool: ...

    async def call(self, name: str, arguments: str) -> tuple[bool, str]:
        """Whether it was done, and what came of it or what went wrong. Raises nothing."""


class NoServerTools:
    """Where none are configured."""

    offers: tuple[ToolOffer, ...] = ()

    def knows(self, name: str) -> bool:
        return False

    async def call(self, name: str, arguments: str) -> tuple[bool, str]:
        return False, f"failed: there is no tool {name!r}"


def offered(
    of_session: Sequence[ToolOffer], of_server: Sequence[ToolOffer]
) -> tuple[ToolOffer, ...]:
    """What the model is told; of two with one name the session's."""
    names = {offer.name for offer in of_session}
    return (*of_session, *(offer for offer in of_server if offer.name not in names))


class ToolDoer:
    """Finds out who does a call, has it done, and lets go of it where nobody waits any more."""

    def __init__(
        self,
        server: ServerTools,
        background: Background,
        tell: Callable[[int, Call], None],
        result: Callable[[str, str], None],
    ) -> None:
        """tell: asks the session's clients for one. result: is told what a call came to."""
        self._server = server
        self._background = background
        self._tell = tell
        self._result = result
        self._tasks: set[asyncio.Task[None]] = set()
        self._asked: dict[str, float] = {}
        """Of clients, by the call's id, and when."""

    def do(self, turn: int, call: Call, of_session: Sequence[ToolOffer]) -> None:
        """Have it done. of_session: what its clients do."""
        if any(call.name == offer.name for offer in of_session):
            self._asked[call.id] = time.monotonic()
            self._tell(turn, call)
        elif self._server.knows(call.name):
            task = self._background.run(self._call(call))
            self._tasks.add(task)
            task.add_done_callback(lambda ended: self._tasks.discard(ended))
        else:
            metrics.tool_calls.labels("nobody", "failed").inc()
            self._result(call.id, f"failed: there is no tool {call.name!r}")

    def told(self, call_id: str) -> None:
        """A client has told what a call came to."""
        asked_s = self._asked.pop(call_id, None)
        if asked_s is not None:
            _count("client", "done", time.monotonic() - asked_s)

    def stop(self) -> None:
        """Nobody waits any more for what is not done yet."""
        for asked_s in self._asked.values():
            _count("client", "dropped", time.monotonic() - asked_s)
        self._asked.clear()
        for task in self._tasks:
            task.cancel()

    async def _call(self, call: Call) -> None:
        began_s = time.monotonic()
        how: Literal["done", "failed", "dropped"] = "dropped"
        try:
            done, output = await self._server.call(call.name, call.arguments)
            how = "done" if done else "failed"
        finally:
            _count("server", how, time.monotonic() - began_s)
        self._tasks = {task for task in self._tasks if task is not asyncio.current_task()}
        self._result(call.id, output)


def _count(by: str, how: str, seconds: float) -> None:
    metrics.tool_calls.labels(by, how).inc()
    if how != "dropped":
        metrics.tool_seconds.labels(by).observe(seconds)
