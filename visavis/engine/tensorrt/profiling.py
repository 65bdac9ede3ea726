"""Where time goes on a device: named ranges for Nsight Systems, CUDA events around a run.

Ranges are there where the `nvtx` package is installed; they show a running service's queue, copies
and inference on one timeline:

    nsys profile -t cuda,nvtx -o tts python -m services.tts --device cuda:0
"""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from visavis.engine.tensorrt.bindings.device import CudaDevice


def _import() -> Any | None:
    try:
        return importlib.import_module("nvtx")
    except ImportError:
        return None


_nvtx = _import()
_nothing = nullcontext()


def span(name: str) -> AbstractContextManager[Any]:
    """The work inside, as a range of this thread."""
    if _nvtx is None:
        return _nothing
    range_: AbstractContextManager[Any] = _nvtx.annotate(name, domain="visavis")
    return range_


def start(name: str) -> Any:
    """Begin a range that another thread may `end`: waiting in a queue."""
    return _nvtx.start_range(name, domain="visavis") if _nvtx is not None else None


def end(range_: Any) -> None:
    """End what `start` began, in any thread."""
    if _nvtx is not None and range_ is not None:
        _nvtx.end_range(range_)


@dataclass(frozen=True, slots=True)
class RunTimes:
    """Seconds on the device. Waiting for the lane is measured by the lane."""

    copy_in_s: float
    infer_s: float
    copy_out_s: float


class RunTimer:
    """Four CUDA events around copy in, inference and copy out, on the run's own stream."""

    def __init__(self, device: CudaDevice, stream: int) -> None:
        self._device = device
        self._stream = stream
        self._events = [device.create_event() for _ in range(4)]
        self._marked = 0

    def begin_run(self) -> None:
        """A run begins: what is enqueued next is its copy in."""
        self._marked = 0
        self.mark()

    def mark(self) -> None:
        """The end of the stage that is being enqueued."""
        self._device.record(self._events[self._marked], self._stream)
        self._marked += 1

    def times(self) -> RunTimes:
        """Of the run that was waited for."""
        pairs = zip(self._events, self._events[1:], strict=False)
        return RunTimes(*(self._device.elapsed_s(start, end) for start, end in pairs))

    def destroy_events(self) -> None:
        """The device has them no more."""
        while self._events:
            self._device.destroy_event(self._events.pop())
