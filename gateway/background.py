"""Tasks on the side of a session: all are ended with it, none fails unseen."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from visavis.serving.errors import VisavisError
from visavis.serving.lifetime.supervision import end_tasks

log = logging.getLogger(__name__)


class Background:
    """Keeps the tasks of a session that nobody awaits.

    failed: set when one raised what nobody foresaw; the session is then of no use.
    """

    def __init__(self) -> None:
        self.failed = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()

    def run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run `work` on the side. An error of ours in it is logged and no reason to fail."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def keep(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run `work`, without which the session is of no use."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        self.watch(task)

    def watch(self, task: asyncio.Task[Any]) -> None:
        """However the task ends, that is failure, unless whoever owns it has cancelled it."""
        task.add_done_callback(self._lost)

    def fault(self, what: str, error: Exception) -> None:
        """What is no task has failed, and the session is of no use."""
        log.error("%s failed", what, exc_info=error)
        self.failed.set()

    async def cancel_all(self) -> None:
        """Cancel all of them, and wait until they have ended."""
        await end_tasks(self._tasks)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, VisavisError):
            log.warning("%s", error)
        elif error is not None:
            log.error("a task failed", exc_info=error)
            self.failed.set()

    def _lost(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelling():
            return
        error = None if task.cancelled() else task.exception()
        log.error("the task %s ended", task.get_name(), exc_info=error)
        self.failed.set()
