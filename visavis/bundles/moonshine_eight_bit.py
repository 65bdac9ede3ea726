"""Moonshine tiny with weights of eight bits, as a processor with products of bytes hears soonest.

Published are floats. The decoder reads all of its weights for each word piece: bytes are a quarter
to read, each block of 32 with a scale of its own. The encoder computes: its products are done in
bytes, where that moves what it tells by little.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from visavis.bundles.compile.surgery.editing import expect
from visavis.bundles.moonshine import moonshine_masks
from visavis.engine import eight_bit_products
from visavis.serving.errors import PlanError

log = logging.getLogger(__name__)

_BLOCK = 32
_LARGEST = 127
_COMPUTED_IN_BYTES = 4  # of MatMulNBits' `accuracy_level`: what comes in is rounded per block, too
_RUNTIME_DOMAIN = "com.microsoft"
# Each of these alone moves what the encoder tells by 1.4 to 2.1 % (root mean square, 16 clips of
# the half `tune`), all others by at most 1.1 %.
_LEFT_AS_FLOATS = (
    "/layers.0/self_attn/v_proj/",
    "/layers.0/self_attn/dense/",
    *(f"/layers.{layer}/mlp/fc1/" for layer in range(4)),
)


def graph_to_load(path: Path) -> bytes:
    """The network at `path` as this processor hears soonest: with weights of eight bits, and the
    encoder, where products of bytes are not exact, in floats with masks, so that rows may share a
    run. In floats on a kind of processor that was not measured; as it is where it is another
    network, or published in bytes, which have one scale for a whole run, so that no mask parts its
    rows.
    """
    model = onnx.load(path)
    if any(node.op_type == "MatMulInteger" for part in _graphs(model.graph) for node in part.node):
        return path.read_bytes()  # Moonshine base
    known = platform.machine().lower() in ("x86_64", "amd64")
    decodes = _is_decoder(model)
    try:
        # Products of blocks are exact everywhere: the sums of two fit into 16 bits, for their
        # operator takes the sign off one side.
        if known and (decodes or not eight_bit_products.are_clipped()):
            rewritten = in_eight_bits(model)
        elif decodes:
            return path.read_bytes()
        else:
            rewritten = moonshine_masks(model)
    except PlanError as error:
        log.warning("%s is computed as it was published: %s", path.name, error)
        return path.read_bytes()
    return rewritten.SerializeToString()


def in_eight_bits(model: onnx.ModelProto) -> onnx.ModelProto:
    """`model`, changed: Moonshine tiny's published encoder or merged decoder, its inputs and
    outputs as they were. Raises PlanError for another graph.
    """
    read_again = _is_decoder(model)
    writer = _Writer(model)
    for graph in _graphs(model.graph):
        writer.write(graph, in_blocks=read_again)
    return writer.finished()


def _is_decoder(model: onnx.ModelProto) -> bool:
    """Merged out of its first step and the next ones."""
    return any(node.op_type == "If" for node in model.graph.node)


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """This one and the branches in it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _graphs(attribute.g)


def _weights_of(
    node: onnx.NodeProto, graph: onnx.GraphProto, weights: dict[str, onnx.TensorProto]
) -> NDArray[np.float32] | None:
    """[K, N] that a product multiplies by, K a number of whole blocks; None: it has none. Those of
    the vocabulary are turned over where they are used."""
    name, turned = node.input[1], False
    if name not in weights:
        makers = [other for other in graph.node if name in other.output]
        if not makers or makers[0].op_type != "Transpose":
            return None
        name, turned = makers[0].input[0], True
    weight = weights.get(name)
    if weight is None or weight.data_type != TensorProto.FLOAT or len(weight.dims) != 2:
        return None
    values = numpy_helper.to_array(weight)
    values = values.T if turned else values
    return None if len(values) % _BLOCK else values


