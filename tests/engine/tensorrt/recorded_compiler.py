"""A double of TensorRT's compiler: its plan is the ONNX graph with the profiles it was given.

What such a plan takes is therefore what our recipes and our compiler calls have told, and
the double of the runtime refuses all else. Whether NVIDIA's own compiler takes the graphs is
for `tests/bundles/compile/test_every_plan.py`.
"""

from __future__ import annotations

import enum
import pickle
from dataclasses import dataclass, field
from typing import Any

import onnx

from tests.engine.tensorrt.onnx_network import Ranges, described, network_of
from tests.engine.tensorrt.recorded_trt import DataType, Network, Severity, Shape

# A sample of what TensorRT's parser does not take.
_UNKNOWN = frozenset(
    {"If", "Loop", "NonZero", "DynamicQuantizeLinear", "MatMulInteger", "ConvInteger"}
)


class MemoryPoolType(enum.Enum):
    WORKSPACE = 0


class ProfilingVerbosity(enum.Enum):
    LAYER_NAMES_ONLY, NONE, DETAILED = range(3)


class LayerType(enum.Enum):
    NODE = 0


class ErrorCode(enum.Enum):
    UNSUPPORTED_NODE = 8


class IProgressMonitor:
    def __init__(self) -> None:
        self.base_initialised = True


@dataclass
class ITensor:
    name: str
    dtype: DataType
    shape: Shape
    is_shape_tensor: bool = False


@dataclass
class ILayer:
    name: str
    type: LayerType = LayerType.NODE
    num_outputs: int = 0

    def get_output_type(self, index: int) -> DataType:
        raise IndexError(index)


@dataclass
class INetworkDefinition:
    onnx_bytes: bytes = b""
    num_inputs: int = 0
    num_outputs: int = 0
    num_layers: int = 0

    def _read(self, model: onnx.ModelProto, onnx_bytes: bytes) -> None:
        self.onnx_bytes = onnx_bytes
        weights = {tensor.name for tensor in model.graph.initializer}
        given = [tensor for tensor in model.graph.input if tensor.name not in weights]
        self.inputs = [ITensor(name, *told) for name, told in described(given).items()]
        self.outputs = [
            ITensor(name, *told) for name, told in described(model.graph.output).items()
        ]
        self.num_inputs, self.num_outputs = len(self.inputs), len(self.outputs)
        self.names = [node.name for node in model.graph.node]
        self.num_layers = len(self.names)

    def get_input(self, index: int) -> ITensor:
        return self.inputs[index]

    def get_output(self, index: int) -> ITensor:
        return self.outputs[index]

    def get_layer(self, index: int) -> ILayer:
        return ILayer(self.names[index])


@dataclass
class ParserError:
    at: int
    operator: str

    def code(self) -> ErrorCode:
        return ErrorCode.UNSUPPORTED_NODE

    def desc(self) -> str:
        return "no importer registered for this operator"

    def node(self) -> int:
        return self.at

    def node_name(self) -> str:
        return ""

    def node_operator(self) -> str:
        return self.operator


class OnnxParser:
    def __init__(self, network: INetworkDefinition, logger: Any) -> None:
        self.network = network
        self.errors: list[ParserError] = []

    @property
    def num_errors(self) -> int:
        return len(self.errors)

    def parse(self, model: bytes) -> bool:
        parsed = onnx.load_from_string(model)
        self.errors = [
            ParserError(at, node.op_type)
            for at, node in enumerate(parsed.graph.node)
            if node.op_type in _UNKNOWN
        ]
        if not self.errors:
            self.network._read(parsed, model)
        return not self.errors

    def get_error(self, index: int) -> ParserError:
        return self.errors[index]


@dataclass
class IOptimizationProfile:
    ranges: Ranges = field(default_factory=dict)

    def set_shape(self, input: str, min: Shape, opt: Shape, max: Shape) -> None:
        self.ranges[input] = (tuple(min), tuple(opt), tuple(max))


class ITimingCache:
    def serialize(self) -> memoryview:
        return memoryview(b"times")


@dataclass
class IBuilderConfig:
    progress_monitor: Any = None
    profiling_verbosity: Any = None
    profiles: list[Ranges] = field(default_factory=list)

    def set_memory_pool_limit(self, pool: MemoryPoolType, pool_size: int) -> None:
        assert pool_size > 0

    def add_optimization_profile(self, profile: IOptimizationProfile) -> int:
        for low, usual, high in profile.ranges.values():
            if not all(a <= b <= c for a, b, c in zip(low, usual, high, strict=True)):
                return -1
        self.profiles.append(profile.ranges)
        return len(self.profiles) - 1

    def create_timing_cache(self, serialized_timing_cache: bytes) -> ITimingCache:
        return ITimingCache()

    def set_timing_cache(self, cache: ITimingCache, ignore_mismatch: bool) -> bool:
        return True


class Builder:
    def __init__(self, logger: Any) -> None:
        self.logger = logger

    def create_network(self, flags: int) -> INetworkDefinition:
        return INetworkDefinition()

    def create_builder_config(self) -> IBuilderConfig:
        return IBuilderConfig()

    def create_optimization_profile(self) -> IOptimizationProfile:
        return IOptimizationProfile()

    def build_serialized_network(
        self, network: INetworkDefinition, config: IBuilderConfig
    ) -> memoryview | None:
        for tensor in network.inputs:
            if -1 in tensor.shape and not all(tensor.name in p for p in config.profiles):
                said = f"{tensor.name}: dynamic, and in no profile"
                self.logger.log(Severity.ERROR, said)
                return None
        return memoryview(pickle.dumps((network.onnx_bytes, config.profiles)))


class Plans(dict[bytes, Network]):
    """Plans of the double's compiler, by what they were serialised to."""

    def get(self, serialized: bytes, default: Any = None) -> Any:
        try:
            graph, profiles = pickle.loads(serialized)
        except (pickle.UnpicklingError, EOFError):
            return default
        return network_of(graph, profiles)
