"""Graphs that were parted: the parts together compute what the whole does, to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tests.bundles.compile.float_graphs import FloatGraphs
from tests.bundles.compile.graph_runs import GraphEngine, Tensors, model_of
from tests.parity import Parity
from visavis.bundles.compile.surgery.passes import apply_passes
from visavis.engine import Engine, Resident, TensorSpec
from visavis.engine.parts import arrange
from visavis.serving.errors import EngineLoadError, PlanError

STEPS = ("decoder-first", "decoder-next")
SPECTRA = ("lh", "theta", "ln", "lr", "phi", "f0")


class Joined(Engine):
    """Parts behind the inputs and outputs of the whole, as they run on a GPU."""

    backend = "parts"
    keeps_tensors = True

    def __init__(self, name: str, parts: Mapping[str, Engine]) -> None:
        super().__init__(Path(name), device="cpu", threads=1)
        self._whole = arrange(name, parts)
        self._specs = (dict(self._whole.inputs), dict(self._whole.outputs))

    def _infer(self, inputs: Mapping[str, Any]) -> Tensors:
        return {name: np.asarray(out) for name, out in self._whole.run(inputs, ()).items()}

    def _infer_resident(self, inputs: Mapping[str, Any], resident: Any) -> dict[str, Resident]:
        return self._whole.run(inputs, resident)

    def _load(self) -> tuple[dict[str, TensorSpec], dict[str, TensorSpec]]:
        raise NotImplementedError  # its parts are loaded

    def _close(self) -> None:
        """Its parts are closed by whoever opened them."""


def test_the_next_step_takes_no_sound_and_no_switch(float_graphs: FloatGraphs) -> None:
    first, following = (float_graphs.load("moonshine-tiny-en", plan).graph for plan in STEPS)
    assert {given.name for given in first.input} == {"input_ids", "encoder_hidden_states"}
    given = {given.name for given in following.input}
    assert not given & {"use_cache_branch", "encoder_hidden_states"}
    assert not [made.name for made in following.output if ".encoder." in made.name]


def test_hibari_cut_at_its_length_regulator_is_hibari(
    bundle: Callable[[str], Path], float_graphs: FloatGraphs, parities: list[Parity]
) -> None:
    folder = bundle("hibari-en")
    published = onnx.load(folder / "hibari-durations.onnx")
    # Folded first: the quantised network differs from itself, cut or not, by its own rounding.
    uncut = GraphEngine(apply_passes(published, ["fold_dynamic_quantization"]))
    ids = np.random.default_rng(3).integers(1, 170, (1, 40))
    inputs: Tensors = {"ids": ids, "speed": np.array([0.9], np.float32)}
    parts = {plan: GraphEngine(float_graphs.load(folder.name, plan)) for plan in ("text", "voice")}
    joined = Joined("hibari-durations.onnx", parts)
    assert set(joined.inputs) == set(uncut.inputs)
    assert set(joined.outputs) == set(uncut.outputs)
    whole, parted = uncut.infer(inputs), joined.infer(inputs)
    assert parted.keys() == whole.keys()
    assert parted["durations"].tolist() == [whole["durations"].tolist()]
    error = max(float(np.abs(parted[name] - whole[name]).max()) for name in SPECTRA)
    assert error < 1e-3
    parities.append(
        Parity("hibari-en", "hibari_text, hibari_voice", "40 phonemes", error, "same durations")
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("moonshine_first_step", "no single `If`"),
        ("drop_empty_cache", "no past_. input"),
        ("hibari_text", "no length regulator"),
        ("hibari_voice", "no length regulator"),
    ],
)
def test_a_graph_of_another_kind_is_refused(name: str, said: str) -> None:
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": ["n"]}, {"y": ["n"]}, {})
    with pytest.raises(PlanError, match=f"{name} does not fit: the graph has {said}"):
        apply_passes(model, [name])


def test_parts_that_nobody_can_join_are_refused() -> None:
    with pytest.raises(EngineLoadError, match=r"no way .* left, right"):
        arrange("model.onnx", {"left": None, "right": None})  # type: ignore[dict-item]
