"""The double of TensorRT, under the name that the product imports."""

from __future__ import annotations

from tests.engine.tensorrt.machine.gpu import DEVICE
from tests.engine.tensorrt.recorded_compiler import (
    Builder,
    IProgressMonitor,
    MemoryPoolType,
    OnnxParser,
    Plans,
    ProfilingVerbosity,
)
from tests.engine.tensorrt.recorded_trt import (
    DataType,
    EngineStat,
    ExecutionContextAllocationStrategy,
    ILogger,
    IOutputAllocator,
    RecordedTrt,
    TensorIOMode,
    TensorLocation,
)

__version__ = "11.4.0"
__all__ = [
    "Builder",
    "DataType",
    "EngineStat",
    "ExecutionContextAllocationStrategy",
    "ILogger",
    "IOutputAllocator",
    "IProgressMonitor",
    "MemoryPoolType",
    "OnnxParser",
    "ProfilingVerbosity",
    "Runtime",
    "TensorIOMode",
    "TensorLocation",
]
Runtime = RecordedTrt(DEVICE, Plans()).Runtime
