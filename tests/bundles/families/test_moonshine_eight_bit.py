"""Moonshine with weights of eight bits against the published one, and a file that is another."""

from __future__ import annotations

import platform
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper
from tokenizers import Tokenizer

from services.asr.hearing.moonshine import Moonshine
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
            text = recogniser.transcribe(sound("two_cities_01")).text
            given = {"input_values": sound("austen_0880")[None]}
            heard.append((text, encoder.infer(given)["last_hidden_state"]))
    (published, hidden), (text, rounded) = heard
    assert text == published
    assert "best of times" in text.lower()
    moved = float(np.sqrt(((rounded - hidden) ** 2).mean() / (hidden**2).mean()))
    assert moved < 0.06
    rewritten = platform.machine().lower() in ("x86_64", "amd64")
    assert (moved > 0) == (rewritten and not eight_bit_products.are_clipped())


def test_another_network_is_loaded_as_it_is(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])
    node = helper.make_node("Relu", ["x"], ["y"])
    model = helper.make_model(helper.make_graph([node], "other", [value], [out]))
    with pytest.raises(PlanError, match="products by weights"):
        in_eight_bits(model)
    path = tmp_path / "other.onnx"
    path.write_bytes(model.SerializeToString())
    assert graph_to_load(path) == path.read_bytes()
