"""Plans put together again into the files that a service loads.

A plan may be a piece of the published graph. To hear what a precision does to the product, its
pieces become one graph again with the inputs and outputs of the published one, and the service
runs that like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from visavis.bundles.compile.surgery.editing import described
from visavis.serving.errors import PlanError

Graphs = Mapping[str, onnx.ModelProto]
_STATES = ("text_states", "prosody_states")


def assembled(bundle: str, graphs: Graphs) -> dict[str, onnx.ModelProto]:
    """File name -> graph, from the graphs of all plans of `bundle` by plan name.

    Raises PlanError for a bundle of which we do not know how its plans belong together.
    """
    for start, assemble in _ASSEMBLIES.items():
        if bundle.startswith(start):
            return assemble(graphs)
    raise PlanError(f"how the plans of {bundle} belong together is not known")


def _moonshine(graphs: Graphs) -> dict[str, onnx.ModelProto]:
    return {
        "encoder.onnx": graphs["encoder"],
        "decoder.onnx": _merged_decoder(graphs["decoder-first"], graphs["decoder-next"]),
    }


def _merged_decoder(first: onnx.ModelProto, later: onnx.ModelProto) -> onnx.ModelProto:
    """One `If` on use_cache_branch, as published."""
    names = [output.name for output in first.graph.output]
    flag = helper.make_tensor_value_info("use_cache_branch", TensorProto.BOOL, [1])
    inputs = {given.name: given for model in (first, later) for given in model.graph.input}
    node = helper.make_node(
        "If",
        [flag.name],
        names,
        name="step",
        then_branch=_branch(later, "next", names),
        else_branch=_branch(first, "first", names),
    )
    outputs = [_untyped(output) for output in first.graph.output]
    return _model(first, [node], [*inputs.values(), flag], outputs, [])


def _branch(model: onnx.ModelProto, prefix: str, names: list[str]) -> onnx.GraphProto:
    nodes, weights = _prefixed(model, prefix)
    own = {output.name for output in model.graph.output}
    outputs = []
    for name in names:
        made = f"{prefix}/{name}"
        if name not in own:  # the keys and values of the sound: handed through
            handed = name.replace("present", "past_key_values")
            nodes.append(helper.make_node("Identity", [handed], [made], name=made))
        outputs.append(helper.make_tensor_value_info(made, TensorProto.FLOAT, None))
    return helper.make_graph(nodes, prefix, [], outputs, initializer=weights)


def _whisper(graphs: Graphs) -> dict[str, onnx.ModelProto]:
    # ONNX Runtime takes the empty cache of the first step, for which TensorRT has its own plan.
    return {"encoder.onnx": graphs["encoder"], "decoder.onnx": graphs["decoder-next"]}


def _hibari(graphs: Graphs) -> dict[str, onnx.ModelProto]:
    """Text, length regulator, voice."""
    text, voice = graphs["text"], graphs["voice"]
    nodes, weights = _prefixed(text, "text")
    regulator, constants = _regulator("text/durations", "durations")
    nodes += regulator
    for state in _STATES:
        nodes.append(
            helper.make_node("Gather", [f"text/{state}", "unit_of_phoneme"], [state], axis=2)
        )
    spoken, more = _prefixed(voice, "voice")
    nodes += spoken
    for output in voice.graph.output:
        nodes.append(helper.make_node("Identity", [f"voice/{output.name}"], [output.name]))
    inputs = [described("ids", [1, "L"], TensorProto.INT64), described("speed", [1])]
    outputs = [*voice.graph.output, described("durations", ["L"], TensorProto.INT64)]
    whole = _model(text, nodes, inputs, outputs, [*weights, *constants, *more])
    return {"hibari-durations.onnx": whole}


def _regulator(by_row: str, durations: str) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Of `by_row` [1, L] the only row, `durations` [L], unit_of_phoneme [U]: for every unit of time
    the number of its phoneme, and mask [1, 1, U]: all is voice."""
    constants = {"zero": np.int64(0), "one": np.int64(1), "first": np.array([0], np.int64)}
    constants |= {"all": np.ones((1, 1, 1), np.float32)}
    constants |= {"second": np.array([1], np.int64)}
    make: Callable[..., onnx.NodeProto] = helper.make_node
    nodes = [
        make("Squeeze", [by_row, "regulator/first"], [durations]),
        make("ReduceSum", [durations, "regulator/first"], ["units"], keepdims=0),
        make("Range", ["regulator/zero", "units", "regulator/one"], ["unit"]),
        make("CumSum", [durations, "regulator/zero"], ["ends"]),
        make("Unsqueeze", ["unit", "regulator/second"], ["unit_column"]),
        make("Unsqueeze", ["ends", "regulator/first"], ["ends_row"]),
        make("GreaterOrEqual", ["unit_column", "ends_row"], ["over"]),
        make("Cast", ["over"], ["over_counted"], to=TensorProto.INT64),
        make("ReduceSum", ["over_counted", "regulator/second"], ["unit_of_phoneme"], keepdims=0),
        make("Shape", ["unit_of_phoneme"], ["size"]),
        make("Expand", ["regulator/all", "size"], ["mask"]),
    ]
    weights = [
        numpy_helper.from_array(np.asarray(value), f"regulator/{name}")
        for name, value in constants.items()
    ]
    return nodes, weights


def _kokoro(graphs: Graphs) -> dict[str, onnx.ModelProto]:
    return {f"{plan}.onnx": graphs[plan] for plan in ("text", "voice")}


def _mandarin(graphs: Graphs) -> dict[str, onnx.ModelProto]:
    return {f"{plan}.onnx": graphs[plan] for plan in ("encoder", "decoder", "vocoder")}


def _prefixed(
    model: onnx.ModelProto, prefix: str
) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Copies of nodes and weights; every name but the inputs' gets the prefix."""
    inputs = {given.name for given in model.graph.input}

    def renamed(name: str) -> str:
        return name if not name or name in inputs else f"{prefix}/{name}"

    nodes = []
    for node in model.graph.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.name = f"{prefix}/{node.name}"
        copy.input[:] = [renamed(name) for name in node.input]
        copy.output[:] = [renamed(name) for name in node.output]
        nodes.append(copy)
    weights = []
    for weight in model.graph.initializer:
        moved = onnx.TensorProto()
        moved.CopyFrom(weight)
        moved.name = renamed(weight.name)
        weights.append(moved)
    return nodes, weights


def _untyped(output: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    """The same without a shape: the branches of an `If` do not agree on one."""
    return helper.make_tensor_value_info(output.name, output.type.tensor_type.elem_type, None)


def _model(
    like: onnx.ModelProto, nodes: Any, inputs: Any, outputs: Any, weights: Any
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, like.graph.name, inputs, outputs, initializer=weights)
    model = helper.make_model(graph, opset_imports=like.opset_import)
    model.ir_version = like.ir_version
    return model


_ASSEMBLIES: dict[str, Callable[[Graphs], dict[str, onnx.ModelProto]]] = {
    "moonshine": _moonshine,
    "whisper": _whisper,
    "hibari": _hibari,
    "kokoro": _kokoro,
    "fastspeech2-mbmelgan": _mandarin,
}
