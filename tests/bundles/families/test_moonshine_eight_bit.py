"""Moonshine with weights of eight bits against the published one, and a file that is another."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer

from services.asr.hearing.moonshine import Moonshine
from tests.bundles.compile.graph_runs import model_of
from tests.bundles.compile.speech import sound
from visavis.bundles.moonshine_eight_bit import graph_to_load, in_eight_bits
from visavis.engine import EngineOptions, eight_bit_products, open_engine
from visavis.serving.errors import PlanError

PARTS = ("encoder.onnx", "decoder.onnx")


def test_with_weights_of_eight_bits_the_same_is_heard(bundle: Callable[[str], Path]) -> None:
    folder = bundle("moonshine-tiny-en")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    heard: list[tuple[str, NDArray[np.float32]]] = []
    for options in (EngineOptions(), EngineOptions(graph=graph_to_load)):
        with (
            open_engine(folder / PARTS[0], options=options) as encoder,
            open_engine(folder / PARTS[1], options=options) as decoder,
        ):
            recogniser = Moonshine(encoder, decoder, tokenizer)
            text = recogniser.transcribe(sound("two_cities_01")[:40_000]).text
            given = {"input_values": sound("austen_0880")[None, :24_000]}
            if "lengths" in encoder.inputs:  # in floats, whose rows may share a run
                given["lengths"] = np.array([given["input_values"].shape[1:]])
            heard.append((text, encoder.infer(given)["last_hidden_state"]))
    (published, hidden), (text, rounded) = heard
    assert text == published
    assert "best of times" in text.lower()
    moved = float(np.sqrt(((rounded - hidden) ** 2).mean() / (hidden**2).mean()))
    assert moved < 0.06
    rewritten = platform.machine().lower() in ("x86_64", "amd64")
    assert (moved > 1e-3) == (rewritten and not eight_bit_products.are_clipped())


def test_products_of_blocks_are_exact_whatever_the_processor(tmp_path: Path) -> None:
    """The largest there are, of which a processor without VNNI adds two in 16 bits."""
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])
    weight = numpy_helper.from_array(np.array([[3.0, -3.0]] * 64, np.float32), "w")
    product = helper.make_node("MatMul", ["x", "w"], ["y"])
    choice = helper.make_node(
        "If", ["first"], ["z"], then_branch=_nothing(), else_branch=_nothing()
    )
    first = helper.make_tensor_value_info("first", TensorProto.BOOL, [1])
    graph = helper.make_graph([product, choice], "decoder", [value, first], [out], [weight])
    path = tmp_path / "decoder.onnx"
    opset = helper.make_opsetid("", 17)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=10)
    path.write_bytes(model.SerializeToString())
    options = EngineOptions(graph=lambda path: in_eight_bits(onnx.load(path)).SerializeToString())
    with open_engine(path, options=options) as engine:
        given = {"x": np.full((1, 64), 5, np.float32), "first": np.array([True])}
        assert engine.infer(given)["y"] == pytest.approx(np.array([[960, -960]]), rel=1e-5)


def _nothing() -> onnx.GraphProto:
    """A branch, by which a graph is taken for a decoder."""
    zero = numpy_helper.from_array(np.zeros(1, np.float32), "zero")
    node = helper.make_node("Constant", [], ["z"], value=zero)
    told = helper.make_tensor_value_info("z", TensorProto.FLOAT, [1])
    return helper.make_graph([node], "branch", [], [told])


def test_another_network_is_loaded_as_it_is(tmp_path: Path) -> None:
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": [1]}, {"y": [1]}, {})
    with pytest.raises(PlanError, match="products by weights"):
        in_eight_bits(model)
    path = tmp_path / "other.onnx"
    path.write_bytes(model.SerializeToString())
    assert graph_to_load(path) == path.read_bytes()
