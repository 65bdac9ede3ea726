"""Reading and changing an ONNX graph: who makes a tensor, who reads it, what is constant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from visavis.serving.errors import PlanError

Array = NDArray[np.generic]


class GraphEditor:
    """A model's graph with an index over it; nodes keep their order.

    Only the outermost graph is looked at: no graph of ours has control flow once its branches
    are parted.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self._weights = {weight.name: weight for weight in model.graph.initializer}
        self._makers = {name: node for node in model.graph.node for name in node.output}
        self._readers: dict[str, list[onnx.NodeProto]] = defaultdict(list)
        for node in model.graph.node:
            for name in node.input:
                self._readers[name].append(node)

    @property
    def nodes(self) -> list[onnx.NodeProto]:
        """Every node, in the order of computation."""
        return list(self.model.graph.node)

    def maker(self, tensor: str) -> onnx.NodeProto | None:
        """The node that makes `tensor`; None for inputs and weights."""
        return self._makers.get(tensor)

    def readers(self, tensor: str) -> list[onnx.NodeProto]:
        """The nodes that take `tensor`."""
        return list(self._readers.get(tensor, ()))

    def made_of(self, tensors: Iterable[str]) -> set[str]:
        """Every tensor that one of `tensors` has a part in, these included."""
        found = set(tensors)
        for node in self.model.graph.node:
            if found.intersection(node.input):
                found.update(node.output)
        return found

    def constant(self, tensor: str) -> Array | None:
        """The value of `tensor`, with its shape and dtype, where it is a weight or a Constant
        node's; else None.
        """
        if (weight := self._weights.get(tensor)) is not None:
            return np.asarray(numpy_helper.to_array(weight))
        maker = self.maker(tensor)
        if maker is None or maker.op_type != "Constant" or maker.attribute[0].name != "value":
            return None
        return np.asarray(numpy_helper.to_array(maker.attribute[0].t))

    def add_weight(self, name: str, values: Array) -> str:
        """A new constant of the shape and dtype of `values`; one of the same name stays."""
        if name not in self._weights:
            weight = numpy_helper.from_array(np.ascontiguousarray(values), name)
            self.model.graph.initializer.append(weight)
            self._weights[name] = weight
        return name

    def put_before(self, node: onnx.NodeProto, added: Iterable[onnx.NodeProto]) -> None:
        """Let `added` be computed right before `node`; who makes and reads what stays as it was."""
        nodes = self.model.graph.node
        place = next(i for i, other in enumerate(nodes) if other.output[0] == node.output[0])
        for offset, new in enumerate(added):
            nodes.insert(place + offset, new)

    def replace(self, node: onnx.NodeProto, operator: str, inputs: Iterable[str]) -> None:
        """Turn `node` into another operator with the same outputs, in the same place."""
        for name in node.input:
            self._readers[name] = [reader for reader in self.readers(name) if reader is not node]
        del node.input[:]
        node.input.extend(inputs)
        for name in node.input:
            self._readers[name].append(node)
        node.op_type = operator
        del node.attribute[:]

    def read_instead(self, old: str, new: str) -> None:
        """Let every reader of `old`, and the graph's outputs, take `new`."""
        for reader in self.readers(old):
            for place, name in enumerate(reader.input):
                if name == old:
                    reader.input[place] = new
            self._readers[new].append(reader)
        self._readers.pop(old, None)
        if any(output.name == old for output in self.model.graph.output):
            maker = self._makers.get(old)
            if maker is not None:
                self.replace(maker, "Identity", [new])

    def set_inputs(self, inputs: Iterable[onnx.ValueInfoProto]) -> None:
        """Replace the graph's inputs."""
        kept = list(inputs)
        del self.model.graph.input[:]
        self.model.graph.input.extend(kept)

    def set_outputs(self, outputs: Iterable[onnx.ValueInfoProto]) -> None:
        """Replace the graph's outputs."""
        kept = list(outputs)
        del self.model.graph.output[:]
        self.model.graph.output.extend(kept)

    def finished_model(self) -> onnx.ModelProto:
        """The model without what no output needs, and with a name for every node."""
        graph = self.model.graph
        needed = {output.name for output in graph.output}
        kept: list[onnx.NodeProto] = []
        for node in reversed(graph.node):
            if needed.intersection(node.output):
                needed.update(node.input)
                kept.append(node)
        kept.reverse()
        for number, node in enumerate(kept):
            node.name = node.name or f"{node.op_type.lower()}_{number}"
        weights = [weight for weight in graph.initializer if weight.name in needed]
        _refill(graph.node, kept)
        _refill(graph.initializer, weights)
        del graph.value_info[:]
        return self.model


def described(
    name: str, shape: Iterable[int | str], dtype: int = TensorProto.FLOAT
) -> onnx.ValueInfoProto:
    """What an input or output looks like; strings in `shape` are dimensions that vary."""
    return helper.make_tensor_value_info(name, dtype, list(shape))


def looks_around(editor: GraphEditor, convolution: onnx.NodeProto) -> bool:
    """Its kernel has more than one column, or is not known."""
    kernel = editor.constant(convolution.input[1])
    return kernel is None or kernel.shape[2:] != (1,)


def expect(found: bool, what: str) -> None:
    """Raise PlanError that the graph is not the one that the pass was written for."""
    if not found:
        raise PlanError(f"the graph has no {what}: another version of the model?")


def _refill(field: Any, kept: list[Any]) -> None:
    del field[:]
    field.extend(kept)
