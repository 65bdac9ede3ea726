"""An ONNX graph as TensorRT sees it: parsed, with the inputs and outputs checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx

from visavis.bundles.compile.builder_api import (
    Builder,
    NetworkDefinition,
    NetworkTensor,
    OnnxParser,
    ParserError,
)
from visavis.bundles.compile.plans.record import LayerInfo, TensorInfo
from visavis.bundles.store.recipe import ProfileSpec, ShapeRange
from visavis.engine.tensorrt.bindings.messages import Messages
from visavis.serving.errors import PlanError

# ONNX element type -> name of the DataType that the compiler must read it as. Other types
# (double, uint16, strings) it refuses or, worse, narrows without a word.
_DTYPES: dict[int, str] = {
    onnx.TensorProto.FLOAT: "FLOAT",
    onnx.TensorProto.FLOAT16: "HALF",
    onnx.TensorProto.BFLOAT16: "BF16",
    onnx.TensorProto.INT8: "INT8",
    onnx.TensorProto.UINT8: "UINT8",
    onnx.TensorProto.INT32: "INT32",
    onnx.TensorProto.INT64: "INT64",
    onnx.TensorProto.BOOL: "BOOL",
}


def parse_network(
    trt: Any, builder: Builder, logger: Any, onnx_bytes: bytes, said: Messages
) -> tuple[NetworkDefinition, OnnxParser]:
    """(INetworkDefinition of `onnx_bytes`, the parser: it must outlive the network).

    Raises PlanError with the parser's own words and the name of the node.
    """
    types = _declared_types(onnx_bytes)
    network = builder.create_network(0)
    if network is None:
        raise PlanError(told("the compiler made no network", said.errors))
    parser: OnnxParser = trt.OnnxParser(network, logger)
    if not parser.parse(onnx_bytes):
        problems = [_parser_problem(parser.get_error(i)) for i in range(parser.num_errors)]
        raise PlanError(told("the ONNX graph cannot be compiled", problems or said.errors))
    if network.num_outputs == 0 or network.num_layers == 0:
        raise PlanError("the ONNX graph is empty: no layer or no output")
    for tensor in (*inputs_of(network), *outputs_of(network)):
        _check_type(tensor, types)
    return network, parser


def inputs_of(network: NetworkDefinition) -> list[TensorInfo]:
    """The network's inputs in order."""
    return [_info(network.get_input(i)) for i in range(network.num_inputs)]


def outputs_of(network: NetworkDefinition) -> list[TensorInfo]:
    """The network's outputs in order."""
    return [_info(network.get_output(i)) for i in range(network.num_outputs)]


def layers_of(network: NetworkDefinition) -> list[LayerInfo]:
    """Every layer as parsed; the precision is the graph's own, because it is strongly typed."""
    layers = []
    for index in range(network.num_layers):
        layer = network.get_layer(index)
        dtype = layer.get_output_type(0).name if layer.num_outputs else ""
        layers.append(LayerInfo(layer.name, layer.type.name, dtype))
    return layers


def check_profile(inputs: Sequence[TensorInfo], profile: ProfileSpec) -> None:
    """Raise PlanError unless `profile` gives every input that varies a range that fits it.

    The compiler takes a bad range without complaint and fails later, without the name.
    """
    known = {tensor.name: tensor for tensor in inputs}
    for name, allowed in profile.shapes.items():
        where = f"profile {profile.name}: {name}"
        if name not in known:
            raise PlanError(f"{where} is no input; there are {', '.join(known) or 'none'}")
        _check_range(where, known[name], allowed)
    for tensor in inputs:
        if tensor.name not in profile.shapes and (-1 in tensor.shape or tensor.holds_shape):
            raise PlanError(
                f"profile {profile.name}: {tensor.name} {list(tensor.shape)} varies and has no "
                "range; give it min, opt and max"
            )


def _check_range(where: str, tensor: TensorInfo, allowed: ShapeRange) -> None:
    if not len(allowed.min) == len(allowed.opt) == len(allowed.max):
        raise PlanError(f"{where}: min, opt and max have different numbers of dimensions")
    for low, usual, high in zip(allowed.min, allowed.opt, allowed.max, strict=True):
        if not 0 <= low <= usual <= high:
            raise PlanError(f"{where}: {allowed}: min {low}, opt {usual}, max {high} is no range")
    if tensor.holds_shape:
        return
    fits = len(allowed.min) == len(tensor.shape) and all(
        size in (-1, low) and size in (-1, high)
        for size, low, high in zip(tensor.shape, allowed.min, allowed.max, strict=True)
    )
    if not fits:
        raise PlanError(f"{where}: {allowed} does not fit the input {list(tensor.shape)}")


def _declared_types(onnx_bytes: bytes) -> dict[str, int]:
    try:
        graph = onnx.load_from_string(onnx_bytes).graph
    except Exception as error:  # protobuf's DecodeError depends on its implementation
        raise PlanError(f"this is not an ONNX graph: {error}") from error
    return {t.name: t.type.tensor_type.elem_type for t in (*graph.input, *graph.output)}


def _check_type(tensor: TensorInfo, declared: dict[str, int]) -> None:
    want = declared.get(tensor.name, onnx.TensorProto.UNDEFINED)
    if want != onnx.TensorProto.UNDEFINED and _DTYPES.get(want) != tensor.dtype:
        raise PlanError(
            f"{tensor.name}: the graph declares {_type_name(want)}, the "
            f"compiler would read {tensor.dtype}; cast it in the graph"
        )


def _info(tensor: NetworkTensor) -> TensorInfo:
    shape = tuple(int(size) for size in tensor.shape)
    return TensorInfo(tensor.name, tensor.dtype.name, shape, bool(tensor.is_shape_tensor))


def _parser_problem(error: ParserError) -> str:
    operator = error.node_operator()
    where = f"node {error.node_name() or error.node()} ({operator}): " if operator else ""
    return f"{where}{error.code().name}: {' '.join(error.desc().split())}"


def _type_name(elem_type: int) -> str:
    names: dict[int, str] = {number: name for name, number in onnx.TensorProto.DataType.items()}
    return names.get(elem_type, str(elem_type))


def told(what: str, reasons: Sequence[str]) -> str:
    """`what`, and why, as far as the compiler says."""
    return f"{what}: {'; '.join(reasons)}" if reasons else f"{what}, and it does not say why"
