"""CUDA through PyCUDA: the device's primary context, retained, and never `pycuda.autoinit`.

PyCUDA has no CUDA graphs. It raises exceptions of its own, whose text begins with
the name of the call that failed; they become CudaError.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pycuda import driver

from visavis.engine.tensorrt.bindings.device import (
    CudaDevice,
    CudaError,
    DeviceInfo,
    MemoryInfo,
    PinnedMemory,
    uuid_text,
)
from visavis.serving.errors import EngineError


@contextmanager
def _checked() -> Iterator[None]:
    try:
        yield
    except driver.Error as error:
        # "cuMemAlloc failed: out of memory"
        call, _, text = str(error).partition(" failed: ")
        raise CudaError(call, _NAMES.get(text, text or type(error).__name__), text) from error


_NAMES = {
    "out of memory": "CUDA_ERROR_OUT_OF_MEMORY",
    "an illegal memory access was encountered": "CUDA_ERROR_ILLEGAL_ADDRESS",
    "unspecified launch failure": "CUDA_ERROR_LAUNCH_FAILED",
    "no CUDA-capable device is detected": "CUDA_ERROR_NO_DEVICE",
}


# CU_STREAM_NON_BLOCKING, for which PyCUDA has no name.
_NON_BLOCKING = 1


class PyCuda:
    """The binding itself."""

    name = "pycuda"

    def devices(self) -> list[DeviceInfo]:
        with _checked():
            driver.init()
            return [_describe(index) for index in range(driver.Device.count())]

    def open(self, info: DeviceInfo) -> CudaDevice:
        with _checked():
            driver.init()
            return PyCudaDevice(info, driver.Device(info.index).retain_primary_context())


def _describe(index: int) -> DeviceInfo:
    device = driver.Device(index)
    major, minor = device.compute_capability()
    return DeviceInfo(
        index,
        device.name(),
        _uuid(index),
        (major, minor),
        device.total_memory(),
    )


def _uuid(index: int) -> str:
    """PyCUDA does not tell it, so the driver that it has loaded is asked; "" where it will not."""
    device, raw = ctypes.c_int(), (ctypes.c_uint8 * 16)()
    try:
        library = ctypes.CDLL("libcuda.so.1")
        found = library.cuDeviceGet(ctypes.byref(device), index) == 0
        found = found and library.cuDeviceGetUuid(raw, device) == 0
    except (OSError, AttributeError):
        return ""
    return uuid_text(bytes(raw)) if found else ""


class PyCudaDevice:
    """One device. PyCUDA's own objects are kept behind the integers that are handed out."""

    has_graphs = False

    def __init__(self, info: DeviceInfo, context: Any) -> None:
        self.info = info
        self._context = context
        # Left to its destructor, PyCUDA gives a primary context back in the wrong way.
        weakref.finalize(self, context.detach)
        self._objects: dict[int, Any] = {}

    @contextmanager
    def current(self) -> Iterator[None]:
        with _checked():
            self._context.push()
        try:
            yield
        finally:
            driver.Context.pop()

    def alloc(self, size_bytes: int) -> int:
        with _checked():
            return self._keep(driver.mem_alloc(size_bytes))

    def free(self, address: int) -> None:
        with _checked():
            self._objects.pop(address).free()

    def alloc_pinned(self, size_bytes: int) -> PinnedMemory:
        with _checked():
            array = driver.pagelocked_empty(size_bytes, "uint8")
        address = int(array.ctypes.data)
        self._objects[address] = array
        return PinnedMemory(address, array)

    def free_pinned(self, memory: PinnedMemory) -> None:
        with _checked():
            self._objects.pop(memory.address).base.free()

    def copy_to_device(
        self, target: int, source: PinnedMemory, size_bytes: int, stream: int
    ) -> None:
        with _checked():
            driver.memcpy_htod_async(target, source.array[:size_bytes], self._objects[stream])

    def copy_to_host(self, target: PinnedMemory, source: int, size_bytes: int, stream: int) -> None:
        with _checked():
            driver.memcpy_dtoh_async(target.array[:size_bytes], source, self._objects[stream])

    def copy_on_device(self, target: int, source: int, size_bytes: int, stream: int) -> None:
        with _checked():
            driver.memcpy_dtod_async(target, source, size_bytes, self._objects[stream])

    def clear(self, address: int, size_bytes: int, stream: int) -> None:
        with _checked():
            driver.memset_d8_async(address, 0, size_bytes, self._objects[stream])

    def create_stream(self) -> int:
        with _checked():
            stream = driver.Stream(flags=_NON_BLOCKING)
        self._objects[int(stream.handle)] = stream
        return int(stream.handle)

    def destroy_stream(self, stream: int) -> None:
        self._objects.pop(stream)

    def synchronize(self, stream: int) -> None:
        with _checked():
            self._objects[stream].synchronize()

    def create_event(self) -> int:
        with _checked():
            event = driver.Event()
        self._objects[id(event)] = event
        return id(event)

    def destroy_event(self, event: int) -> None:
        self._objects.pop(event)

    def record(self, event: int, stream: int) -> None:
        with _checked():
            self._objects[event].record(self._objects[stream])

    def elapsed_s(self, start: int, end: int) -> float:
        with _checked():
            return float(self._objects[start].time_till(self._objects[end])) / 1e3

    def begin_capture(self, stream: int) -> None:
        """Raises EngineError, always."""
        raise EngineError("pycuda has no CUDA graphs; install cuda-python for them")

    def end_capture(self, stream: int) -> int:
        """Raises EngineError, always."""
        raise EngineError("pycuda has no CUDA graphs; install cuda-python for them")

    def launch_graph(self, graph: int, stream: int) -> None:
        """Raises EngineError, always."""
        raise EngineError("pycuda has no CUDA graphs; install cuda-python for them")

    def destroy_graph(self, graph: int) -> None:
        """Raises EngineError, always."""
        raise EngineError("pycuda has no CUDA graphs; install cuda-python for them")

    def memory(self) -> MemoryInfo:
        with _checked():
            free, total = driver.mem_get_info()
        return MemoryInfo(free, total)

    def _keep(self, thing: Any) -> int:
        address = int(thing)
        self._objects[address] = thing
        return address
