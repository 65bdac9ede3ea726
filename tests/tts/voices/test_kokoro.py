"""Voices of Kokoro: out of files built like the published ones, with random weights.

The published file of 32 bits could not be had while this was built, that of 8 bits could: it is cut
as well, where it is pulled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import onnx
import pytest

from services.tts.prosody import Prosody
from services.tts.sound import HOP_SAMPLES
from services.tts.synthesizer import Voice
from services.tts.voices.opening import OwnVoice, own_voices
from tests.bundles.compile.graph_runs import GraphRun, Tensors, operators
from tests.bundles.families.compiling import compile_plans
from tests.parity import Parity
from tests.tts.voices.small_kokoro import (
    FRAME_SAMPLES,
    PROSODY_WIDTH,
    TEXT_WIDTH,
    pull_kokoro,
    small_kokoro,
)
from visavis.bundles.compile.surgery.passes import apply_passes
from visavis.bundles.kokoro import cut
from visavis.engine import Engine, open_engine
from visavis.serving.errors import EngineError, ModelStoreError, PlanError, SettingsError

Pull = Callable[[str, onnx.ModelProto], str]


@pytest.fixture
def pull(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pull:
    """Pulls a bundle, named after how its styles are kept."""
    return lambda kept, model: pull_kokoro(tmp_path, monkeypatch, kept, model)


def opened(own: OwnVoice) -> tuple[list[Engine], Voice]:
    engines = [open_engine(file) for file in own.files]
    for engine in engines:
        engine.load()
    return engines, own.build(engines)


@pytest.mark.parametrize("kept", ["together", "apart"])
def test_it_speaks_with_every_phoneme_and_word_in_its_place(pull: Pull, kept: str) -> None:
    name = pull(kept, small_kokoro(fused=kept == "apart"))
    first, second = own_voices(f"{name}, {name}:am_michael")
    assert (first.info.name, first.info.gender) == ("af_heart", "female")
    assert (second.info.name, second.info.bundle, second.info.gender) == (
        "am_michael",
        name,
        "male",
    )
    assert first.files == second.files, "one network speaks with both"
    engines, voice = opened(first)
    (block,) = voice.speak("Hello, my friend.")
    for engine in engines:
        engine.close()
    assert len(block.voice) == len(block.mel) * HOP_SAMPLES
    assert [span.symbol for span in block.spans if span.symbol != "sil"] == [
        "HH", "AH0", "L", "OW1", "M", "AY0", "F", "R", "EH1", "N", "D",
    ]  # fmt: skip
    ends = [span.start_hops + span.hops for span in block.spans]
    assert [span.start_hops for span in block.spans] == [0, *ends[:-1]]
    assert [word for word, _ in block.words] == [0, 1, 2]


def test_it_repeats_itself_heeds_the_speed_and_says_long_text_in_parts(pull: Pull) -> None:
    (own,) = own_voices(pull("together", small_kokoro()))
    engines, voice = opened(own)
    first, again, slow = (
        next(voice.speak("Yes, yes.", Prosody(speed=speed))).voice for speed in (1.0, 1.0, 0.5)
    )
    assert list(voice.speak("...")) == []
    assert len(list(voice.speak("It was the best of times, it was the worst. " * 9))) > 1
    for engine in engines:
        engine.close()
    assert np.array_equal(first, again)
    assert len(slow) > 1.5 * len(first)


def test_a_voice_that_it_has_not_is_told_with_those_that_it_has(pull: Pull) -> None:
    name = pull("together", small_kokoro())
    with pytest.raises(SettingsError, match="no 'zf_xiaobei'; it has af_bella, af_heart, am_mich"):
        own_voices(f"{name}:zf_xiaobei")


def test_a_graph_that_is_built_otherwise_is_told(pull: Pull) -> None:
    other = small_kokoro()
    for node in other.graph.node:
        node.op_type = "Floor" if node.op_type == "Round" else node.op_type
    with pytest.raises(ModelStoreError, match=r"kokoro-small\.onnx has no length regulator"):
        pull("apart", other)
    with pytest.raises(PlanError, match="no single division by its windows"):
        apply_passes(cut(small_kokoro(), "it")[0], ["kokoro_voice"])


def test_sound_that_does_not_fit_its_durations_is_told(pull: Pull) -> None:
    (own,) = own_voices(pull("together", small_kokoro(trimmed=30)))
    with pytest.raises(EngineError, match=r"no graph of Kokoro 1\.0"):
        opened(own)


def spoken_apart(text: GraphRun, voice: GraphRun, inputs: Tensors) -> tuple[Tensors, int]:
    """What the halves make, repeated between them, and how many frames it is."""
    states = text(inputs)
    frames = states.pop("durations")
    repeated = {name: np.repeat(columns, frames, axis=2) for name, columns in states.items()}
    return voice({**inputs, **repeated}), int(frames.sum())


def letters(count: int) -> Tensors:
    rng = np.random.default_rng(3)
    return {
        "tokens": rng.integers(1, 170, (1, count)),
        "style": rng.uniform(-0.3, 0.3, (1, 256)).astype(np.float32),
        "speed": np.array([0.9], np.float32),
    }


@pytest.mark.parametrize("fused", [False, True])
def test_both_halves_are_the_whole(fused: bool, parities: list[Parity]) -> None:
    model = small_kokoro(fused=fused)
    text, voice = cut(model, "it")
    inputs = letters(30)
    whole = GraphRun(model)(inputs)["audio"]
    made, frames = spoken_apart(GraphRun(text), GraphRun(voice), inputs)
    assert len(made["audio"]) == frames * FRAME_SAMPLES
    assert np.array_equal(made["audio"], whole)
    compiled = apply_passes(voice, ["kokoro_voice"])
    made, _ = spoken_apart(GraphRun(text), GraphRun(compiled), inputs)
    error = float(np.abs(made["audio"] - whole).max() / np.abs(whole).max())
    assert error < 1e-5
    left = operators(text) | operators(compiled)
    assert not left & {"NonZero", "ScatterND", "Range", "FusedMatMul"}
    if not fused:
        on = "30 letters, random weights"
        parities.append(Parity("kokoro-82m", "its cut, kokoro_voice", on, error, "same durations"))


def test_the_published_graph_is_cut_at_the_same_places(bundle: Callable[[str], Path]) -> None:
    """That of 8 bits, whose places are those of the one with 32; it is not run, which is slow."""
    source = bundle("kokoro-82m-int8") / "kokoro-v1.0.int8.onnx"
    text, voice = cut(onnx.load(source), source.name)
    assert (
        widths_of(text.graph.output)
        == widths_of(voice.graph.input[1:])
        == {
            "text_states": TEXT_WIDTH,
            "prosody_states": PROSODY_WIDTH,
        }
    )
    assert [node.op_type for node in text.graph.node].count("Round") == 1
    assert "CumSum" not in operators(text), "the alignment is the host's"
    left = operators(apply_passes(voice, ["kokoro_voice"]))
    assert not left & {"NonZero", "ScatterND", "Round"}


def widths_of(tensors: Iterable[onnx.ValueInfoProto]) -> dict[str, int]:
    shapes = {tensor.name: tensor.type.tensor_type.shape.dim for tensor in tensors}
    return {name: shape[1].dim_value for name, shape in shapes.items() if len(shape) == 3}


def test_both_halves_compile_as_the_catalogue_says(pull: Pull, tmp_path: Path) -> None:
    name = pull("together", small_kokoro())
    # That of 32 bits has the same nodes, less casts.
    assert list(compile_plans(name, tmp_path / "models", "fp16")) == ["text", "voice"]
