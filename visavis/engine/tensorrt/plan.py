"""A plan as TensorRT describes it once it is deserialised: tensors, profiles, memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from visavis.engine.base import TensorSpec
from visavis.engine.tensorrt.bindings.messages import Messages, collecting, shared_logger
from visavis.engine.tensorrt.bindings.trt_api import CudaEngine, ExecutionContext, Runtime
from visavis.serving.errors import EngineError, EngineLoadError, UnfitShapeError

Shape = tuple[int, ...]
Shapes = Mapping[str, Shape]
Range = tuple[Shape, Shape, Shape]
"""Smallest, best and largest shape."""


class Plan:
    """One deserialised plan. Create it with its device current; drop it likewise."""

    def __init__(self, trt: Any, serialized: bytes, name: str) -> None:
        """Raises EngineLoadError with TensorRT's own words if it will not have the plan."""
        self.trt = trt
        self.name = name
        with collecting(trt) as said:
            # The runtime outlives the engine, and the engine its contexts.
            self._runtime: Runtime | None = trt.Runtime(shared_logger(trt))
            self._engine: CudaEngine | None = None
            if self._runtime is not None:
                self._engine = self._runtime.deserialize_cuda_engine(serialized)
        if self._engine is None:
            release = f"{trt.__name__} {trt.__version__}"
            raise EngineLoadError(f"{name}: {release} cannot load this plan: {why(said)}")
        self.inputs, self.outputs, self.host_inputs = self._tensors(self._engine)
        self.profiles = tuple(
            {name: self._range(name, index) for name in self.inputs}
            for index in range(max(1, self._engine.num_optimization_profiles))
        )

    def choose(self, shapes: Shapes) -> int:
        """Index of the first profile that takes `shapes`.

        Raises UnfitShapeError that names tensor, shape and the allowed ranges.
        """
        for index, ranges in enumerate(self.profiles):
            if all(_covers(ranges[name], shape) for name, shape in shapes.items()):
                return index
        # Complain about what the most profiles refuse: that is what no profile will take.
        refused = {
            name: sum(not _covers(ranges[name], shape) for ranges in self.profiles)
            for name, shape in shapes.items()
        }
        name = max(refused, key=lambda tensor: refused[tensor])
        spans = dict.fromkeys(
            f"{list(ranges[name][0])} to {list(ranges[name][2])}" for ranges in self.profiles
        )
        together = "" if refused[name] == len(self.profiles) else " (with the other inputs' shapes)"
        raise UnfitShapeError(
            f"{name}: shape {list(shapes[name])} is outside of the plan's profiles, which take "
            f"{' or '.join(spans)}{together}"
        )

    def create_context(self) -> ExecutionContext:
        """A context that still needs its scratch memory. Raises EngineError."""
        strategy = self.trt.ExecutionContextAllocationStrategy.USER_MANAGED
        with collecting(self.trt) as said:
            context = self._loaded().create_execution_context(strategy)
        if context is None:
            raise EngineError(f"{self.name}: no execution context: {why(said)}")
        return context

    def weights_bytes(self) -> int:
        """What its weights take on the device."""
        return max(0, self._loaded().get_engine_stat(self.trt.EngineStat.TOTAL_WEIGHTS_SIZE))

    def scratch_bytes(self) -> int:
        """What a run needs beside inputs and outputs, in the hungriest profile."""
        needed = self._loaded().get_device_memory_size_for_profile_v2
        return max(needed(index) for index in range(len(self.profiles)))

    def drop(self) -> None:
        """Free the plan; its contexts must be gone."""
        self._engine = None
        self._runtime = None

    def _loaded(self) -> CudaEngine:
        if self._engine is None:
            raise EngineError(f"{self.name}: the plan was dropped")
        return self._engine

    def _tensors(
        self, engine: CudaEngine
    ) -> tuple[dict[str, TensorSpec], dict[str, TensorSpec], frozenset[str]]:
        dtypes = _dtypes(self.trt)
        inputs: dict[str, TensorSpec] = {}
        outputs: dict[str, TensorSpec] = {}
        host = set()
        for index in range(engine.num_io_tensors):
            name = engine.get_tensor_name(index)
            kind = engine.get_tensor_dtype(name)
            if kind not in dtypes:
                raise EngineLoadError(f"{self.name}: {name} has the type {kind}, unknown to numpy")
            shape = tuple(None if size < 0 else int(size) for size in engine.get_tensor_shape(name))
            spec = TensorSpec(name, np.dtype(dtypes[kind]), shape)
            is_input = engine.get_tensor_mode(name) == self.trt.TensorIOMode.INPUT
            (inputs if is_input else outputs)[name] = spec
            if is_input and engine.get_tensor_location(name) == self.trt.TensorLocation.HOST:
                host.add(name)
        return inputs, outputs, frozenset(host)

    def _range(self, name: str, profile: int) -> Range:
        shape = self.inputs[name].shape
        if None not in shape:
            fixed = tuple(size or 0 for size in shape)
            return fixed, fixed, fixed
        low, usual, high = self._loaded().get_tensor_profile_shape(name, profile)
        return tuple(low), tuple(usual), tuple(high)


def why(said: Messages) -> str:
    """TensorRT's own reasons, in one line."""
    return "; ".join(said.errors) or "TensorRT does not say why"


def _covers(allowed: Range, shape: Shape) -> bool:
    low, _, high = allowed
    return len(shape) == len(low) and all(
        smallest <= size <= largest
        for smallest, size, largest in zip(low, shape, high, strict=True)
    )


def _dtypes(trt: Any) -> dict[Any, type[np.generic]]:
    kind = trt.DataType
    return {
        kind.FLOAT: np.float32,
        kind.HALF: np.float16,
        kind.INT8: np.int8,
        kind.UINT8: np.uint8,
        kind.INT32: np.int32,
        kind.INT64: np.int64,
        kind.BOOL: np.bool_,
    }
