"""Where one run's time went on the device, by CUDA events on the run's own stream."""

from __future__ import annotations

from dataclasses import dataclass

from visavis.engine.tensorrt.device import CudaDevice


@dataclass(frozen=True, slots=True)
class RunTimes:
    """Seconds on the device. Waiting for the lane is measured by the lane."""

    copy_in_s: float
    infer_s: float
    copy_out_s: float


class RunTimer:
    """Four events around copy in, inference and copy out."""

    def __init__(self, device: CudaDevice, stream: int) -> None:
        self._device = device
        self._stream = stream
        self._events = [device.create_event() for _ in range(4)]
        self._marked = 0

    def start(self) -> None:
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

    def close(self) -> None:
        while self._events:
            self._device.destroy_event(self._events.pop())
