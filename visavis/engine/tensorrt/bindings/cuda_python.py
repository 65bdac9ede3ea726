"""CUDA through NVIDIA's cuda-python, whose calls return their status: each is checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cuda.bindings import runtime

from visavis.engine.tensorrt.bindings.device import (
    CudaDevice,
    CudaError,
    DeviceInfo,
    MemoryInfo,
    PinnedMemory,
    pinned_array,
    uuid_text,
)


def check(call: str, result: tuple[Any, ...]) -> Any:
    """The values of one cuda-python call: None, the value or a tuple. Raises CudaError."""
    status, *values = result
    if status != runtime.cudaError_t.cudaSuccess:
        _, text = runtime.cudaGetErrorString(status)
        # The error is cleared, or the next call of this thread would report it again.
        runtime.cudaGetLastError()
        raise CudaError(call, status.name, text.decode() if text else "")
    if len(values) > 1:
        return tuple(values)
    return values[0] if values else None


class CudaPython:
    """The binding itself."""

    name = "cuda-python"

    def devices(self) -> list[DeviceInfo]:
        count = check("cudaGetDeviceCount", runtime.cudaGetDeviceCount())
        return [_describe(index) for index in range(count)]

    def open(self, info: DeviceInfo) -> CudaDevice:
        return CudaPythonDevice(info)


def _describe(index: int) -> DeviceInfo:
    properties = check("cudaGetDeviceProperties", runtime.cudaGetDeviceProperties(index))
    return DeviceInfo(
        index,
        properties.name.split(b"\0")[0].decode(),
        uuid_text(bytes(properties.uuid.bytes)),
        (properties.major, properties.minor),
        properties.totalGlobalMem,
    )


class CudaPythonDevice:
    """One device through the runtime API, that is in its primary context."""

    has_graphs = True

    def __init__(self, info: DeviceInfo) -> None:
        self.info = info

    @contextmanager
    def current(self) -> Iterator[None]:
        check("cudaSetDevice", runtime.cudaSetDevice(self.info.index))
        yield

    def alloc(self, size_bytes: int) -> int:
        return int(check("cudaMalloc", runtime.cudaMalloc(size_bytes)))

    def free(self, address: int) -> None:
        check("cudaFree", runtime.cudaFree(address))

    def alloc_pinned(self, size_bytes: int) -> PinnedMemory:
        address = int(check("cudaMallocHost", runtime.cudaMallocHost(size_bytes)))
        return PinnedMemory(address, pinned_array(address, size_bytes))

    def free_pinned(self, memory: PinnedMemory) -> None:
        check("cudaFreeHost", runtime.cudaFreeHost(memory.address))

    def copy_to_device(
        self, target: int, source: PinnedMemory, size_bytes: int, stream: int
    ) -> None:
        kind = runtime.cudaMemcpyKind.cudaMemcpyHostToDevice
        result = runtime.cudaMemcpyAsync(target, source.address, size_bytes, kind, stream)
        check("cudaMemcpyAsync", result)

    def copy_to_host(self, target: PinnedMemory, source: int, size_bytes: int, stream: int) -> None:
        kind = runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost
        result = runtime.cudaMemcpyAsync(target.address, source, size_bytes, kind, stream)
        check("cudaMemcpyAsync", result)

    def copy_on_device(self, target: int, source: int, size_bytes: int, stream: int) -> None:
        kind = runtime.cudaMemcpyKind.cudaMemcpyDeviceToDevice
        result = runtime.cudaMemcpyAsync(target, source, size_bytes, kind, stream)
        check("cudaMemcpyAsync", result)

    def clear(self, address: int, size_bytes: int, stream: int) -> None:
        check("cudaMemsetAsync", runtime.cudaMemsetAsync(address, 0, size_bytes, stream))

    def create_stream(self) -> int:
        flags = runtime.cudaStreamNonBlocking
        return int(check("cudaStreamCreate", runtime.cudaStreamCreateWithFlags(flags)))

    def destroy_stream(self, stream: int) -> None:
        check("cudaStreamDestroy", runtime.cudaStreamDestroy(stream))

    def synchronize(self, stream: int) -> None:
        check("cudaStreamSynchronize", runtime.cudaStreamSynchronize(stream))

    def create_event(self) -> int:
        return int(check("cudaEventCreate", runtime.cudaEventCreate()))

    def destroy_event(self, event: int) -> None:
        check("cudaEventDestroy", runtime.cudaEventDestroy(event))

    def record(self, event: int, stream: int) -> None:
        check("cudaEventRecord", runtime.cudaEventRecord(event, stream))

    def elapsed_s(self, start: int, end: int) -> float:
        elapsed_ms = check("cudaEventElapsedTime", runtime.cudaEventElapsedTime(start, end))
        return float(elapsed_ms) / 1e3

    def begin_capture(self, stream: int) -> None:
        # Of this thread only: other engines of the process go on allocating meanwhile.
        mode = runtime.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        check("cudaStreamBeginCapture", runtime.cudaStreamBeginCapture(stream, mode))

    def end_capture(self, stream: int) -> int:
        graph = check("cudaStreamEndCapture", runtime.cudaStreamEndCapture(stream))
        try:
            return int(check("cudaGraphInstantiate", runtime.cudaGraphInstantiate(graph, 0)))
        finally:
            check("cudaGraphDestroy", runtime.cudaGraphDestroy(graph))

    def launch_graph(self, graph: int, stream: int) -> None:
        check("cudaGraphLaunch", runtime.cudaGraphLaunch(graph, stream))

    def destroy_graph(self, graph: int) -> None:
        check("cudaGraphExecDestroy", runtime.cudaGraphExecDestroy(graph))

    def memory(self) -> MemoryInfo:
        free, total = check("cudaMemGetInfo", runtime.cudaMemGetInfo())
        return MemoryInfo(free, total)
