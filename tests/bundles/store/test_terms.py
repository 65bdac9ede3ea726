"""What is in the repository and belongs to others says under which terms."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from pathlib import Path

import onnx

from visavis.bundles.store.catalogue import pullable_catalog

ROOT = Path(__file__).parents[3]
_ROW = re.compile(r"^\| (`[^|]+`|[^|`]+\.wav) \|.*\| ([^|]+) \|$", re.MULTILINE)


def terms_in(sources: Path) -> list[tuple[str, str]]:
    """Each pattern of file names and its terms, the last column."""
    rows = _ROW.findall(sources.read_text(encoding="utf-8"))
    return [(p.strip("` "), terms) for patterns, terms in rows for p in patterns.split(", ")]


def test_every_clip_has_its_terms() -> None:
    turns = ROOT / "tests" / "turns"
    known = terms_in(turns / "SOURCES.md")
    for line in (turns / "labels.jsonl").read_text(encoding="utf-8").splitlines():
        label = json.loads(line)
        terms = [told for pattern, told in known if fnmatchcase(label["file"], pattern)]
        assert len(terms) == 1, label["file"]
        bound = label["origin"] == "synthetic" and label["language"] == "zh"
        assert ("NON-COMMERCIAL" in terms[0]) == bound, label["file"]
    clips = ROOT / "tests" / "clips"
    told = dict(terms_in(clips / "SOURCES.md"))
    assert all(told[str(path.relative_to(clips))] for path in clips.rglob("*.wav"))


def test_the_lips_network_says_that_it_learned_from_a_non_commercial_voice() -> None:
    weights = ROOT / "services" / "face" / "weights" / "audio_to_face.onnx"
    metadata = {entry.key: entry.value for entry in onnx.load(weights).metadata_props}
    manifest = pullable_catalog().manifest("audio-to-face")
    assert metadata["licence"] == manifest.licence
    for told in (metadata["training_data"], manifest.licence_note):
        assert "NON-COMMERCIAL" in told
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    assert "services/face/weights/audio_to_face.onnx" in notice


def test_the_notice_names_every_committed_weight() -> None:
    notice = (ROOT / "NOTICE").read_text(encoding="utf-8")
    for path in (ROOT / "services").glob("*/weights/*"):
        if path.suffix in (".onnx", ".npz"):
            assert str(path.relative_to(ROOT)) in notice, path
