"""Committed weights can be made again: their inputs are listed, and compared before training."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from training.inputs import ROOT, known_inputs
from training.turn_taking import finished_words
from visavis.bundles.store.catalogue import pullable_catalog


def test_every_committed_weight_has_its_inputs_and_its_command() -> None:
    known = known_inputs().values()
    committed = [
        path for path in (ROOT / "services").glob("*/weights/*") if path.suffix in (".onnx", ".npz")
    ]
    assert {inputs.weights for inputs in known} == {str(p.relative_to(ROOT)) for p in committed}
    for inputs in known:
        content = (ROOT / inputs.weights).read_bytes()
        assert hashlib.sha256(content).hexdigest() == inputs.sha256, inputs.weights
        assert inputs.command.startswith("python -m training.")
        assert inputs.files or inputs.bundles


def test_the_bundles_that_were_trained_on_are_those_of_the_catalogue() -> None:
    for inputs in known_inputs().values():
        for bundle, digests in inputs.bundles.items():
            files = pullable_catalog().manifest(bundle).files
            assert digests == {file.path: file.sha256 for file in files}


def test_another_input_is_refused_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentences, target = tmp_path / "cmn.txt", tmp_path / "weights.npz"
    command = ["finished_words", "--sentences", str(sentences), "--out", str(target)]
    monkeypatch.setattr("sys.argv", command)
    with pytest.raises(SystemExit, match=r"training: .*cannot be read"):
        finished_words.main()
    sentences.write_text("Hi.\t嗨。\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="instead of 6d9734ce"):
        finished_words.main()
    assert not target.exists()
