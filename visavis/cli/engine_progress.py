"""A bar for a running build, and Ctrl-C that ends it cleanly."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from visavis.errors import PlanCancelledError
from visavis.plans.build_progress import Cancelled
from visavis.plans.build_progress import Progress as Report

_DRAW_EVERY_S = 0.1
_INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""

T = TypeVar("T")


class BuildBar:
    """One bar for the plan that is being built, and lines above it."""

    def __init__(self, console: Console) -> None:
        self._bar = Progress(
            TextColumn("{task.fields[plan]}", markup=False),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("", plan="", total=1.0, visible=False)
        self._drawn_at = 0.0

    def __enter__(self) -> BuildBar:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Take the bar away and give the cursor back."""
        self._bar.stop()

    def begin(self, plan: str) -> None:
        """Start the bar anew for `plan`."""
        self._bar.reset(self._task, description="", plan=plan, visible=True)

    def report(self, report: Report) -> None:
        """Move the bar. The compiler reports thousands of steps: not each is drawn."""
        now = time.monotonic()
        if now - self._drawn_at >= _DRAW_EVERY_S or report.fraction >= 1.0:
            self._drawn_at = now
            self._bar.update(self._task, completed=report.fraction, description=report.phase)

    def say(self, text: str | Text) -> None:
        """Print a line above the bar."""
        shown = text if isinstance(text, Text) else Text(text)
        self._bar.console.print(shown, soft_wrap=True)


def run_cancellable(
    work: Callable[[Cancelled], T],
    on_cancel: Callable[[], None],
    on_give_up: Callable[[], None] = lambda: None,
) -> T:
    """Run `work(cancelled)` in a thread of its own; Ctrl-C makes `cancelled()` true.

    The compiler calls back into Python, where no KeyboardInterrupt may rise: it would end the
    process. So this thread takes the signal, tells the work, and waits for it to end; a second
    Ctrl-C calls `on_give_up` and ends the process at once. Returns or raises what `work` does;
    after Ctrl-C raises PlanCancelledError even if the work was done.
    """
    asked, ended = threading.Event(), threading.Event()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work(asked.is_set))
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    thread = threading.Thread(target=run, name="plan-build", daemon=True)
    try:
        thread.start()
        ended.wait()
    except KeyboardInterrupt:
        asked.set()
        on_cancel()
        try:
            ended.wait()
        except KeyboardInterrupt:
            # The compiler does not listen. Python cannot shut down in order around it.
            on_give_up()
            os._exit(_INTERRUPTED)
    if errors:
        raise errors[0]
    if asked.is_set():
        raise PlanCancelledError("stopped")
    return results[0]
