"""Silero's voice detector as a processor computes it with least work.

The published graph is one `If` on the sampling rate, with more of them inside on shapes that never
differ, so that ONNX Runtime can neither lay the weights out nor join steps. Its convolutions see
one to four places of a frame: as products of matrices they read the weights once for all rows.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from visavis.bundles.compile.surgery.editing import described, expect
from visavis.serving.errors import PlanError

log = logging.getLogger(__name__)

Array = NDArray[np.float32]

_SEEN, _AROUND, _STEP = 576, 64, 128  # samples: of a frame with its context, mirrored behind, a hop
_BINS, _CELLS = 129, 128
_OPSET = 18
_SHAPES = {
    "stft.forward_basis_buffer": (2 * _BINS, 1, 2 * _STEP),
    "encoder.0.reparam_conv.weight": (128, _BINS, 3),
    "encoder.1.reparam_conv.weight": (64, 128, 3),
    "encoder.2.reparam_conv.weight": (64, 64, 3),
    "encoder.3.reparam_conv.weight": (128, 64, 3),
    "decoder.rnn.weight_ih": (4 * _CELLS, 128),
    "decoder.rnn.weight_hh": (4 * _CELLS, _CELLS),
    "decoder.decoder.2.weight": (1, _CELLS, 1),
}


def graph_to_load(path: Path) -> bytes:
    """The lean graph of the file at `path`, or the file as it is where it is another network."""
    model = onnx.load(path)
    try:
        return lean_graph(model).SerializeToString()
    except PlanError as error:
        log.warning("%s is computed as it was published: %s", path.name, error)
        return path.read_bytes()


def lean_graph(model: onnx.ModelProto) -> onnx.ModelProto:
    """The published graph at 16 kHz: the same inputs and outputs, equal to float tolerance.

    input [B, 576], state [2, B, 128], sr (not looked at) -> output [B, 1], stateN [2, B, 128].
    Raises PlanError for another graph.
    """
    weights = _weights(model)
    lean = _Lean()
    x = _magnitudes(lean, weights["stft.forward_basis_buffer"])
    x = lean.add("Reshape", x, lean.shape(-1, 4, _BINS))
    x = lean.windows(x, (1, 1), [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5]])
    x = lean.layer(lean.add("Reshape", x, lean.shape(-1, 3 * _BINS)), weights, 0)
    x = lean.add("Reshape", x, lean.shape(-1, 4, 128))
    x = lean.windows(x, (1, 0), [[0, 1, 2], [2, 3, 4]])
    x = lean.layer(lean.add("Reshape", x, lean.shape(-1, 3 * 128)), weights, 1)
    # Two places are left, then one: the other taps meet nothing.
    x = lean.layer(lean.add("Reshape", x, lean.shape(-1, 2 * 64)), weights, 2, slice(1, 3))
    x = lean.layer(x, weights, 3, slice(1, 2))
    return lean.finished(_remembering(lean, x, weights))


def _weights(model: onnx.ModelProto) -> dict[str, Array]:
    """Of the branch for 16 kHz, by their names in the network."""
    branches = [node for node in model.graph.node if node.op_type == "If"]
    expect(len(branches) == 1, "single `If`")
    (branch,) = [a.g for a in branches[0].attribute if a.name == "then_branch"]
    found: dict[str, Array] = {}
    for node in branch.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            found[node.output[0].split("__")[-1]] = numpy_helper.to_array(node.attribute[0].t)
    for name, shape in _SHAPES.items():
        expect(name in found and found[name].shape == shape, f"{name} of shape {list(shape)}")
    return found


def _magnitudes(lean: _Lean, basis: Array) -> str:
    """[4 B, 129]: the spectrum at four places of each row of the input."""
    x = lean.add("Pad", "input", lean.shape(0, 0, 0, _AROUND), mode="reflect")
    x = lean.add("Reshape", x, lean.shape(-1, (_SEEN + _AROUND) // _STEP, _STEP))
    x = lean.add("Gather", x, lean.weight(np.array([[k, k + 1] for k in range(4)])), axis=1)
    x = lean.add("Reshape", x, lean.shape(-1, 2 * _STEP))
    x = lean.add("MatMul", x, lean.weight(basis[:, 0].T))
    power = lean.add("Mul", x, x)
    parts = lean.shape(_BINS, _BINS)
    real, imaginary = lean.add_many("Split", 2, power, parts, axis=1)
    return lean.add("Sqrt", lean.add("Add", real, imaginary))


def _remembering(lean: _Lean, x: str, weights: dict[str, Array]) -> tuple[str, str]:
    """Probabilities [B, 1] and the state behind them, of x [B, 128]."""
    given, kept = (_gates(weights[f"decoder.rnn.weight_{which}"])[None] for which in ("ih", "hh"))
    biases = [_gates(weights[f"decoder.rnn.bias_{which}"]) for which in ("ih", "hh")]
    hidden, cells = lean.add_many("Split", 2, "state", lean.shape(1, 1), axis=0)
    _, hidden, cells = lean.add_many(
        "LSTM",
        3,
        lean.add("Unsqueeze", x, lean.shape(0)),
        lean.weight(given),
        lean.weight(kept),
        lean.weight(np.concatenate(biases)[None]),
        "",
        hidden,
        cells,
        hidden_size=_CELLS,
    )
    state = lean.add("Concat", hidden, cells, axis=0)
    x = lean.add("Reshape", lean.add("Relu", hidden), lean.shape(-1, _CELLS))
    weight, bias = weights["decoder.decoder.2.weight"], weights["decoder.decoder.2.bias"]
    x = lean.add("Gemm", x, lean.weight(weight[:, :, 0].T), lean.weight(bias.reshape(1)))
    return lean.add("Sigmoid", x), state


def _gates(rows: Array) -> Array:
    """From PyTorch's order (input, forget, cell, output) to ONNX's (input, output, forget, cell).
    rows: [4 N, ...]."""
    into, forget, cell, out = np.split(rows, 4)
    return np.concatenate([into, out, forget, cell])


class _Lean:
    """A graph that is being written, operator by operator."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []

    def weight(self, values: NDArray[np.generic]) -> str:
        name = f"weight_{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def shape(self, *sizes: int) -> str:
        return self.weight(np.array(sizes, np.int64))

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        (made,) = self.add_many(operator, 1, *inputs, **attributes)
        return made

    def add_many(self, operator: str, n: int, *inputs: str, **attributes: Any) -> list[str]:
        made = [f"{operator.lower()}_{len(self._nodes)}_{k}" for k in range(n)]
        self._nodes.append(helper.make_node(operator, inputs, made, **attributes))
        return made

    def windows(self, x: str, around: tuple[int, int], places: list[list[int]]) -> str:
        """x: [B, T, K] with so many empty places in front and behind -> [B, N, 3, K]."""
        before, behind = around
        x = self.add("Pad", x, self.shape(0, before, 0, 0, behind, 0))
        return self.add("Gather", x, self.weight(np.array(places)), axis=1)

    def layer(
        self, x: str, weights: dict[str, Array], number: int, taps: slice = slice(None)
    ) -> str:
        """A convolution of the encoder and what follows it. x: [N, taps * channels]."""
        name = f"encoder.{number}.reparam_conv"
        weight = weights[f"{name}.weight"][:, :, taps].transpose(2, 1, 0)
        product = self.weight(weight.reshape(-1, weight.shape[-1]))
        return self.add("Relu", self.add("Gemm", x, product, self.weight(weights[f"{name}.bias"])))

    def finished(self, outputs: tuple[str, str]) -> onnx.ModelProto:
        """With the names of the published graph outside."""
        for inner, outer in zip(outputs, ("output", "stateN"), strict=True):
            self._nodes.append(helper.make_node("Identity", [inner], [outer]))
        state: list[int | str] = [2, "batch", _CELLS]
        graph = helper.make_graph(
            self._nodes,
            "silero",
            [
                described("input", ["batch", _SEEN]),
                described("state", state),
                described("sr", [], TensorProto.INT64),
            ],
            [described("output", ["batch", 1]), described("stateN", state)],
            initializer=self._weights,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)])
        model.ir_version = 8
        onnx.checker.check_model(model)
        return model