def _scales(values: NDArray[np.float32], axis: int) -> NDArray[np.float32]:
    largest = np.abs(values).max(axis)
    largest[largest == 0] = _LARGEST
    scales: NDArray[np.float32] = largest / np.float32(_LARGEST)
    return scales


class _Writer:
    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = model
        self._weights = {weight.name: weight for weight in model.graph.initializer}
        self._added: dict[str, onnx.TensorProto] = {}

    def write(self, graph: onnx.GraphProto, *, in_blocks: bool) -> None:
        """in_blocks: weights alone are bytes; else what they are multiplied by as well."""
        nodes: list[onnx.NodeProto] = []
        rounded: set[str] = set()
        for node in graph.node:
            values = None
            if node.op_type == "MatMul" and not any(part in node.name for part in _LEFT_AS_FLOATS):
                values = _weights_of(node, graph, self._weights)
            if values is None:
                nodes.append(node)
            elif in_blocks:
                nodes.append(self._by_blocks(node, values))
            else:
                nodes += self._of_bytes(node, values, rounded)
        del graph.node[:]
        graph.node.extend(nodes)

    def _by_blocks(self, node: onnx.NodeProto, values: NDArray[np.float32]) -> onnx.NodeProto:
        n_in, n_out = values.shape
        given, name = node.input
        weight, scale = f"{name}/bytes", f"{name}/scales"
        if weight not in self._added:  # both branches read it
            blocks = values.T.reshape(n_out, n_in // _BLOCK, _BLOCK)
            scales = _scales(blocks, axis=-1)
            # Of unsigned bytes the operator takes 128 off.
            self._add(weight, (np.rint(blocks / scales[..., None]) + 128).astype(np.uint8))
            self._add(scale, scales)
        return helper.make_node(
            "MatMulNBits",
            [given, weight, scale],
            list(node.output),
            name=node.name,
            domain=_RUNTIME_DOMAIN,
            K=n_in,
            N=n_out,
            bits=8,
            block_size=_BLOCK,
            accuracy_level=_COMPUTED_IN_BYTES,
        )

    def _of_bytes(
        self, node: onnx.NodeProto, values: NDArray[np.float32], rounded: set[str]
    ) -> Iterator[onnx.NodeProto]:
        """rounded: tensors whose bytes are there already; is added to."""
        given, name = node.input
        scales = _scales(values, axis=0)
        weight = self._add(f"{name}/bytes", np.rint(values / scales).astype(np.int8))
        bytes_, scale, zero = (f"{given}/{part}" for part in ("bytes", "scale", "zero"))
        if given not in rounded:
            rounded.add(given)
            yield helper.make_node("DynamicQuantizeLinear", [given], [bytes_, scale, zero])
        out, to_float = node.output[0], TensorProto.FLOAT
        sums, floats, scaled = (f"{out}/{part}" for part in ("sums", "floats", "scale"))
        zeros = self._add(f"{name}/zeros", np.zeros(len(scales), np.int8))
        inputs = [bytes_, weight, zero, zeros]
        yield helper.make_node("MatMulInteger", inputs, [sums])
        yield helper.make_node("Cast", [sums], [floats], to=to_float)
        yield helper.make_node("Mul", [scale, self._add(f"{name}/scales", scales)], [scaled])
        yield helper.make_node("Mul", [floats, scaled], [out])

    def _add(self, name: str, values: NDArray[np.generic]) -> str:
        self._added[name] = numpy_helper.from_array(np.ascontiguousarray(values), name)
        return name

    def finished(self) -> onnx.ModelProto:
        """Without the floats that nothing reads any more. Raises PlanError if there were none."""
        expect(bool(self._added), "products by weights that are floats")
        graph = self._model.graph
        read = {name for part in _graphs(graph) for node in part.node for name in node.input}
        kept = [weight for weight in graph.initializer if weight.name in read]
        del graph.initializer[:]
        graph.initializer.extend([*kept, *self._added.values()])
        self._model.opset_import.append(helper.make_opsetid(_RUNTIME_DOMAIN, 1))
        return self._model
