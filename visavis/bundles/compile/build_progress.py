"""How far a build is: TensorRT's nested phases folded into one fraction."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from visavis.serving.errors import PlanCancelledError


@dataclass(frozen=True)
class Progress:
    """One report: what the compiler does now, and how much of the whole is done (0..1)."""

    phase: str
    fraction: float


OnProgress = Callable[[Progress], None]
Cancelled = Callable[[], bool]


def stop_if(cancelled: Cancelled | None) -> None:
    """Raise PlanCancelledError once `cancelled` says so. To be called between any two steps."""
    if cancelled is not None and cancelled():
        raise PlanCancelledError("the build was cancelled")


@dataclass
class _Phase:
    name: str
    steps: int
    done: int = 0


class PhaseStack:
    """Phases inside each other; the fraction never goes back."""

    def __init__(self) -> None:
        self._open: list[_Phase] = []
        self._fraction = 0.0

    def start(self, name: str, parent: str | None, steps: int) -> Progress:
        """A phase of `steps` steps begins inside `parent` (None: a new root)."""
        while self._open and self._open[-1].name != parent:
            self._open.pop()
        self._open.append(_Phase(name, max(1, steps)))
        return self._report()

    def step(self, name: str, step: int) -> Progress:
        """Step `step`, counted from 0, of the phase is done."""
        for phase in reversed(self._open):
            if phase.name == name:
                phase.done = min(phase.steps, max(phase.done, step + 1))
                break
        return self._report()

    def finish(self, name: str) -> Progress:
        """The phase ends, with or without all of its steps."""
        names = [phase.name for phase in self._open]
        if name in names:
            at = len(names) - 1 - names[::-1].index(name)
            self._open[at].done = self._open[at].steps
            report = self._report()
            del self._open[at:]
            return report
        return self._report()

    def _report(self) -> Progress:
        inner = 0.0
        for phase in reversed(self._open):
            inner = min(1.0, (phase.done + inner) / phase.steps)
        self._fraction = max(self._fraction, inner)
        return Progress(self._open[-1].name if self._open else "", self._fraction)


class BuildWatch:
    """Reports progress and asks whether to go on. TensorRT calls it from several threads.

    An exception must not travel through the compiler: the first one is kept in
    `error`, stops the build, and is for the caller to raise afterwards.
    """

    def __init__(self, on_progress: OnProgress | None, cancelled: Cancelled | None) -> None:
        self._on_progress = on_progress
        self._cancelled = cancelled
        self._phases = PhaseStack()
        self._lock = threading.Lock()
        self.stopped = False
        self.error: BaseException | None = None

    def started(self, name: str, parent: str | None, steps: int) -> None:
        with self._lock:
            self._tell(self._phases.start(name, parent, steps))

    def stepped(self, name: str, step: int) -> bool:
        """False: end the build now."""
        with self._lock:
            self._tell(self._phases.step(name, step))
            return not self._should_stop()

    def finished(self, name: str) -> None:
        with self._lock:
            self._tell(self._phases.finish(name))

    def _tell(self, progress: Progress) -> None:
        # A build that is being stopped still closes its phases: that is no progress.
        if self._on_progress is None or self.error is not None or self.stopped:
            return
        try:
            self._on_progress(progress)
        except BaseException as error:
            self.error = error

    def _should_stop(self) -> bool:
        try:
            if self.error is not None or (self._cancelled is not None and self._cancelled()):
                self.stopped = True
        except BaseException as error:
            self.error, self.stopped = error, True
        return self.stopped


def make_monitor(trt: Any, watch: BuildWatch) -> Any:
    """`watch` as an IProgressMonitor of the module `trt`."""

    class Monitor(trt.IProgressMonitor):  # type: ignore[misc]
        def __init__(self) -> None:
            trt.IProgressMonitor.__init__(self)

        def phase_start(self, phase_name: str, parent_phase: str | None, num_steps: int) -> None:
            watch.started(phase_name, parent_phase, num_steps)

        def step_complete(self, phase_name: str, step: int) -> bool:
            return watch.stepped(phase_name, step)

        def phase_finish(self, phase_name: str) -> None:
            watch.finished(phase_name)

    return Monitor()
