"""The part of TensorRT that compiling takes, as types.

`tensorrt` 11 and `tensorrt_rtx` share it. The type checker holds our calls against this page,
and a test holds this page against the real bindings of both. Failures come back as None, False
or -1, not as exceptions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

Shape = tuple[int, ...]


class Named(Protocol):
    """A member of one of TensorRT's enumerations."""

    @property
    def name(self) -> str: ...


class HostMemory(Protocol):
    """A buffer: memoryview() reads it."""

    @property
    def nbytes(self) -> int: ...


class NetworkTensor(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> Named: ...
    @property
    def shape(self) -> Sequence[int]: ...
    @property
    def is_shape_tensor(self) -> bool: ...


class NetworkLayer(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def type(self) -> Named: ...
    @property
    def num_outputs(self) -> int: ...
    def get_output_type(self, index: int) -> Named: ...


class NetworkDefinition(Protocol):
    @property
    def num_inputs(self) -> int: ...
    @property
    def num_outputs(self) -> int: ...
    @property
    def num_layers(self) -> int: ...
    def get_input(self, index: int) -> NetworkTensor: ...
    def get_output(self, index: int) -> NetworkTensor: ...
    def get_layer(self, index: int) -> NetworkLayer: ...


class ParserError(Protocol):
    def code(self) -> Named: ...
    def desc(self) -> str: ...
    def node(self) -> int: ...
    def node_name(self) -> str: ...
    def node_operator(self) -> str: ...


class OnnxParser(Protocol):
    @property
    def num_errors(self) -> int: ...
    def parse(self, model: bytes) -> bool: ...
    def get_error(self, index: int) -> ParserError: ...


class OptimizationProfile(Protocol):
    # The names of the parameters are TensorRT's.
    def set_shape(self, input: str, min: Shape, opt: Shape, max: Shape) -> None: ...
    def set_shape_input(self, input: str, min: Shape, opt: Shape, max: Shape) -> None: ...


class TimingCache(Protocol):
    def serialize(self) -> HostMemory | None: ...


class BuilderConfig(Protocol):
    progress_monitor: Any
    profiling_verbosity: Any

    def set_memory_pool_limit(self, pool: Any, pool_size: int) -> None: ...
    def add_optimization_profile(self, profile: OptimizationProfile) -> int: ...
    def create_timing_cache(self, serialized_timing_cache: bytes) -> TimingCache | None: ...
    def set_timing_cache(self, cache: TimingCache, ignore_mismatch: bool) -> bool: ...


class RtxBuilderConfig(BuilderConfig, Protocol):
    """What only TensorRT-RTX has: it compiles for GPUs that are not there."""

    num_compute_capabilities: int

    def set_compute_capability(self, compute_capability: Any, index: int) -> bool: ...


class Builder(Protocol):
    def create_network(self, flags: int) -> NetworkDefinition | None: ...
    def create_builder_config(self) -> RtxBuilderConfig | None: ...
    def create_optimization_profile(self) -> OptimizationProfile | None: ...
    def build_serialized_network(
        self, network: NetworkDefinition, config: BuilderConfig
    ) -> HostMemory | None: ...


class EngineInspector(Protocol):
    def get_engine_information(self, format: Any) -> str: ...


class InspectedEngine(Protocol):
    @property
    def num_layers(self) -> int: ...
    @property
    def device_memory_size_v2(self) -> int: ...
    def create_engine_inspector(self) -> EngineInspector | None: ...


class Runtime(Protocol):
    def deserialize_cuda_engine(self, serialized_engine: bytes) -> InspectedEngine | None: ...


PROTOCOLS: dict[type, str] = {
    HostMemory: "IHostMemory",
    NetworkTensor: "ITensor",
    NetworkLayer: "ILayer",
    NetworkDefinition: "INetworkDefinition",
    ParserError: "ParserError",
    OnnxParser: "OnnxParser",
    OptimizationProfile: "IOptimizationProfile",
    TimingCache: "ITimingCache",
    BuilderConfig: "IBuilderConfig",
    RtxBuilderConfig: "IBuilderConfig",
    Builder: "Builder",
    EngineInspector: "EngineInspector",
    InspectedEngine: "ICudaEngine",
    Runtime: "Runtime",
}
"""Each with the class of TensorRT that it describes."""

RTX_ONLY = (RtxBuilderConfig,)
