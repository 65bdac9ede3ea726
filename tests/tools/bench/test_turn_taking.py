"""What the events of one clip amount to."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from training.turn_taking.make_clips import write_opus
from visavis.serving.errors import InvalidInputError
from visavis.tools.bench.figures.reliability import draw_reliability, reliability
from visavis.tools.bench.turns import (
    LABELS,
    TurnClip,
    Verdict,
    load_turn_clips,
    outcome_of,
    precision_and_recall,
    retracted,
    write_labels,
)
from visavis.wire.media import Place, TranscriptChunk
from visavis.wire.media import TranscriptEvent as Event

TURNS = Path(__file__).parents[2] / "turns"
CLIP = TurnClip(
    Path("one.opus"),
    "en",
    "unfinished",
    "synthetic",
    "I want tea and milk",
    speech_start=4_800,
    turn_end=48_000,
    pauses=((20_000, 32_000),),
    half="test",
)


def chunk(event: Event, at: int, text: str = "", stable: int = 0, **more: float) -> TranscriptChunk:
    probability, end = more.get("p", 0.0), int(more.get("end", 0))
    place, took_ms = Place("", 0, 0, at), more.get("ms", 0.0)
    return TranscriptChunk(
        place, event, 1, text, "en", probability, (), end, stable, compute_ms=took_ms
    )


END = chunk(Event.FINAL, 52_000, "Milk.", p=0.9, end=48_100)


@pytest.mark.parametrize(
    ("partial", "known_s"),
    [("I want tea and milk", 0.15), ("i want tea and milk?", 0.15), ("I want tea and", None)],
)
def test_how_long_before_the_pause_all_words_were_known(
    partial: str, known_s: float | None
) -> None:
    found = outcome_of(
        CLIP,
        [
            chunk(Event.PARTIAL, 40_000, "I want tea"),
            chunk(Event.PARTIAL, 46_400, partial, ms=50),
            chunk(Event.PAUSED, 49_600, "I want tea and milk.", p=0.9, end=48_100),
            chunk(Event.FINAL, 51_200, "I want tea and milk.", p=0.9, end=48_100),
        ],
    )
    assert found.known_before_s == (None if known_s is None else pytest.approx(known_s))


def test_a_turn_that_is_heard_to_its_end() -> None:
    found = outcome_of(
        CLIP,
        [
            chunk(Event.SPEECH_STARTED, 5_000),
            chunk(Event.PARTIAL, 9_600, "I want", 1, ms=20),
            chunk(Event.PAUSED, 21_000, "I want tea and", p=0.2, end=20_100, ms=30),
            chunk(Event.PARTIAL, 33_000, "I want tea and"),
            chunk(Event.PAUSED, 49_600, "I want tea and milk.", p=0.9, end=48_100, ms=200),
            chunk(Event.FINAL, 51_200, "I want tea and milk.", p=0.9, end=48_100),
        ],
    )
    assert found.cut_offs == ()
    took = (found.end_of_turn_s, found.paused_s, found.first_text_s)
    assert took == pytest.approx((0.2, 0.1, 0.3))
    with_compute = (found.end_of_turn_with_compute_s, found.paused_with_compute_s)
    assert with_compute == pytest.approx((0.3, 0.3))
    assert found.first_text_with_compute_s == pytest.approx(0.32)
    assert found.verdicts == (Verdict(False, pytest.approx(0.2)), Verdict(True, pytest.approx(0.9)))
    assert found.word_errors == 0
    json.dumps(found.to_dict())


def test_a_turn_that_is_cut_off() -> None:
    first = chunk(Event.FINAL, 26_000, "I want tea and.")
    found = outcome_of(CLIP, [first, chunk(Event.FINAL, 52_000, "Milk.")])
    assert found.cut_offs == ("I want tea and.",)
    assert found.end_of_turn_s == pytest.approx(0.25)
    assert found.word_errors == 0
    lost = outcome_of(CLIP, [first])
    assert lost.end_of_turn_s is None
    assert outcome_of(CLIP, []).cut_offs == ()


def test_what_was_called_stable_and_changed_is_counted() -> None:
    assert retracted([chunk(Event.PARTIAL, 1, "abcd", 2), chunk(Event.FINAL, 2, "abx")]) == 0
    assert retracted([chunk(Event.PARTIAL, 1, "abcd", 3), chunk(Event.FINAL, 2, "abx")]) == 1
    assert retracted([chunk(Event.PARTIAL, 1, "abcd", 4), chunk(Event.PAUSED, 2, "ab")]) == 2


def test_precision_and_recall() -> None:
    verdicts = [Verdict(True, 0.9), Verdict(True, 0.1), Verdict(False, 0.8), Verdict(False, 0.2)]
    assert precision_and_recall(verdicts) == (0.5, 0.5)
    assert precision_and_recall([]) == (None, None)


def test_a_labelled_set_is_read(tmp_path: Path) -> None:
    write_opus(tmp_path / "a.opus", np.zeros(16_000, np.float32))
    label = {
        "file": "a.opus", "language": "en", "category": "short", "origin": "synthetic",
        "text": "Yes.", "speech_start": 4_800, "turn_end": 9_600, "pauses": [], "half": "tune",
    }  # fmt: skip
    (tmp_path / "labels.jsonl").write_text(json.dumps(label) + "\n", "utf-8")
    (clip,) = load_turn_clips(tmp_path)
    assert 16_000 + 2 * 16_000 - 400 < len(clip.sound()) < 16_000 + 2 * 16_000 + 400
    with pytest.raises(InvalidInputError, match="half"):
        load_turn_clips(tmp_path, half="test")
    (tmp_path / "labels.jsonl").write_text('{"file": "a.opus"}', "utf-8")
    with pytest.raises(InvalidInputError, match=r"labels\.jsonl:1"):
        load_turn_clips(tmp_path)
    with pytest.raises(InvalidInputError, match="tests/turns"):
        load_turn_clips(tmp_path / "nowhere")


def test_our_own_set_is_whole_and_written_as_it_is_read(tmp_path: Path) -> None:
    clips = load_turn_clips(TURNS)
    write_labels(tmp_path, clips)
    assert (tmp_path / LABELS).read_text("utf-8") == (TURNS / LABELS).read_text("utf-8")
    assert len(clips) >= 60
    assert {c.language for c in clips} == {"en", "zh"}
    assert {c.category for c in clips} == {"short", "finished", "unfinished", "hesitant"}
    assert {c.origin for c in clips} == {"recorded", "synthetic"}
    for clip in clips:
        assert clip.path.is_file()
        assert 0 < clip.speech_start < clip.turn_end
        assert all(clip.speech_start < first < end < clip.turn_end for first, end in clip.pauses)


def test_whether_a_cut_off_would_have_been_heard() -> None:
    early = outcome_of(CLIP, [chunk(Event.FINAL, 24_000, "I want tea and."), END])
    late = outcome_of(CLIP, [chunk(Event.FINAL, 31_000, "I want tea and."), END])
    spoken_on = outcome_of(CLIP, [chunk(Event.FINAL, 40_000, "I want tea and."), END])
    assert [o.heard_cut_offs for o in (early, late, spoken_on)] == [1, 0, 1]


def test_each_pause_counts_once_with_what_was_told_of_it_last() -> None:
    paused = chunk(Event.PAUSED, 21_000, "I want tea and", p=0.4, end=20_100)
    final = chunk(Event.FINAL, 24_000, "I want tea and", p=0.7, end=20_100)
    assert outcome_of(CLIP, [paused, final, END]).judgements == (
        Verdict(False, 0.7),
        Verdict(True, 0.9),
    )


def test_probabilities_beside_what_came_true() -> None:
    told = [(0.05, False), (0.05, True), (0.95, True), (1.0, True)]
    found = reliability(told)
    assert (found.bins[0].count, found.bins[0].came_true) == (2, 0.5)
    assert (found.bins[9].count, found.bins[9].came_true) == (2, 1.0)
    assert found.bins[5].came_true is None
    assert found.calibration_error == pytest.approx((2 * 0.45 + 2 * 0.025) / 4)
    assert "came true 0.50" in draw_reliability("a set", found)
    assert reliability([]).calibration_error is None
