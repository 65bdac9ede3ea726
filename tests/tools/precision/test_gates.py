"""The gates on the product's own networks, and the plans put together again for them."""

from __future__ import annotations

import json
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.bundles.compile.float_graphs import FloatGraphs
from tests.parity import Parity
from visavis.bundles.compile.plans.findings import findings_path, read_findings
from visavis.bundles.compile.precision.calibration import Tensors, run_float
from visavis.bundles.store import bundle_path, recipes_of
from visavis.engine import open_engine
from visavis.serving.errors import InvalidInputError, PlanError
from visavis.tools.cli.main import app
from visavis.tools.precision.assembled import assembled
from visavis.tools.precision.gates import Gates, Graphs, variant_model_dir
from visavis.tools.precision.spoken import recordings

Bundles = Callable[[str], Path]


def graphs_of(name: str, made: FloatGraphs) -> Graphs:
    return {recipe.name: made.load(name, recipe.name) for recipe in recipes_of(name)}


def test_hibari_in_one_piece_speaks_like_the_published_graph(
    bundle: Bundles, float_graphs: FloatGraphs
) -> None:
    folder = bundle("hibari-en")
    (whole,) = assembled("hibari-en", graphs_of("hibari-en", float_graphs)).values()
    ids = np.array([[0, 50, 83, 54, 156, 57, 135, 0]], np.int64)
    inputs: Tensors = {"ids": ids, "speed": np.ones(1, np.float32)}
    (out,) = run_float(whole, [inputs])
    with open_engine(folder / "hibari-durations.onnx") as engine:
        published = engine.infer(inputs)
    assert set(out) == set(published)
    assert out["durations"].tolist() == np.asarray(published["durations"]).tolist()
    for name, values in out.items():
        other = np.asarray(published[name])
        assert values.shape == other.shape
        assert np.corrcoef(values.ravel(), other.ravel())[0, 1] > 0.99


def test_moonshine_in_one_piece_decodes_like_the_published_graph(
    bundle: Bundles, float_graphs: FloatGraphs, parities: list[Parity]
) -> None:
    folder = bundle("moonshine-tiny-en")
    files = assembled("moonshine-tiny-en", graphs_of("moonshine-tiny-en", float_graphs))
    hidden = np.random.default_rng(2).normal(size=(1, 40, 288)).astype(np.float32)
    with open_engine(folder / "decoder.onnx") as engine:
        step = {
            name: np.zeros([1, *(s or 0 for s in spec.shape[1:])], np.float32)
            for name, spec in engine.inputs.items()
            if name.startswith("past")
        }
        step |= {"encoder_hidden_states": hidden, "input_ids": np.array([[1]], np.int64)}
        step["use_cache_branch"] = np.array([False])
        first = engine.infer(step)
        later = step | {
            n: first[n.replace("past_key_values", "present")] for n in step if "past" in n
        }
        later |= {"use_cache_branch": np.array([True]), "input_ids": np.array([[37]], np.int64)}
        second = engine.infer(later)
    got = list(run_float(files["decoder.onnx"], [step, later]))
    pairs = zip((first, second), got, strict=True)
    error = max(float(np.abs(np.asarray(a["logits"]) - b["logits"]).max()) for a, b in pairs)
    change = "moonshine_first_step, moonshine_next_step"
    parities.append(Parity("moonshine-tiny-en decoder", change, "noise, 2 steps", error))
    assert error < 1e-3


def test_a_variant_passes_for_the_bundle_and_leaves_it_alone(
    bundle: Bundles, float_graphs: FloatGraphs
) -> None:
    folder = bundle("hibari-en")
    before = (folder / "hibari-durations.onnx").stat()
    (whole,) = graphs_of("audio-to-face", float_graphs).values()
    with variant_model_dir(folder, {"hibari-durations.onnx": whole}) as model_dir:
        variant = bundle_path("hibari-en", model_dir)
        assert (variant / "hibari-durations.onnx").stat().st_size != before.st_size
        assert (variant / "hibari.onnx").is_symlink()
        assert bundle_path("silero-vad", model_dir).is_dir()
    assert not model_dir.exists()
    assert (folder / "hibari-durations.onnx").stat() == before


def test_a_bundle_without_a_gate_or_of_unknown_parts_is_told() -> None:
    with pytest.raises(PlanError, match="no quality gate for silero-vad"):
        list(Gates(None, None, lambda _: None).measure("silero-vad", ("fp16",)))
    with pytest.raises(PlanError, match="plans of smart-turn belong together"):
        assembled("smart-turn", {})


def test_the_command_measures_prints_and_keeps(tmp_path: Path, bundle: Bundles) -> None:
    bundle("audio-to-face")
    record = tmp_path / "record.json"
    told = ["--plan-dir", str(tmp_path), "--record", str(record)]
    command = ["engine", "quality", "audio-to-face", *told]
    result = CliRunner().invoke(app, command, env={"COLUMNS": "250"})
    assert result.exit_code == 0, result.output
    assert "2 passed, 0 failed" in result.output
    kept = read_findings(findings_path(tmp_path))
    assert [finding.precision for finding in kept] == ["fp16", "int8"]
    assert json.loads(record.read_text())["findings"][1]["limit"] == 0.5
    assert all(finding.reference is not None for finding in kept)


def test_recordings_come_with_what_was_said(tmp_path: Path) -> None:
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes(np.arange(80, dtype="<i2").tobytes())
    with pytest.raises(InvalidInputError, match=r"a\.wav"):
        recordings(tmp_path, "en")
    (tmp_path / "a.txt").write_text("hello\n", "utf-8")
    (speech,) = recordings(tmp_path, "en")
    assert (speech.text, speech.sample_rate_hz, len(speech.pcm)) == ("hello", 8000, 80)
    assert recordings(tmp_path, "zh") == []
