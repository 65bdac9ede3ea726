"""Rational-quadratic splines (Durkan et al. 2019, arXiv:1906.04032) without picking by value.

As exported, a flow of VITS' duration predictor collects the numbers inside the spline's range
(NonZero), computes with these alone and puts them back (ScatterND): a length that the data decide,
which TensorRT-RTX does not compile. Here all numbers are computed, and Where chooses.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import helper

from visavis.bundles.compile.surgery.editing import Array, GraphEditor, expect

# As VITS has them.
_BOUND = 5.0
_SMALLEST = 1e-3
_SPLIT_PARAMETERS = 3


@dataclass(frozen=True)
class _Flow:
    """One flow: x1 [B, 1, T] and parameters [B, 1, T, 3 K - 1] make what is joined to x0."""

    joined: onnx.NodeProto
    x1: str
    parameters: str
    bins: int
    divisor: float


def vits_splines(model: onnx.ModelProto) -> onnx.ModelProto:
    """Replace every inverse spline that picks by value; a graph without any stays as it is."""
    editor = GraphEditor(model)
    for number, flow in enumerate(_flows(editor)):
        nodes = _SplineNodes(editor, f"spline{number}")
        made = nodes.inverse(flow)
        flow.joined.input[1] = made
        editor.put_before(flow.joined, nodes.nodes)
    return GraphEditor(model).finished_model()


def _flows(editor: GraphEditor) -> list[_Flow]:
    found = []
    for joined in editor.nodes:
        if joined.op_type != "Concat" or len(joined.input) != 2:
            continue
        split, scatter = (editor.maker(name) for name in joined.input)
        if split is None or scatter is None or scatter.op_type != "ScatterND":
            continue
        expect(split.op_type == "Split", "split in front of its spline")
        found.append(_flow(editor, joined, split, scatter))
    return found


def _flow(
    editor: GraphEditor, joined: onnx.NodeProto, split: onnx.NodeProto, scatter: onnx.NodeProto
) -> _Flow:
    parameters = _parameters(editor, scatter, split)
    reshaped = editor.maker(parameters.input[0])
    product = editor.maker(reshaped.input[0]) if reshaped is not None else None
    while product is not None and product.op_type == "Mul":
        product = editor.maker(product.input[0])
    weight = editor.constant(product.input[1]) if product is not None else None
    expect(weight is not None, "projection to its spline's parameters")
    assert weight is not None
    bins, rest = divmod(weight.shape[0] + 1, _SPLIT_PARAMETERS)
    expect(rest == 0, "parameters of a spline with linear tails")
    other = split.output[1] if joined.input[0] == split.output[0] else split.output[0]
    return _Flow(joined, other, parameters.output[0], bins, float(np.sqrt(weight.shape[1])))


def _parameters(
    editor: GraphEditor, scatter: onnx.NodeProto, split: onnx.NodeProto
) -> onnx.NodeProto:
    """The Transpose [B, 1, K, T] -> [B, 1, T, K] between the flow's network and its spline."""
    seen: set[str] = set()
    waiting = list(scatter.input)
    while waiting:
        name = waiting.pop()
        maker = editor.maker(name)
        if name in seen or maker is None or name in split.output:
            continue
        seen.add(name)
        orders = [list(a.ints) for a in maker.attribute if a.name == "perm"]
        if maker.op_type == "Transpose" and orders == [[0, 1, 3, 2]]:
            return maker
        waiting.extend(maker.input)
    expect(False, "parameters of its spline")
    return scatter


