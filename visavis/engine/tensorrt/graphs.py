"""CUDA graphs of one plan: which shapes deserve one, and those there are.

A graph replays the launches of one shape in one call, which helps networks of many
small kernels. It holds addresses, so all of them fall when any buffer moves.

Each has an execution context of its own, which nobody touches while the graph lives.
NVIDIA's developer guide asks for that (Performance Best Practices, CUDA Graphs, "Limitations
of CUDA Graphs"): a graph belongs to the input sizes and buffers that it was captured with,
changing the context that it was captured from makes its replay undefined, and so the best
practice is "one execution context per captured graph", with memory shared across the contexts.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass

from visavis.engine.tensorrt.bindings.device import CudaDevice
from visavis.engine.tensorrt.bindings.messages import Messages
from visavis.engine.tensorrt.context import ProfileContext
from visavis.serving.errors import EngineError

RUNS_BEFORE_CAPTURE = 3
"""Shapes that come once or twice, like a growing cache's, are not worth a capture."""
MOST_GRAPHS = 16
_SHAPES_COUNTED = 256

GraphKey = tuple[int, tuple[tuple[int, ...], ...]]
"""Index of the profile and the shapes of the inputs in their order."""


@dataclass(frozen=True, slots=True)
class CapturedGraph:
    """A run of one shape, recorded once, and what it needs to be launched again."""

    graph: int
    context: ProfileContext
    """Kept unchanged for as long as the graph."""
    output_shapes: dict[str, tuple[int, ...]]


class GraphCache:
    """At most MOST_GRAPHS graphs; the least recently used one makes room."""

    def __init__(self, device: CudaDevice, *, enabled: bool) -> None:
        self.enabled = enabled and device.has_graphs
        self._device = device
        self._graphs: OrderedDict[GraphKey, CapturedGraph] = OrderedDict()
        self._runs: OrderedDict[GraphKey, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._graphs)

    def get(self, key: GraphKey) -> CapturedGraph | None:
        """The graph of this shape, now the one used last; None where there is none."""
        captured = self._graphs.get(key)
        if captured is not None:
            self._graphs.move_to_end(key)
        return captured

    def deserves_capture(self, key: GraphKey) -> bool:
        """Count one plain run of this shape; True once there were enough."""
        if not self.enabled:
            return False
        self._runs[key] = self._runs.get(key, 0) + 1
        self._runs.move_to_end(key)
        if len(self._runs) > _SHAPES_COUNTED:
            self._runs.popitem(last=False)
        return self._runs[key] >= RUNS_BEFORE_CAPTURE

    def put_off(self, key: GraphKey) -> None:
        """Its context was not ready: count its runs anew."""
        self._runs.pop(key, None)

    def capture(
        self, key: GraphKey, stream: int, context: ProfileContext, said: Messages
    ) -> CapturedGraph:
        """Record a run of `context` as the graph of `key`; the context is the graph's from now on.

        It must have run with these shapes and addresses. Raises EngineError if it cannot
        be captured.
        """
        self._device.begin_capture(stream)
        try:
            context.enqueue(said)
        except BaseException:
            # Leave capture mode whatever happened; the first error is the one that tells.
            self._abandon(stream)
            raise
        graph = self._device.end_capture(stream)
        captured = CapturedGraph(graph, context, context.output_shapes())
        self._graphs[key] = captured
        if len(self._graphs) > MOST_GRAPHS:
            _, oldest = self._graphs.popitem(last=False)
            self._device.destroy_graph(oldest.graph)
        return captured

    def disable(self) -> None:
        """No graphs from now on."""
        self.enabled = False
        self.clear()

    def clear(self) -> None:
        """Drop every graph: an address in them is no longer true."""
        while self._graphs:
            _, captured = self._graphs.popitem()
            self._device.destroy_graph(captured.graph)

    def _abandon(self, stream: int) -> None:
        with suppress(EngineError):
            self._device.destroy_graph(self._device.end_capture(stream))
