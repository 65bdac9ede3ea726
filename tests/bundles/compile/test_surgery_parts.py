"""Graphs that were parted: the parts together compute what the whole does, to the last bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from tokenizers import Tokenizer

from services.asr.hearing.whisper import Whisper
from tests.bundles.compile.float_graphs import FloatGraphs
from tests.bundles.compile.graph_runs import GraphEngine, Tensors, model_of
from tests.bundles.compile.speech import sound
from tests.parity import Parity
from visavis.bundles.compile.surgery.passes import apply_passes
from visavis.engine import Engine, Resident, TensorSpec, open_engine
from visavis.engine.parts import arrange
from visavis.serving.errors import EngineLoadError, PlanError

STEPS = ("decoder-first", "decoder-next")
Parts = Callable[..., dict[str, Engine]]
SPECTRA = ("lh", "theta", "ln", "lr", "phi", "f0")


class Joined(Engine):
    """Parts behind the inputs and outputs of the whole, as they run on a GPU."""

    backend = "parts"
    keeps_tensors = True

    def __init__(self, name: str, parts: dict[str, Engine]) -> None:
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


class Compared(Joined):
    """Answers as `original` does, and notes how far `parted` is from it."""

    keeps_tensors = False

    def __init__(self, original: Engine, parted: Engine) -> None:
        Engine.__init__(self, original.model, device="cpu", threads=1)
        self._original, self._parted = original, parted
        self._specs = (dict(original.inputs), dict(original.outputs))
        self.error = 0.0
        self.runs = 0

    def _infer(self, inputs: Mapping[str, Any]) -> Tensors:
        wanted, got = self._original.infer(inputs), self._parted.infer(inputs)
        self.runs += 1
        for name, array in wanted.items():
            if array.size and name in got:  # the published decoder has empty outputs, unread
                assert got[name].shape == array.shape, name
                self.error = max(self.error, float(np.abs(got[name] - array).max()))
        return wanted


@pytest.fixture(scope="module")
def open_parts(float_graphs: FloatGraphs) -> Iterator[Parts]:
    """Plans of a bundle in 32 bits, loaded and kept for the module."""
    opened: dict[tuple[str, str], Engine] = {}
    with ExitStack() as stack:

        def parts(bundle: str, *plans: str) -> dict[str, Engine]:
            for plan in plans:
                if (bundle, plan) not in opened:
                    engine = open_engine(float_graphs.path(bundle, plan))
                    opened[bundle, plan] = stack.enter_context(engine)
            return {plan: opened[bundle, plan] for plan in plans}

        yield parts


def test_the_next_step_takes_no_sound_and_no_switch(open_parts: Parts) -> None:
    both = open_parts("moonshine-tiny-en", *STEPS)
    first, following = both["decoder-first"], both["decoder-next"]
    assert set(first.inputs) == {"input_ids", "encoder_hidden_states"}
    assert "use_cache_branch" not in following.inputs
    assert "encoder_hidden_states" not in following.inputs
    assert not [name for name in following.outputs if ".encoder." in name]


def test_whispers_first_step_needs_no_empty_cache(
    bundle: Callable[[str], Path], open_parts: Parts, parities: list[Parity]
) -> None:
    folder = bundle("whisper-base")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    made = open_parts(folder.name, *STEPS)
    joined = Joined("decoder.onnx", made)
    both = Compared(made["decoder-next"], joined)
    heard = sound("zh/funasr_asr_example")[: 3 * 16_000]
    with open_engine(folder / "encoder.onnx") as one, open_engine(folder / "decoder.onnx") as two:
        assert set(joined.inputs) == set(two.inputs)
        assert set(joined.outputs) == set(two.outputs)
        quantised = Whisper(one, two, tokenizer).transcribe(heard, "zh")
        assert Whisper(one, both, tokenizer).transcribe(heard, "zh") == quantised
    assert both.error < 1e-4
    on = f"Mandarin, {both.runs} steps"
    parities.append(
        Parity("whisper-base decoder", "drop_empty_cache", on, both.error, "same characters")
    )


def test_hibari_cut_at_its_length_regulator_is_hibari(
    bundle: Callable[[str], Path], open_parts: Parts, parities: list[Parity]
) -> None:
    folder = bundle("hibari-en")
    published = onnx.load(folder / "hibari-durations.onnx")
    # Folded first: the quantised network differs from itself, cut or not, by its own rounding.
    uncut = GraphEngine(apply_passes(published, ["fold_dynamic_quantization"]))
    ids = np.random.default_rng(3).integers(1, 170, (1, 40))
    inputs: Tensors = {"ids": ids, "speed": np.array([0.9], np.float32)}
    joined = Joined("hibari-durations.onnx", open_parts(folder.name, "text", "voice"))
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
