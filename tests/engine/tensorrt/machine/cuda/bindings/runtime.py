"""The double of a GPU behind the calls of cuda-python that the product makes.

As there, every call gives its status first and raises nothing. What would make a GPU read
or write memory that is not there gives cudaErrorIllegalAddress, with the reason in the log.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable
from functools import wraps
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.engine.tensorrt.machine.gpu import DEVICE
from visavis.engine.tensorrt.bindings.device import PinnedMemory

_log = logging.getLogger(__name__)
_NOTHING = np.zeros(0, np.uint8)
Answer = tuple[Any, ...]
cudaStreamNonBlocking = 1


class cudaError_t(enum.IntEnum):
    cudaSuccess = 0
    cudaErrorInvalidDevice = 101
    cudaErrorIllegalAddress = 700


class cudaMemcpyKind(enum.IntEnum):
    cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice = range(1, 4)


class cudaStreamCaptureMode(enum.IntEnum):
    cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal = range(2)


def _answered(call: Callable[..., Any]) -> Callable[..., Answer]:
    @wraps(call)
    def answer(*arguments: Any) -> Answer:
        try:
            value = call(*arguments)
        except (AssertionError, KeyError):
            _log.exception("the double of the GPU refuses %s%s", call.__name__, arguments)
            return (cudaError_t.cudaErrorIllegalAddress, *[0] * 2)
        values = value if isinstance(value, tuple) else () if value is None else (value,)
        return (cudaError_t.cudaSuccess, *values)

    return answer


def cudaGetErrorString(error: cudaError_t) -> Answer:
    return cudaError_t.cudaSuccess, error.name.encode()


def cudaGetLastError() -> Answer:
    return (cudaError_t.cudaSuccess,)


def cudaGetDeviceCount() -> Answer:
    return cudaError_t.cudaSuccess, 1


def cudaGetDeviceProperties(device: int) -> Answer:
    info = DEVICE.info
    uuid = SimpleNamespace(bytes=bytes.fromhex(info.uuid.removeprefix("GPU-").replace("-", "")))
    properties = SimpleNamespace(
        name=info.name.encode() + b"\0",
        uuid=uuid,
        major=info.sm[0],
        minor=info.sm[1],
        totalGlobalMem=info.total_bytes,
    )
    return cudaError_t.cudaSuccess, properties


def cudaSetDevice(device: int) -> Answer:
    if device != DEVICE.info.index:
        return (cudaError_t.cudaErrorInvalidDevice,)
    DEVICE.depth = 1
    return (cudaError_t.cudaSuccess,)


@_answered
def cudaMallocHost(size: int) -> int:
    return DEVICE.alloc_pinned(size).address


@_answered
def cudaFreeHost(ptr: int) -> None:
    DEVICE.free_pinned(PinnedMemory(ptr, _NOTHING))


@_answered
def cudaMemcpyAsync(dst: int, src: int, count: int, kind: cudaMemcpyKind, stream: int) -> None:
    if kind is cudaMemcpyKind.cudaMemcpyHostToDevice:
        assert src in DEVICE.pinned, "host memory that is not page-locked"
        DEVICE.copy_to_device(dst, PinnedMemory(src, _NOTHING), count, stream)
    elif kind is cudaMemcpyKind.cudaMemcpyDeviceToHost:
        assert dst in DEVICE.pinned, "host memory that is not page-locked"
        DEVICE.copy_to_host(PinnedMemory(dst, _NOTHING), src, count, stream)
    else:
        DEVICE.copy_on_device(dst, src, count, stream)


@_answered
def cudaMemsetAsync(devPtr: int, value: int, count: int, stream: int) -> None:
    assert value == 0
    DEVICE.clear(devPtr, count, stream)


@_answered
def cudaStreamCreateWithFlags(flags: int) -> int:
    assert flags == cudaStreamNonBlocking
    return DEVICE.create_stream()


@_answered
def cudaEventElapsedTime(start: int, end: int) -> float:
    return DEVICE.elapsed_s(start, end) * 1e3


@_answered
def cudaStreamBeginCapture(stream: int, mode: cudaStreamCaptureMode) -> None:
    # Global would void the capture as soon as another engine of the process allocates.
    assert mode is cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
    DEVICE.begin_capture(stream)


@_answered
def cudaGraphInstantiate(graph: int, flags: int) -> int:
    return graph


def cudaGraphDestroy(graph: int) -> Answer:
    """The double's graph is instantiated as it is: it goes with cudaGraphExecDestroy."""
    return (cudaError_t.cudaSuccess,)


@_answered
def cudaMemGetInfo() -> tuple[int, int]:
    memory = DEVICE.memory()
    return memory.free_bytes, memory.total_bytes


cudaMalloc = _answered(DEVICE.alloc)
cudaFree = _answered(DEVICE.free)
cudaStreamDestroy = _answered(DEVICE.destroy_stream)
cudaStreamSynchronize = _answered(DEVICE.synchronize)
cudaEventCreate = _answered(DEVICE.create_event)
cudaEventDestroy = _answered(DEVICE.destroy_event)
cudaEventRecord = _answered(DEVICE.record)
cudaStreamEndCapture = _answered(DEVICE.end_capture)
cudaGraphLaunch = _answered(DEVICE.launch_graph)
cudaGraphExecDestroy = _answered(DEVICE.destroy_graph)
