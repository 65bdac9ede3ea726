"""Silero's lean graph against the published one, and a file that is another network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.bundles.compile.graph_runs import GraphRun, model_of
from visavis.bundles.silero import graph_to_load, lean_graph
from visavis.serving.errors import PlanError


def test_the_lean_graph_hears_what_the_published_one_hears(bundle: Callable[[str], Path]) -> None:
    rows = 3
    published = onnx.load(bundle("silero-vad") / "silero_vad.onnx")
    ways = GraphRun(published), GraphRun(lean_graph(published))
    states = [np.zeros((2, rows, 128), np.float32)] * 2
    rng = np.random.default_rng(7)
    told: list[float] = []
    # A voice: partials of a pitch that moves, in bursts, over noise of every level.
    for frame in range(45):
        t = (np.arange(576) + 512 * frame) / 16_000
        voice = sum(
            np.sin(2 * np.pi * k * (120 + 20 * np.sin(3 * t)) * t) / k for k in range(1, 12)
        )
        level = rng.uniform(0, 0.3, (rows, 1)) * (frame % 40 < 25)
        noise = rng.normal(size=(rows, 576)) * 10 ** rng.uniform(-5, -1.5)
        seen = (level * voice + noise).astype(np.float32)
        given = {"input": seen, "sr": np.array(16_000, np.int64)}
        outs = [way({**given, "state": state}) for way, state in zip(ways, states, strict=True)]
        states = [out["stateN"] for out in outs]
        assert outs[0]["output"].shape == outs[1]["output"].shape == (rows, 1)
        assert outs[1]["output"] == pytest.approx(outs[0]["output"], abs=1e-5)
        assert states[1] == pytest.approx(states[0], rel=1e-3, abs=1e-3)
        told += outs[0]["output"][:, 0].tolist()
    assert max(told) > 0.5 > 0.1 > min(told), "neither all speech nor none"


def test_another_network_is_loaded_as_it_is(tmp_path: Path) -> None:
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": [1]}, {"y": [1]}, {})
    with pytest.raises(PlanError, match="another version"):
        lean_graph(model)
    path = tmp_path / "other.onnx"
    path.write_bytes(model.SerializeToString())
    assert graph_to_load(path) == path.read_bytes()
