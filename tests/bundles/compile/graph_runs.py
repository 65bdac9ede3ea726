"""Running a graph that lies in memory, on one thread of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from visavis.engine import Engine, TensorSpec

Tensors = dict[str, NDArray[Any]]


class GraphEngine(Engine):
    """A graph that lies in memory, as an engine."""

    backend = "onnxruntime"

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__(Path("graph.onnx"), device="cpu", threads=1)
        self._run = GraphRun(model)
        specs = {t.name: _spec(t) for t in (*model.graph.input, *model.graph.output)}
        self._specs = (
            {name: specs[name] for name in self._run.inputs},
            {name: specs[name] for name in self._run.outputs},
        )

    def _load(self) -> tuple[dict[str, TensorSpec], dict[str, TensorSpec]]:
        raise NotImplementedError  # it is loaded from the beginning

    def _infer(self, inputs: Mapping[str, Any]) -> Tensors:
        return self._run(dict(inputs))

    def _close(self) -> None:
        """Nothing to free before the object goes."""


def _spec(tensor: onnx.ValueInfoProto) -> TensorSpec:
    kind = tensor.type.tensor_type
    shape = tuple(d.dim_value or None for d in kind.shape.dim)
    return TensorSpec(tensor.name, helper.tensor_dtype_to_np_dtype(kind.elem_type), shape)


class GraphRun:
    """A model, ready to run."""

    def __init__(self, model: onnx.ModelProto) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        self._session = ort.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        self.inputs = {given.name: given.shape for given in self._session.get_inputs()}
        self.outputs = [made.name for made in self._session.get_outputs()]

    def __call__(self, inputs: Tensors) -> Tensors:
        """Run on those of `inputs` that the graph has."""
        given = {name: inputs[name] for name in self.inputs}
        return dict(zip(self.outputs, self._session.run(None, given), strict=True))


def model_of(
    nodes: list[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str]],
    outputs: Mapping[str, Sequence[int | str]],
    weights: Mapping[str, NDArray[Any]],
) -> onnx.ModelProto:
    """A small model with float inputs and outputs."""
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outputs.items()],
        initializer=[numpy_helper.from_array(np.asarray(w), n) for n, w in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model


def operators(model: onnx.ModelProto) -> set[str]:
    return {node.op_type for node in model.graph.node}
