"""Committed weights can be made again: their inputs are listed, and compared before training."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from training.inputs import ROOT, inputs_of, known_inputs, verify
from visavis.bundles.store.catalogue import pullable_catalog
from visavis.serving.errors import InvalidInputError


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


def test_another_input_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    sentences, target = tmp_path / "cmn.txt", tmp_path / "weights.npz"
    with pytest.raises(InvalidInputError, match="cannot be read"):
        verify(inputs_of("finished_words"), files={"cmn.txt": sentences})
    sentences.write_text("Hi.\t嗨。\n", encoding="utf-8")
    command = [sys.executable, "-m", "training.turn_taking.finished_words"]
    done = subprocess.run(
        [*command, "--sentences", str(sentences), "--out", str(target)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "instead of 6d9734ce" in done.stderr
    assert "Traceback" not in done.stderr
    assert not target.exists()
