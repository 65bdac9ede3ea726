"""The part of TensorRT that running a plan takes, as types.

`tensorrt` 11 and `tensorrt_rtx` share it, so the module is a value: whoever opens
an engine passes it in. The tests hold these signatures against the real bindings.
Failures come back as None or False, not as exceptions.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from visavis.serving.errors import EngineLoadError

MODULES = ("tensorrt", "tensorrt_rtx")
"""In the order of preference."""


class Dims(Protocol):
    """A shape; -1 is a dimension that is free or not known yet."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[int]: ...


class ExecutionContext(Protocol):
    def set_optimization_profile_async(self, profile_index: int, stream_handle: int) -> bool: ...

    def set_device_memory(self, memory: int, size: int) -> None: ...

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool: ...

    def set_tensor_address(self, name: str, memory: int) -> bool: ...

    def set_output_allocator(self, name: str, output_allocator: Any) -> bool: ...

    def infer_shapes(self) -> Sequence[str]: ...

    def get_tensor_shape(self, name: str) -> Dims: ...

    def execute_async_v3(self, stream_handle: int) -> bool: ...


class CudaEngine(Protocol):
    num_io_tensors: int
    num_optimization_profiles: int

    def get_tensor_name(self, index: int) -> str: ...

    def get_tensor_mode(self, name: str) -> Any: ...

    def get_tensor_dtype(self, name: str) -> Any: ...

    def get_tensor_shape(self, name: str) -> Dims: ...

    def get_tensor_location(self, name: str) -> Any: ...

    def get_tensor_profile_shape(self, name: str, profile_index: int) -> Sequence[Dims]: ...

    def get_engine_stat(self, stat: Any) -> int: ...

    def get_device_memory_size_for_profile_v2(self, profile_index: int) -> int: ...

    def create_execution_context(self, strategy: Any) -> ExecutionContext | None: ...


class Runtime(Protocol):
    def deserialize_cuda_engine(self, serialized_engine: bytes) -> CudaEngine | None: ...


PROTOCOLS: dict[type, str] = {
    ExecutionContext: "IExecutionContext",
    CudaEngine: "ICudaEngine",
    Runtime: "Runtime",
}
"""Each with the class of TensorRT that it describes."""


def import_trt(backend: str) -> Any:
    """The module behind a backend's name. Raises EngineLoadError naming what to install."""
    if backend not in MODULES:
        raise EngineLoadError(f"backend: {backend!r} is none of {', '.join(MODULES)}")
    try:
        return importlib.import_module(backend)
    except ImportError as error:
        raise EngineLoadError(
            f"backend {backend}: {error}; install the wheel of NVIDIA's {backend.replace('_', '-')}"
        ) from error
    except (OSError, RuntimeError) as error:  # its libraries do not load
        raise EngineLoadError(f"backend {backend}: cannot be loaded: {error}") from error
