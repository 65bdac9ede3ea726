"""A double of the TensorRT module that runs a Python function instead of a plan.

Its contexts keep TensorRT's rules: shapes within the profile, every address and the scratch
memory set, inputs that hold just what their shape takes, no run of a shape that was not
inferred, no graph whose context was changed since. What TensorRT refuses it refuses likewise,
with False and a line in the log; what TensorRT would compute nonsense of is an assertion.
It proves how we call TensorRT, never what TensorRT does.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.engine.tensorrt.recorded_device import Piece, RecordedDevice

Compute = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]
Shape = tuple[int, ...]


class DataType(enum.Enum):
    FLOAT, HALF, INT8, INT32, INT64, BOOL, UINT8, BF16 = range(8)


class TensorIOMode(enum.Enum):
    NONE, INPUT, OUTPUT = range(3)


class TensorLocation(enum.Enum):
    DEVICE, HOST = range(2)


class ExecutionContextAllocationStrategy(enum.Enum):
    STATIC, ON_PROFILE_CHANGE, USER_MANAGED = range(3)


class EngineStat(enum.Enum):
    TOTAL_WEIGHTS_SIZE, STRIPPED_WEIGHTS_SIZE = range(2)


class Severity(enum.Enum):
    INTERNAL_ERROR, ERROR, WARNING, INFO, VERBOSE = range(5)


class ILogger:
    INTERNAL_ERROR, ERROR, WARNING = Severity.INTERNAL_ERROR, Severity.ERROR, Severity.WARNING
    INFO, VERBOSE = Severity.INFO, Severity.VERBOSE


class IOutputAllocator:
    def __init__(self) -> None:
        self.base_initialised = True


_DTYPES = {
    DataType.FLOAT: np.dtype(np.float32),
    DataType.HALF: np.dtype(np.float16),
    DataType.INT32: np.dtype(np.int32),
    DataType.INT64: np.dtype(np.int64),
    DataType.BOOL: np.dtype(np.bool_),
}
DATA_TYPES = {dtype: kind for kind, dtype in _DTYPES.items()}


@dataclass
class Network:
    """What a plan of the double computes, and how it describes itself."""

    compute: Compute
    inputs: dict[str, tuple[DataType, Shape]]
    outputs: dict[str, tuple[DataType, Shape]]
    profiles: list[dict[str, tuple[Shape, Shape, Shape]]]
    shape_of: Callable[[dict[str, Shape]], dict[str, Shape]]
    """Shapes of the outputs; -1 where only the run tells."""
    optional: bool = False
    """A run whose outputs nobody reads need not be computed."""


@dataclass
class RecordedTrt:
    """The module. `plans`: serialised plan -> network; `fail[call]`: the next such call fails."""

    device: RecordedDevice
    plans: dict[bytes, Network]
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    fail: dict[str, str] = field(default_factory=dict)
    __version__: str = "0"

    DataType = DataType
    TensorIOMode = TensorIOMode
    TensorLocation = TensorLocation
    ExecutionContextAllocationStrategy = ExecutionContextAllocationStrategy
    EngineStat = EngineStat
    ILogger = ILogger
    IOutputAllocator = IOutputAllocator

    def __post_init__(self) -> None:
        self.__name__ = "recorded_trt"

    def Runtime(self, logger: Any) -> Runtime:
        assert self.device.depth > 0, "Runtime while the device is not current"
        return Runtime(self, logger)

    def named(self, call: str) -> list[tuple[Any, ...]]:
        return [record[1:] for record in self.calls if record[0] == call]


class Runtime:
    def __init__(self, trt: RecordedTrt, logger: Any) -> None:
        self.trt, self.logger = trt, logger

    def deserialize_cuda_engine(self, serialized_engine: bytes) -> CudaEngine | None:
        self.trt.calls.append(("deserialize_cuda_engine",))
        network = self.trt.plans.get(serialized_engine)
        if network is None:
            self.logger.log(Severity.ERROR, "magic tag does not match")
            return None
        return CudaEngine(self, network)


class CudaEngine:
    def __init__(self, runtime: Runtime, network: Network) -> None:
        self.runtime, self.network = runtime, network
        self.names = [*network.inputs, *network.outputs]
        self.num_io_tensors = len(self.names)
        self.num_optimization_profiles = len(network.profiles)

    def get_tensor_name(self, index: int) -> str:
        return self.names[index]

    def get_tensor_mode(self, name: str) -> TensorIOMode:
        return TensorIOMode.INPUT if name in self.network.inputs else TensorIOMode.OUTPUT

    def get_tensor_dtype(self, name: str) -> DataType:
        return {**self.network.inputs, **self.network.outputs}[name][0]

    def get_tensor_shape(self, name: str) -> Shape:
        return {**self.network.inputs, **self.network.outputs}[name][1]

    def get_tensor_location(self, name: str) -> TensorLocation:
        return TensorLocation.DEVICE

    def get_tensor_profile_shape(self, name: str, profile_index: int) -> tuple[Shape, ...]:
        return self.network.profiles[profile_index][name]

    def get_engine_stat(self, stat: EngineStat) -> int:
        return 1000

    def get_device_memory_size_for_profile_v2(self, profile_index: int) -> int:
        return 1000 * (profile_index + 1)

    def create_execution_context(self, strategy: Any) -> ExecutionContext | None:
        trt = self.runtime.trt
        trt.calls.append(("create_execution_context", strategy))
        if (message := trt.fail.pop("create_execution_context", None)) is not None:
            self.runtime.logger.log(Severity.ERROR, message)
            return None
        assert strategy is ExecutionContextAllocationStrategy.USER_MANAGED
        return ExecutionContext(self)


class ExecutionContext:
    def __init__(self, engine: CudaEngine) -> None:
        self.engine, self.trt = engine, engine.runtime.trt
        self.profile = -1
        self.shapes: dict[str, Shape] = {}
        self.addresses: dict[str, int] = {}
        self.allocators: dict[str, Any] = {}
        self.made: dict[str, Shape] = {}
        self.scratch = (0, 0)
        self.changes = 0

    def set_device_memory(self, memory: int, size: int) -> None:
        needed = self.engine.get_device_memory_size_for_profile_v2(self.profile)
        assert size >= needed and memory % 256 == 0, "scratch memory that does not do"
        self.scratch = (memory, size)
        self._called("set_device_memory", size)

    def set_optimization_profile_async(self, profile_index: int, stream_handle: int) -> bool:
        self.profile = profile_index
        return self._called("set_optimization_profile_async", profile_index)

    def set_input_shape(self, name: str, shape: Shape) -> bool:
        fixed = self.engine.get_tensor_shape(name)
        low, _, high = self.engine.network.profiles[self.profile].get(name, (fixed,) * 3)
        inside = len(low) == len(shape) and all(
            a <= b <= c for a, b, c in zip(low, shape, high, strict=True)
        )
        if not inside:
            return self._refuse(
                f"IExecutionContext::setInputShape: Error Code 3: API Usage Error (condition: "
                f"satisfyProfile. Set dimension {list(shape)} for tensor {name} does not satisfy "
                f"any optimization profiles. Valid range for profile {self.profile}: "
                f"{list(low)}..{list(high)}.)"
            )
        self.shapes[name] = shape
        self.made = {}
        return self._called("set_input_shape", name, shape)

    def set_tensor_address(self, name: str, memory: int) -> bool:
        if name not in self.engine.names:
            return self._refuse(f"setTensorAddress: {name} is no tensor of the network")
        self.addresses[name] = memory
        return self._called("set_tensor_address", name)

    def set_output_allocator(self, name: str, output_allocator: Any) -> bool:
        assert output_allocator.base_initialised, "the base class was not initialised"
        self.allocators[name] = output_allocator
        return self._called("set_output_allocator", name)

    def infer_shapes(self) -> list[str]:
        self._called("infer_shapes")
        missing = [name for name in self.engine.network.inputs if name not in self.shapes]
        if not missing:
            self.made = self.engine.network.shape_of(self.shapes)
        return missing

    def get_tensor_shape(self, name: str) -> Shape:
        return self.made[name]

    def execute_async_v3(self, stream_handle: int) -> bool:
        assert stream_handle in self.trt.device.queued, "no such stream, or the default one"
        changes = self.changes
        if not self._called("execute_async_v3"):
            return False
        self.changes = changes
        assert self.made, "shapes were changed and not inferred"
        network, device = self.engine.network, self.trt.device
        shapes, addresses, made = dict(self.shapes), dict(self.addresses), dict(self.made)
        for name in self.engine.names:
            if not (addresses.get(name) or name in self.allocators):
                return self._refuse(f"enqueueV3: the address of {name} is not set")
        if not self.scratch[0]:
            return self._refuse("enqueueV3: the context has no device memory")
        captured, scratch = device.in_capture(stream_handle), self.scratch

        def given(name: str, kind: DataType) -> np.ndarray:
            array = device.device_array(addresses[name], shapes[name], _DTYPES[kind])
            held = device.written.get(addresses[name])
            assert held == array.nbytes, f"{name} {shapes[name]} takes {array.nbytes}, not {held}"
            return array.copy()

        def work() -> None:
            assert not captured or self.changes == changes, "its context was changed since"
            device.device_array(*scratch[:1], scratch[1:], np.dtype(np.uint8))
            inputs = {name: given(name, kind) for name, (kind, _) in network.inputs.items()}
            for name, value in network.compute(inputs).items():
                value = np.ascontiguousarray(value)
                if -1 in made[name]:
                    allocator = self.allocators[name]
                    address = allocator.reallocate_output_async(
                        name, 0, value.nbytes, 256, stream_handle
                    )
                    allocator.notify_shape(name, value.shape)
                else:
                    address = addresses[name]
                    assert value.shape == made[name], f"{name} is {value.shape}, not {made[name]}"
                assert value.dtype == _DTYPES[network.outputs[name][0]], name
                if address:
                    device.device_array(address, value.shape, value.dtype)[...] = value

        writes = frozenset(addresses[name] for name in network.outputs if name in addresses)
        device.run_on(stream_handle, Piece(work, 0, writes, network.optional))
        return True

    def _called(self, call: str, *args: Any) -> bool:
        self.trt.calls.append((call, *args))
        self.changes += 1
        message = self.trt.fail.pop(call, None)
        return message is None or self._refuse(message)

    def _refuse(self, message: str) -> bool:
        self.engine.runtime.logger.log(Severity.ERROR, message)
        return False
