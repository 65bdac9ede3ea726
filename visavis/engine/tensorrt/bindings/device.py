"""What an engine needs of a CUDA device, and nothing more.

Two bindings fill this interface: `cuda_python.py` and `pycuda.py`. Addresses and
handles are plain integers, because that is what TensorRT takes.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from visavis.serving.errors import EngineError


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """One CUDA device as the driver describes it."""

    index: int
    name: str
    uuid: str
    """"GPU-" and 32 hexadecimal digits in groups, as nvidia-smi prints it."""
    sm: tuple[int, int]
    """Compute capability, for example (9, 0)."""
    total_bytes: int

    def __str__(self) -> str:
        gib = self.total_bytes / 2**30
        sm = f"sm_{self.sm[0]}{self.sm[1]}"
        return f"cuda:{self.index} ({self.name}, {sm}, {gib:.0f} GiB, {self.uuid})"


@dataclass(frozen=True, slots=True)
class MemoryInfo:
    """Device memory of the whole device, other processes included."""

    free_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class PinnedMemory:
    """Page-locked host memory: the device copies from and to it without a detour."""

    address: int
    array: NDArray[np.uint8]


class CudaError(EngineError):
    """A CUDA call failed."""

    def __init__(self, call: str, name: str, text: str = "") -> None:
        self.call = call
        self.name = name
        super().__init__(f"{call}: {name}" + (f" ({text})" if text else ""))

    @property
    def out_of_memory(self) -> bool:
        """There was not enough memory."""
        return self.name in ("cudaErrorMemoryAllocation", "CUDA_ERROR_OUT_OF_MEMORY")


class CudaDevice(Protocol):
    """One device. Every method raises CudaError with CUDA's own name of the error.

    Calls belong into `with device.current():`, which makes the device the
    calling thread's own. Copies are ordered by their stream and return at once.
    """

    info: DeviceInfo
    has_graphs: bool

    def current(self) -> AbstractContextManager[None]:
        """Makes the device the calling thread's own."""
        ...

    def alloc(self, size_bytes: int) -> int:
        """Address of so much device memory."""
        ...

    def free(self, address: int) -> None:
        """Give device memory back."""
        ...

    def alloc_pinned(self, size_bytes: int) -> PinnedMemory:
        """Page-locked host memory, which copies need to be asynchronous."""
        ...

    def free_pinned(self, memory: PinnedMemory) -> None:
        """Give page-locked memory back."""
        ...

    def copy_to_device(
        self, target: int, source: PinnedMemory, size_bytes: int, stream: int
    ) -> None:
        """Enqueue a copy out of page-locked memory."""
        ...

    def copy_to_host(self, target: PinnedMemory, source: int, size_bytes: int, stream: int) -> None:
        """Enqueue a copy into page-locked memory."""
        ...

    def copy_on_device(self, target: int, source: int, size_bytes: int, stream: int) -> None:
        """Enqueue a copy within the device."""
        ...

    def clear(self, address: int, size_bytes: int, stream: int) -> None:
        """Enqueue zeros."""
        ...

    def create_stream(self) -> int:
        """A non-blocking stream: it does not wait for the default one."""
        ...

    def destroy_stream(self, stream: int) -> None:
        """Free a stream; what is enqueued still runs."""
        ...

    def synchronize(self, stream: int) -> None:
        """Wait for the stream. Errors of asynchronous work appear here."""
        ...

    def create_event(self) -> int:
        """An event that tells times, once it is recorded."""
        ...

    def destroy_event(self, event: int) -> None:
        """Free an event."""
        ...

    def record(self, event: int, stream: int) -> None:
        """Enqueue: the event happens when the stream gets here."""
        ...

    def elapsed_s(self, start: int, end: int) -> float:
        """Seconds between two recorded events that have both happened."""
        ...

    def begin_capture(self, stream: int) -> None:
        """What this thread enqueues on the stream becomes a graph instead of running."""
        ...

    def end_capture(self, stream: int) -> int:
        """The captured graph, instantiated, to be launched with `launch_graph`."""
        ...

    def launch_graph(self, graph: int, stream: int) -> None:
        """Enqueue a run of the graph."""
        ...

    def destroy_graph(self, graph: int) -> None:
        """Free a graph that is not running."""
        ...

    def memory(self) -> MemoryInfo:
        """How much there is, and how much is free."""
        ...


class CudaBinding(Protocol):
    """One Python binding of CUDA: what devices there are, and access to one."""

    name: str

    def devices(self) -> list[DeviceInfo]:
        """Every device. Raises CudaError where there is no driver or no device."""
        ...

    def open(self, info: DeviceInfo) -> CudaDevice:
        """Access to one device. Raises CudaError."""
        ...


def uuid_text(raw: bytes) -> str:
    """ "GPU-…" as nvidia-smi writes 16 bytes."""
    digits = raw.hex()
    groups = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32])
    return "GPU-" + "-".join(groups)


def pinned_array(address: int, size_bytes: int) -> NDArray[np.uint8]:
    """The bytes at a host address as [size_bytes] uint8, an array that does not own them."""
    import ctypes

    kind: Any = ctypes.c_uint8 * size_bytes
    return np.ctypeslib.as_array(kind.from_address(address))
