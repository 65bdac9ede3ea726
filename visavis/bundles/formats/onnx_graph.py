"""A small builder of ONNX graphs: layers in, one checked model file out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
# Read by ONNX Runtime 1.13 and later.
IR_VERSION = 8

Shape = Sequence[int | str]


class GraphBuilder:
    """Collects nodes and weights. Every method returns the name of the tensor that it makes."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: list[onnx.NodeProto] = []
        self._weights: dict[str, onnx.TensorProto] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, shape: Shape, dtype: int = TensorProto.FLOAT) -> str:
        """Declare an input; strings in `shape` are dimensions that vary."""
        self._inputs.append(helper.make_tensor_value_info(name, dtype, list(shape)))
        return name

    def output(self, tensor: str, name: str, shape: Shape, dtype: int = TensorProto.FLOAT) -> None:
        """Declare `tensor` as the output `name`."""
        self._nodes.append(helper.make_node("Identity", [tensor], [name]))
        self._outputs.append(helper.make_tensor_value_info(name, dtype, list(shape)))

    def weight(self, values: NDArray[np.generic] | float | Sequence[int]) -> str:
        """A constant of any shape: floats become float32, integers int64."""
        array = np.asarray(values)
        array = array.astype(np.int64 if array.dtype.kind in "iu" else np.float32, copy=False)
        name = f"w{len(self._weights)}"
        self._weights[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return name

    def node(self, operator: str, *inputs: str, kind: str = "", **attributes: Any) -> str:
        """One operator with one output; `kind` begins its name instead of the operator's."""
        name = f"{kind or operator.lower()}{len(self._nodes)}"
        self._nodes.append(
            helper.make_node(operator, list(inputs), [name], name=name, **attributes)
        )
        return name

    def dense(self, tensor: str, kernel: NDArray[np.float32], bias: NDArray[np.float32]) -> str:
        """tensor [..., in], kernel [out, in], bias [out] -> [..., out], all float32."""
        product = self.node("MatMul", tensor, self.weight(kernel.T))
        return self.node("Add", product, self.weight(bias))

    def convolve(
        self,
        tensor: str,
        kernel: NDArray[np.float32],
        bias: NDArray[np.float32],
        *,
        pads: tuple[int, int] = (0, 0),
        dilation: int = 1,
    ) -> str:
        """tensor [N, in, T], kernel [out, in, width], bias [out] -> [N, out, T'], all float32."""
        weights = self.weight(kernel), self.weight(bias)
        return self.node(
            "Conv", tensor, *weights, pads=list(pads), dilations=[dilation], strides=[1]
        )

    def layer_norm(
        self, tensor: str, scale: NDArray[np.float32], shift: NDArray[np.float32], epsilon: float
    ) -> str:
        """Normalise over the last axis. tensor [..., C], scale and shift [C], all float32."""
        weights = self.weight(scale), self.weight(shift)
        return self.node("LayerNormalization", tensor, *weights, axis=-1, epsilon=epsilon)

    def transpose(self, tensor: str, order: Sequence[int]) -> str:
        """Permute the axes."""
        return self.node("Transpose", tensor, perm=list(order))

    def model(self) -> onnx.ModelProto:
        """The graph as a model that has been checked."""
        graph = helper.make_graph(self._nodes, self._name, self._inputs, self._outputs)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="visavis"
        )
        model.ir_version = IR_VERSION
        # Last, for they are hundreds of megabytes, and every step before would copy them.
        model.graph.initializer.extend(self._weights.values())
        onnx.checker.check_model(model, full_check=True)
        return model

    def save(self, path: Path) -> None:
        """Check the graph and write it whole or not at all."""
        model = self.model()
        partial = path.with_name(path.name + ".part")
        onnx.save(model, str(partial))
        partial.replace(path)
