"""One execution context with its profile, told only what it does not know yet.

Every profile has a context of its own, for switching one between profiles would forget
shapes and addresses; and so has every CUDA graph, see `graphs.py`. They work one after
the other on one stream, and so they share one block of scratch memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from visavis.engine.tensorrt.bindings.messages import Messages
from visavis.engine.tensorrt.buffers import TensorBuffer, bytes_of, output_allocator
from visavis.engine.tensorrt.plan import Plan, Shape, Shapes, why
from visavis.serving.errors import EngineError

Buffers = Mapping[str, TensorBuffer]


class ProfileContext:
    """Binds buffers to a context and enqueues its work. Raises EngineError with TensorRT's words.

    `said` is what TensorRT says during the call: its methods only return False.
    """

    def __init__(
        self, plan: Plan, profile: int, stream: int, scratch: TensorBuffer, said: Messages
    ) -> None:
        """The stream must be waited for before the first `bind`; `scratch` stays as it is."""
        self._plan = plan
        self._stream = stream
        self._context = plan.create_context()
        self._shapes: dict[str, Shape] = {}
        self._addresses: dict[str, int] = {}
        self._allocators: dict[str, Any] = {}
        self._output_shapes: dict[str, Shape | None] = {}
        done = self._context.set_optimization_profile_async(profile, stream)
        self._require(done, f"profile {profile} cannot be set", said)
        self._context.set_device_memory(scratch.address, scratch.device_bytes)

    @property
    def late_outputs(self) -> bool:
        """Does some output have a shape that only the run itself tells?"""
        return None in self._output_shapes.values()

    def capturable(self) -> bool:
        """May the work be captured now? tensorrt_rtx compiles kernels while it runs."""
        ask = getattr(self._context, "is_stream_capturable", None)
        return ask is None or bool(ask(self._stream))

    def bind(self, shapes: Shapes, inputs: Buffers, outputs: Buffers, said: Messages) -> bool:
        """Shapes and addresses of the next run; True if an output's buffer had to move."""
        changed = {name: s for name, s in shapes.items() if self._shapes.get(name) != s}
        for name, shape in changed.items():
            done = self._context.set_input_shape(name, shape)
            self._require(done, f"{name} does not take the shape {list(shape)}", said)
            self._shapes[name] = shape
        for name, buffer in inputs.items():
            self._set_address(name, buffer.address, said)
        # Values in host memory shape the outputs too, and they change without our noticing.
        if changed or self._plan.host_inputs:
            self._infer_shapes(said)
        moved = False
        for name, known in self._output_shapes.items():
            if known is None:
                self._set_allocator(name, outputs[name], said)
            else:
                moved |= outputs[name].grow(bytes_of(known, self._plan.outputs[name].dtype))
                self._set_address(name, outputs[name].address, said)
        return moved

    def enqueue(self, said: Messages) -> None:
        """Run what is bound. Raises EngineError with what TensorRT says."""
        done = self._context.execute_async_v3(self._stream)
        self._require_memory()
        self._require(done, "the run was not enqueued", said)

    def output_shapes(self) -> dict[str, Shape]:
        """Of the last run; where there are late outputs, once it was waited for.

        Raises EngineError where TensorRT tells none.
        """
        self._require_memory()
        shapes: dict[str, Shape] = {}
        for name, known in self._output_shapes.items():
            shape = self._allocators[name].shape if known is None else known
            if shape is None:
                raise EngineError(f"{self._plan.name}: {name} was not made: TensorRT told no shape")
            shapes[name] = shape
        return shapes

    def _infer_shapes(self, said: Messages) -> None:
        try:
            missing = self._context.infer_shapes()
        except RuntimeError as error:
            raise EngineError(f"{self._plan.name}: no output shapes: {error}") from error
        self._require(not missing, f"unknown is the shape of {', '.join(missing)}", said)
        for name in self._plan.outputs:
            shape = tuple(self._context.get_tensor_shape(name))
            self._output_shapes[name] = None if min(shape, default=0) < 0 else shape

    def _set_address(self, name: str, address: int, said: Messages) -> None:
        if self._addresses.get(name) != address:
            done = self._context.set_tensor_address(name, address)
            self._require(done, f"{name} does not take its address", said)
            self._addresses[name] = address

    def _set_allocator(self, name: str, buffer: TensorBuffer, said: Messages) -> None:
        if name not in self._allocators:
            allocator = output_allocator(self._plan.trt, buffer)
            done = self._context.set_output_allocator(name, allocator)
            self._require(done, f"{name} does not take an allocator", said)
            self._allocators[name] = allocator
        self._allocators[name].shape = None
        self._allocators[name].error = None

    def _require_memory(self) -> None:
        """Raise what an allocator could not: it is called by TensorRT."""
        for name, allocator in self._allocators.items():
            if allocator.error is not None:
                raise EngineError(f"{self._plan.name}: {name}: {allocator.error}")

    def _require(self, done: bool, failure: str, said: Messages) -> None:
        if not done:
            raise EngineError(f"{self._plan.name}: {failure}: {why(said)}")
