"""Networks in floats, in parts, with tensors that stay, as ONNX Runtime runs them on a GPU.

All of it is the real thing but the place: the CPU, whose memory stands for the device's.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from services.asr.hearing.moonshine import Moonshine
from tests.asr.hearing.test_transcripts import sound
from tests.bundles.compile.float_graphs import FloatGraphs
from visavis.bundles.store import recipes_of
from visavis.engine import Engine, EngineOptions, open_engine
from visavis.engine.onnxruntime import FloatsEngine, OrtTensor, in_groups
from visavis.serving.errors import InvalidInputError

Bundle = Callable[[str], Path]
Open = Callable[[str, str], Engine]


@pytest.fixture
def open_floats(bundle: Bundle, float_graphs: FloatGraphs) -> Open:
    """A file of a bundle by the parts of its plans."""

    def floats(model: Path) -> dict[str, Callable[[Path], bytes]]:
        name = model.parent.name
        recipes = [recipe for recipe in recipes_of(name) if recipe.graph == model.name]
        files = {recipe.name: float_graphs.path(name, recipe.name) for recipe in recipes}
        return {plan: lambda _, file=file: file.read_bytes() for plan, file in files.items()}

    def open_file(name: str, file: str) -> Engine:
        options = EngineOptions(floats=floats)
        return FloatsEngine(bundle(name) / file, device="cpu", threads=1, options=options)

    return open_file


def test_moonshine_writes_the_same_with_a_cache_that_stays(
    bundle: Bundle, open_floats: Open
) -> None:
    folder = bundle("moonshine-tiny-en")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    speech = sound("jfk")[:20_000]
    with (
        open_engine(folder / "encoder.onnx") as encoder,
        open_engine(folder / "decoder.onnx") as whole,
        open_floats(folder.name, "encoder.onnx") as masked,
        open_floats(folder.name, "decoder.onnx") as parts,
    ):
        expected = Moonshine(encoder, whole, tokenizer).transcribe(speech)
        recogniser = Moonshine(masked, parts, tokenizer)
        assert recogniser.transcribe(speech).text == expected.text != ""
        states = masked.infer_resident(
            {"input_values": speech[None], "lengths": np.array([[len(speech)]])},
            ["last_hidden_state"],
        )["last_hidden_state"]
        assert isinstance(states, OrtTensor)
        assert states.shape[0] == 1 and np.abs(states.to_host()).max() > 0


def test_a_part_with_gaps_is_refused(open_floats: Open) -> None:
    with open_floats("fastspeech2-mbmelgan-zh", "encoder.onnx") as engine:
        ids = np.array([[1, 2, 3, 4]], np.int32)
        given = {name: ids.astype(spec.dtype) for name, spec in engine.inputs.items()}
        (name,) = list(engine.outputs)[:1]
        made = engine.infer_resident(given, [name])[name]
        assert isinstance(made, OrtTensor)
        np.testing.assert_array_equal(made[:, 1:3].to_host(), made.to_host()[:, 1:3])
        with pytest.raises(InvalidInputError, match="gaps"):
            made[:, ::2]


def test_a_gpu_is_told_which_networks_have_convolutions_in_groups(
    float_graphs: FloatGraphs,
) -> None:
    told = {
        plan: in_groups(float_graphs.path(name, plan).read_bytes())
        for name, plan in (("hibari-en", "voice"), ("fastspeech2-mbmelgan-zh", "vocoder"))
    }
    assert told == {"voice": True, "vocoder": False}


def test_a_model_without_plans_is_run_as_it_is(bundle: Bundle) -> None:
    published = bundle("silero-vad") / "silero_vad.onnx"
    options = EngineOptions(floats=lambda model: {})
    with FloatsEngine(published, device="cpu", threads=1, options=options) as engine:
        assert set(engine.inputs) == {"input", "state", "sr"}
