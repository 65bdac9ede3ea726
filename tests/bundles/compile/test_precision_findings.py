"""What was measured decides what is built."""

from __future__ import annotations

from pathlib import Path

import pytest

from visavis.bundles.compile.plans import findings
from visavis.bundles.compile.plans.findings import (
    SHIPPED,
    Finding,
    findings_path,
    keep_findings,
    read_findings,
    refuse_failed,
)
from visavis.serving.errors import PlanError, PlanRefusedError


@pytest.fixture(autouse=True)
def nothing_shipped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    path = tmp_path / "shipped.json"
    monkeypatch.setattr(findings, "SHIPPED", path)
    return path


def finding(value: float, *, sha256: str = "aa", reference: float | None = None) -> Finding:
    return Finding(
        bundle="voice",
        precision="int8",
        graphs={"vocoder": sha256},
        measure="mel-cepstral distortion, dB",
        sample="8 sentences",
        reference=reference,
        value=value,
        limit=0.8,
    )


def test_what_failed_is_refused_with_its_figure_and_only_that_very_graph(tmp_path: Path) -> None:
    keep_findings(findings_path(tmp_path), [finding(1.28)])
    with pytest.raises(PlanRefusedError, match=r"voice vocoder is not built in int8: .* 1\.28"):
        refuse_failed("voice", "vocoder", "int8", "aa", tmp_path)
    refuse_failed("voice", "vocoder", "fp16", "aa", tmp_path)
    refuse_failed("voice", "decoder", "int8", "aa", tmp_path)
    refuse_failed("voice", "vocoder", "int8", "bb", tmp_path)


def test_what_visavis_brings_along_holds_where_nothing_was_measured(
    tmp_path: Path, nothing_shipped: Path
) -> None:
    keep_findings(nothing_shipped, [finding(1.28)])
    with pytest.raises(PlanRefusedError):
        refuse_failed("voice", "vocoder", "int8", "another", tmp_path)
    keep_findings(findings_path(tmp_path), [finding(0.5, sha256="another")])
    refuse_failed("voice", "vocoder", "int8", "another", tmp_path)


def test_a_new_measurement_replaces_the_old(tmp_path: Path) -> None:
    path = findings_path(tmp_path)
    keep_findings(path, [finding(1.28)])
    keep_findings(path, [finding(0.7)])
    assert [kept.value for kept in read_findings(path)] == [0.7]


def test_the_limit_is_of_the_difference() -> None:
    assert finding(5.7, reference=5.0).passed
    assert not finding(5.9, reference=5.0).passed
    assert finding(4.0, reference=5.0).worse_by == -1.0
    assert finding(0.8).passed


def test_damaged_findings_are_none(tmp_path: Path) -> None:
    findings_path(tmp_path).write_text("{", "utf-8")
    assert read_findings(findings_path(tmp_path)) == []
    keep_findings(findings_path(tmp_path), [finding(0.7)])
    assert len(read_findings(findings_path(tmp_path))) == 1


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PlanError, match="cannot be written"):
        keep_findings(tmp_path / "file" / "quality.json", [finding(0.7)])


def test_every_shipped_finding_can_be_read_and_tells_a_figure() -> None:
    shipped = read_findings(SHIPPED)
    assert {f.bundle for f in shipped} >= {"hibari-en", "audio-to-face", "moonshine-tiny-en"}
    assert all(len(digest) == 64 for f in shipped for digest in f.graphs.values())