class _SplineNodes:
    """Collects the nodes of one spline."""

    def __init__(self, editor: GraphEditor, name: str) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self._editor = editor
        self._name = name
        self._count = itertools.count()

    def inverse(self, flow: _Flow) -> str:
        """The spline's inverse where x1 is in its range, x1 itself elsewhere."""
        bins, p = flow.bins, flow.parameters
        x = self._op("Unsqueeze", flow.x1, self._whole([3]))
        inside = self._op("Clip", x, self._real(-_BOUND), self._real(_BOUND))
        lefts, widths = self._knots(self._slice(p, 0, bins), flow)
        bottoms, heights = self._knots(self._slice(p, bins, 2 * bins), flow)
        slopes = self._slopes(self._slice(p, 2 * bins, 3 * bins - 1))
        chosen = self._bin(inside, bottoms, bins)

        def pick(values: str) -> str:
            product = self._op("Mul", values, chosen)
            return self._op("ReduceSum", product, self._whole([3]), keepdims=1)

        left, width, bottom, height = map(pick, (lefts, widths, bottoms, heights))
        first = pick(self._slice(slopes, 0, bins))
        second = pick(self._slice(slopes, 1, bins + 1))
        root = self._root(inside, bottom, height, width, first, second)
        made = self._op("Add", self._op("Mul", root, width), left)
        is_inside = self._op("Equal", x, inside)
        return self._op("Squeeze", self._op("Where", is_inside, made, x), self._whole([3]))

    def _knots(self, raw: str, flow: _Flow) -> tuple[str, str]:
        """Beginning and size of every bin, out of what the network gives."""
        shares = self._op("Softmax", self._op("Div", raw, self._real(flow.divisor)), axis=-1)
        room = 1.0 - _SMALLEST * flow.bins
        shares = self._op("Add", self._op("Mul", shares, self._real(room)), self._real(_SMALLEST))
        sizes = self._op("Mul", shares, self._real(2 * _BOUND))
        # Sums of all bins before each one.
        before = np.triu(np.ones((flow.bins, flow.bins), np.float32), 1)
        sums = self._op("MatMul", sizes, self._weight(before))
        return self._op("Sub", sums, self._real(_BOUND)), sizes

    def _slopes(self, raw: str) -> str:
        """At every knot; 1 at both ends, where the tails go on."""
        inner = self._op("Add", self._op("Softplus", raw), self._real(_SMALLEST))
        pads = self._whole([0, 0, 0, 1, 0, 0, 0, 1])
        return self._op("Pad", inner, pads, self._real(1.0), mode="constant")

    def _bin(self, x: str, bottoms: str, bins: int) -> str:
        """[…, K] with 1 for the bin that x is in: begun, and the next one not. Neighbours share
        their knot, and no x is below the first or above the last."""
        begun = self._cast(self._op("GreaterOrEqual", x, bottoms))
        pads = self._whole([0, 0, 0, 0, 0, 0, 0, 1])
        following = self._slice(begun, 1, bins)
        return self._op("Sub", begun, self._op("Pad", following, pads, mode="constant"))

    def _root(self, x: str, bottom: str, height: str, width: str, first: str, second: str) -> str:
        """Where in its bin the spline has the height x: the quadratic equation of the paper."""
        slope = self._op("Div", height, width)
        up = self._op("Sub", x, bottom)
        bend = self._op(
            "Sub", self._op("Add", first, second), self._op("Mul", slope, self._real(2.0))
        )
        lift = self._op("Mul", up, bend)
        rising = self._op("Mul", height, self._op("Sub", slope, first))
        a = self._op("Add", lift, rising)
        b = self._op("Sub", self._op("Mul", height, first), lift)
        c = self._op("Neg", self._op("Mul", slope, up))
        four = self._op("Mul", self._op("Mul", a, c), self._real(4.0))
        under = self._op("Sub", self._op("Mul", b, b), four)
        sunk = self._op("Sub", self._op("Neg", b), self._op("Sqrt", under))
        return self._op("Div", self._op("Mul", c, self._real(2.0)), sunk)

    def _op(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"{self._name}_{operator.lower()}{next(self._count)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], name=name, **attributes))
        return name

    def _cast(self, x: str) -> str:
        return self._op("Cast", x, to=onnx.TensorProto.FLOAT)

    def _slice(self, x: str, start: int, end: int) -> str:
        return self._op("Slice", x, *(self._whole([n]) for n in (start, end, 3)))

    def _real(self, value: float) -> str:
        return self._weight(np.array(value, np.float32))

    def _whole(self, values: list[int]) -> str:
        return self._weight(np.array(values, np.int64))

    def _weight(self, values: Array) -> str:
        return self._editor.add_weight(f"{self._name}_w{next(self._count)}", values)
