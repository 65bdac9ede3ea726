"""Voices of Kokoro: out of files built like the published ones, with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from services.tts.prosody import Prosody
from services.tts.sound import HOP_SAMPLES
from services.tts.synthesizer import Voice
from services.tts.voices.opening import OwnVoice, own_voices
from tests.models.conftest import file_of, to_toml
from visavis.bundles.store.puller import pull
from visavis.engine import Engine, open_engine
from visavis.serving.errors import EngineError, ModelStoreError, SettingsError

VOICES = ("af_bella", "af_heart", "am_michael", "zf_xiaobei")
SYMBOLS, FRAME_SAMPLES = 178, 600


def small_kokoro(*, frame_samples: int = FRAME_SAMPLES) -> onnx.ModelProto:
    """Inputs, outputs and rounding of the published graph; a tone in the place of its decoder."""
    rng = np.random.default_rng(0)
    weights = {
        "table": rng.uniform(1.5, 6.0, (SYMBOLS,)).astype(np.float32),
        "one": np.float32(1),
        "zero": np.int64(0),
        "step": np.int64(1),
        "frame": np.int64(frame_samples),
        "pace": np.float32(0.07),
        "axis": np.array([0], np.int64),
    }
    node = helper.make_node
    nodes = [
        node("Gather", ["table", "tokens"], ["long"]),
        node("Div", ["long", "speed"], ["length"]),
        node("Round", ["length"], ["rounded"]),
        node("Clip", ["rounded", "one"], ["clipped"]),
        node("Cast", ["clipped"], ["whole"], to=TensorProto.INT64),
        node("Gather", ["whole", "zero"], ["frames"]),
        node("CumSum", ["frames", "zero"], ["ends"]),
        node("ReduceMax", ["ends"], ["total"], keepdims=0),
        node("Mul", ["total", "frame"], ["samples"]),
        node("Range", ["zero", "samples", "step"], ["clock"]),
        node("Cast", ["clock"], ["time"], to=TensorProto.FLOAT),
        node("Mul", ["time", "pace"], ["phase"]),
        node("Sin", ["phase"], ["tone"]),
        node("ReduceMax", ["style"], ["loudness"], keepdims=0),
        node("Mul", ["tone", "loudness"], ["audio"]),
    ]
    inputs = [
        helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, "sequence_length"]),
        helper.make_tensor_value_info("style", TensorProto.FLOAT, [1, 256]),
        helper.make_tensor_value_info("speed", TensorProto.FLOAT, [1]),
    ]
    outputs = [helper.make_tensor_value_info("audio", TensorProto.FLOAT, ["audio_length"])]
    constants = [numpy_helper.from_array(np.asarray(v), name) for name, v in weights.items()]
    graph = helper.make_graph(nodes, "kokoro", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Pulls a bundle, named after how its styles are kept."""

    def pulled(kept: str, model: onnx.ModelProto) -> str:
        source, catalogue = tmp_path / "source", tmp_path / "catalogue"
        for folder in (source, catalogue):
            folder.mkdir(exist_ok=True)
        (source / "kokoro-small.onnx").write_bytes(model.SerializeToString())
        files = ["kokoro-small.onnx"]
        rng = np.random.default_rng(1)
        styles = {v: rng.uniform(0.1, 0.3, (510, 1, 256)).astype(np.float32) for v in VOICES}
        if kept == "together":
            with (source / "voices-v1.0.bin").open("wb") as archive:
                np.savez(archive, allow_pickle=False, **styles)
            files.append("voices-v1.0.bin")
        else:
            for voice, rows in styles.items():
                rows.tofile(source / f"{voice}.bin")
                files.append(f"voices/{voice}.bin")
        table = {
            "name": kept,
            "version": "1",
            "task": "tts",
            "family": "kokoro",
            "summary": "random",
            "languages": ["en"],
            "licence": "none",
            "files": [
                file_of(
                    name,
                    (source / Path(name).name).read_bytes(),
                    {"kind": "file", "location": str(source / Path(name).name)},
                )
                for name in files
            ],
            "prepare": [
                {"name": "kokoro", "inputs": files, "outputs": ["durations.onnx", "styles.npz"]}
            ],
        }
        (catalogue / f"{kept}.toml").write_text(to_toml(table), encoding="utf-8")
        monkeypatch.setenv("VISAVIS_CATALOG_DIR", str(catalogue))
        monkeypatch.setenv("VISAVIS_MODEL_DIR", str(tmp_path / "models"))
        pull([kept])
        return kept

    return pulled


def opened(own: OwnVoice) -> tuple[Engine, Voice]:
    engine = open_engine(own.files[0])
    engine.load()
    return engine, own.build([engine])


@pytest.mark.parametrize("kept", ["together", "apart"])
def test_it_speaks_with_every_phoneme_and_word_in_its_place(bundle: Any, kept: str) -> None:
    name = bundle(kept, small_kokoro())
    first, second = own_voices(f"{name}, {name}:am_michael")
    assert (first.info.name, first.info.gender) == ("af_heart", "female")
    assert (second.info.name, second.info.bundle, second.info.gender) == (
        "am_michael",
        name,
        "male",
    )
    assert first.files == second.files, "one network speaks with both"
    engine, voice = opened(first)
    with engine:
        (block,) = voice.speak("Hello, my friend.")
        (again,) = voice.speak("Hello, my friend.")
        (slow,) = voice.speak("Hello, my friend.", Prosody(speed=0.5))
        assert list(voice.speak("...")) == []
        parts = list(voice.speak("It was the best of times, it was the worst of times. " * 12))
    assert np.array_equal(block.voice, again.voice)
    assert len(slow.voice) > 1.5 * len(block.voice)
    assert len(block.voice) == len(block.mel) * HOP_SAMPLES
    assert [span.symbol for span in block.spans if span.symbol != "sil"] == [
        "HH", "AH0", "L", "OW1", "M", "AY0", "F", "R", "EH1", "N", "D",
    ]  # fmt: skip
    ends = [span.start_hops + span.hops for span in block.spans]
    assert [span.start_hops for span in block.spans] == [0, *ends[:-1]]
    assert [word for word, _ in block.words] == [0, 1, 2]
    assert len(parts) > 1


def test_a_voice_that_it_has_not_is_told_with_those_that_it_has(bundle: Any) -> None:
    name = bundle("together", small_kokoro())
    with pytest.raises(SettingsError, match="no 'zf_xiaobei'; it has af_bella, af_heart, am_mich"):
        own_voices(f"{name}:zf_xiaobei")


def test_a_graph_that_is_built_otherwise_is_told(bundle: Any) -> None:
    other = small_kokoro()
    for node in other.graph.node:
        node.op_type = "Floor" if node.op_type == "Round" else node.op_type
    with pytest.raises(ModelStoreError, match=r"kokoro-small\.onnx has no length regulator"):
        bundle("apart", other)


def test_sound_that_does_not_fit_its_durations_is_told(bundle: Any) -> None:
    (own,) = own_voices(bundle("together", small_kokoro(frame_samples=512)))
    with pytest.raises(EngineError, match=r"no graph of Kokoro 1\.0"):
        opened(own)
