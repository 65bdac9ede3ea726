"""The one GPU of a process that runs on the doubles."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

from tests.engine.tensorrt.recorded_device import INFO, RecordedDevice

DEVICE = RecordedDevice(replace(INFO, total_bytes=2**36))
# A service runs on: what it asked for long ago is of no interest.
DEVICE.calls = deque(maxlen=1000)  # type: ignore[assignment]
