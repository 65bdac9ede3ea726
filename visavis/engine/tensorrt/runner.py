"""A plan at work: contexts, buffers and graphs on one stream of its own.

One run: inputs to page-locked memory, copies in, inference, copies out, all enqueued
on the stream; then one wait; then the outputs are the caller's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from visavis.engine.base import Resident, Tensors
from visavis.engine.tensorrt import profiling
from visavis.engine.tensorrt.bindings.device import CudaDevice, CudaError
from visavis.engine.tensorrt.bindings.messages import Messages, collecting
from visavis.engine.tensorrt.buffers import CudaTensor, ResidentPool, TensorBuffer, bytes_of
from visavis.engine.tensorrt.context import ProfileContext
from visavis.engine.tensorrt.graphs import RUNS_BEFORE_CAPTURE, GraphCache, GraphKey
from visavis.engine.tensorrt.plan import Plan, Shape, Shapes
from visavis.engine.tensorrt.profiling import RunTimer, RunTimes
from visavis.serving.errors import EngineError

log = logging.getLogger(__name__)

_LARGEST, _USUAL = 2, 1
# A graph runs the very kernels of the plain run: more than rounding apart is a fault.
_GRAPH_TOLERANCE = 1e-2


@dataclass(frozen=True, slots=True)
class PlanMemory:
    """Device memory of one loaded plan, and the page-locked host memory beside it."""

    weights_bytes: int
    scratch_bytes: int
    """Shared by every context, those of the graphs too."""
    buffer_bytes: int
    """Inputs, outputs and what was handed out as DeviceTensors."""
    pinned_bytes: int

    @property
    def device_bytes(self) -> int:
        """All that it takes on the device."""
        return self.weights_bytes + self.scratch_bytes + self.buffer_bytes


class PlanRunner:
    """Runs one plan. Not safe for concurrent use. Its device must be current in every call."""

    def __init__(self, plan: Plan, device: CudaDevice, *, graphs: bool) -> None:
        self._plan = plan
        self._device = device
        self._stream = device.create_stream()
        self._timer = RunTimer(device, self._stream)
        # Values in host memory are read when work is enqueued, so a graph would freeze them.
        self._graphs = GraphCache(device, enabled=graphs and not plan.host_inputs)
        self._pool = ResidentPool(device)
        self._contexts: dict[int, ProfileContext] = {}
        self._scratch = TensorBuffer(device)
        self._inputs = {
            name: TensorBuffer(device, on_host=name in plan.host_inputs) for name in plan.inputs
        }
        self._outputs = {name: TensorBuffer(device) for name in plan.outputs}
        self.times = RunTimes(0.0, 0.0, 0.0)
        """Of the last run."""

    @property
    def graphs(self) -> int:
        """CUDA graphs that exist."""
        return len(self._graphs)

    def run(self, inputs: Tensors, resident: Collection[str] = ()) -> dict[str, Resident]:
        """Outputs of one run, those in `resident` as CudaTensors.

        Raises UnfitShapeError for shapes outside of every profile, before anything
        reaches the device; EngineError for whatever fails after that.
        """
        shapes = {name: tuple(inputs[name].shape) for name in self._plan.inputs}
        index = self._plan.choose(shapes)
        key: GraphKey = (index, tuple(shapes.values()))
        with collecting(self._plan.trt) as said:
            context = self._context(index, said)
            self._copy_in(inputs)
            captured = self._graphs.get(key)
            if captured is not None:
                with profiling.span(f"{self._plan.name}: infer (graph)"):
                    self._device.launch_graph(captured.graph, self._stream)
                    self._timer.mark()
                return self._copy_out(captured.output_shapes, resident)
            made = self._infer(context, shapes, said)
            outputs = self._copy_out(made, resident)
            if not context.late_outputs and self._graphs.deserves_capture(key):
                self._capture(key, context, outputs, said)
        return outputs

    def warm_up(self) -> None:
        """Run zeros through every profile.

        The largest shapes of all first, which make the buffers on the device, so that
        their addresses stay; then the usual ones, until they have their graph.
        """
        for index in range(len(self._plan.profiles)):
            self._run_largest(index)
        for ranges in self._plan.profiles:
            usual = {
                name: np.zeros(ranges[name][_USUAL], spec.dtype)
                for name, spec in self._plan.inputs.items()
            }
            for _ in range(RUNS_BEFORE_CAPTURE):
                self.run(usual)

    def _run_largest(self, index: int) -> None:
        """One run with zeros that never were on the host: page-locked memory is precious."""
        shapes = {name: sizes[_LARGEST] for name, sizes in self._plan.profiles[index].items()}
        with collecting(self._plan.trt) as said:
            context = self._context(index, said)
            for name, buffer in self._inputs.items():
                size_bytes = bytes_of(shapes[name], self._plan.inputs[name].dtype)
                buffer.grow(size_bytes)
                buffer.clear(size_bytes, self._stream)
            context.bind(shapes, self._inputs, self._outputs, said)
            context.enqueue(said)
            self._device.synchronize(self._stream)

    def memory(self) -> PlanMemory:
        """What the plan takes now."""
        buffers = [*self._inputs.values(), *self._outputs.values()]
        return PlanMemory(
            self._plan.weights_bytes(),
            self._scratch.device_bytes,
            sum(buffer.device_bytes for buffer in buffers) + self._pool.held_bytes,
            sum(buffer.pinned_bytes for buffer in buffers),
        )

    def close(self) -> None:
        """Free everything. What a lost device will not free is logged, not raised."""
        # A run that failed may have left work that still reads and writes our memory.
        self._try(lambda: self._device.synchronize(self._stream))
        for release in (self._graphs.clear, self._timer.destroy_events, self._pool.close):
            self._try(release)
        self._contexts.clear()
        for buffer in (*self._inputs.values(), *self._outputs.values(), self._scratch):
            buffer.free()
        self._plan.drop()
        self._try(lambda: self._device.destroy_stream(self._stream))

    def _try(self, release: Callable[[], None]) -> None:
        try:
            release()
        except CudaError as error:
            log.warning("%s: not freed: %s", self._plan.name, error)

    def _context(self, index: int, said: Messages) -> ProfileContext:
        """The context of a profile, made when it is first used."""
        if index not in self._contexts:
            self._contexts[index] = self._new_context(index, said)
        return self._contexts[index]

    def _new_context(self, index: int, said: Messages) -> ProfileContext:
        self._scratch.grow(self._plan.scratch_bytes())
        context = ProfileContext(self._plan, index, self._stream, self._scratch, said)
        self._device.synchronize(self._stream)
        return context

    def _copy_in(self, inputs: Tensors) -> None:
        with profiling.span(f"{self._plan.name}: copy in"):
            sizes = {name: bytes_of(inputs[name].shape, inputs[name].dtype) for name in inputs}
            if any([buffer.grow(sizes[name]) for name, buffer in self._inputs.items()]):
                self._graphs.clear()
            self._timer.begin_run()
            for name, buffer in self._inputs.items():
                array = inputs[name]
                if isinstance(array, CudaTensor) and self._takes(name, array):
                    # Into our own buffer: its address is aligned, and stays what graphs know.
                    buffer.copy_from(array.address, array.nbytes, self._stream)
                else:
                    held = array if isinstance(array, np.ndarray) else array.to_host()
                    buffer.write(held, self._stream)
            self._timer.mark()

    def _takes(self, name: str, tensor: CudaTensor) -> bool:
        same_device = tensor.device.info.index == self._device.info.index
        return same_device and name not in self._plan.host_inputs

    def _infer(self, context: ProfileContext, shapes: Shapes, said: Messages) -> dict[str, Shape]:
        with profiling.span(f"{self._plan.name}: infer"):
            if context.bind(shapes, self._inputs, self._outputs, said):
                self._graphs.clear()
            context.enqueue(said)
            self._timer.mark()
            if context.late_outputs:
                self._device.synchronize(self._stream)
        return context.output_shapes()

    def _copy_out(self, made: dict[str, Shape], resident: Collection[str]) -> dict[str, Resident]:
        outputs: dict[str, Resident] = {}
        with profiling.span(f"{self._plan.name}: copy out"):
            for name, shape in made.items():
                dtype = self._plan.outputs[name].dtype
                if name in resident:
                    tensor = self._pool.take(shape, dtype)
                    source = self._outputs[name].address
                    self._device.copy_on_device(tensor.address, source, tensor.nbytes, self._stream)
                    outputs[name] = tensor
                else:
                    self._outputs[name].fetch(bytes_of(shape, dtype), self._stream)
            self._timer.mark()
            self._device.synchronize(self._stream)
        self.times = self._timer.times()
        for name in made.keys() - outputs.keys():
            outputs[name] = self._outputs[name].read(made[name], self._plan.outputs[name].dtype)
        return outputs

    def _capture(
        self,
        key: GraphKey,
        context: ProfileContext,
        outputs: dict[str, Resident],
        said: Messages,
    ) -> None:
        """A graph of the run that has just been, if its replay gives the same outputs."""
        if not context.capturable():
            return
        try:
            own = self._context_for_graph(key, said)
            if not own.capturable():
                self._graphs.put_off(key)
                return
            captured = self._graphs.capture(key, self._stream, own, said)
            self._timer.begin_run()
            self._timer.mark()
            self._device.launch_graph(captured.graph, self._stream)
            self._timer.mark()
            kept = [name for name, output in outputs.items() if _is_kept(output)]
            replayed = self._copy_out(captured.output_shapes, kept)
            reason = "" if _same(outputs, replayed) else "its replay gives other outputs"
        except EngineError as error:
            reason = str(error)
        if reason:
            log.warning("%s: runs without CUDA graphs: %s", self._plan.name, reason)
            self._graphs.disable()

    def _context_for_graph(self, key: GraphKey, said: Messages) -> ProfileContext:
        """A context that has run with the shapes of `key`, on what lies in the inputs now."""
        index, sizes = key
        context = self._new_context(index, said)
        shapes = dict(zip(self._plan.inputs, sizes, strict=True))
        context.bind(shapes, self._inputs, self._outputs, said)
        context.enqueue(said)
        self._device.synchronize(self._stream)
        return context


def _is_kept(output: Resident) -> bool:
    return not isinstance(output, np.ndarray)


def _same(plain: dict[str, Resident], replayed: dict[str, Resident]) -> bool:
    """Those on the host are compared; of a network's outputs there is at least one in warm-up."""
    for name, output in plain.items():
        again = replayed[name]
        if not isinstance(output, np.ndarray) or not isinstance(again, np.ndarray):
            continue
        if not np.allclose(output, again, _GRAPH_TOLERANCE, _GRAPH_TOLERANCE, equal_nan=True):
            return False
    return True
