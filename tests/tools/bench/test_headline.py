"""What stands beside a latency, how exact it is, and where its time went."""

from __future__ import annotations

import json
import math
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from visavis.tools.bench.benchmark import Benchmark
from visavis.tools.bench.figures.hidden import (
    CERTAIN,
    LOST,
    PARTS,
    REST,
    rows_of_parts,
    where_it_went,
)
from visavis.tools.bench.figures.intervals import (
    median_interval,
    percentile_interval,
    ratio_interval,
)
from visavis.tools.bench.figures.report import machine_kind
from visavis.tools.bench.figures.turn_figures import TurnFigures, groups_of, headline, standing
from visavis.tools.bench.latency import LatencyRun, hand_out
from visavis.tools.bench.visitor.clips import GIVEN, HELD_OUT, OWN, TUNED


@pytest.mark.parametrize(
    ("count", "interval"),
    [(5, None), (6, (1, 6)), (10, (2, 9)), (40, (14, 27))],
)
def test_a_median_lies_between_two_of_the_values(
    count: int, interval: tuple[int, int] | None
) -> None:
    values = [float(value) for value in range(count, 0, -1)]
    assert median_interval(values) == interval


@pytest.mark.parametrize(
    ("count", "ranks"),
    [(1, (-math.inf, math.inf)), (18, (15, math.inf)), (58, (52, math.inf)), (59, (53, 59))],
)
def test_few_values_bound_a_p95_on_one_side_or_none(count: int, ranks: tuple[float, float]) -> None:
    values = [float(value) for value in range(count, 0, -1)]
    assert percentile_interval(values, 95, 0.1) == ranks


def test_a_ratio_is_as_exact_as_its_pairs() -> None:
    theirs = [0.8, 1.0, 1.2, 0.9, 1.1, 1.0, 1.3]
    assert ratio_interval([value / 2 for value in theirs], theirs, 50) == pytest.approx((0.5, 0.5))
    low, high = ratio_interval([0.1, 0.5, 0.9, 0.4, 0.6, 0.5, 0.7], theirs, 50) or (0.0, 0.0)
    assert 0.1 < low < 0.5 < high < 0.9
    assert ratio_interval(theirs[:5], theirs[:5], 50) is None
    with pytest.raises(ValueError, match="no pairs"):
        ratio_interval(theirs, theirs[1:], 50)


def turn(group: str = OWN, **more: Any) -> TurnFigures:
    return TurnFigures("one", "en", **{"counted": True, "group": group, "discarded": 0, **more})


def test_what_became_of_each_question_is_told() -> None:
    turns = [
        turn(),
        turn(counted=False, spoke_over=True),
        turn(counted=False, turns=2),
        turn(turns=3, taken_back=2, discarded=4),
        turn(counted=False, turns=0),
    ]
    told = standing(turns)
    assert told.to_dict() == {
        "asked": 5, "counted": 2, "cut_off": 1, "split": 1, "taken_back": 2, "discarded": 4,
    }  # fmt: skip
    assert str(told).startswith("2 of 5 counted, 1 cut off, 1 split")
    assert "in vain" not in str(standing([turn(discarded=None)]))


def test_other_people_s_speech_comes_first_and_what_was_tuned_on_never() -> None:
    groups = groups_of([turn(TUNED), turn(OWN), turn(GIVEN), turn(HELD_OUT)])
    assert list(groups) == [HELD_OUT, GIVEN, OWN, TUNED]
    assert headline(groups) == HELD_OUT
    assert headline(groups_of([turn(TUNED)])) is None


def span(stage: str, kind: str, start_ms: float, end_ms: float) -> dict[str, Any]:
    chunk = "first"
    return dict(stage=stage, kind=kind, chunk=chunk, start_ms=start_ms, end_ms=end_ms)


TIMELINE = {
    "voice_to_voice_ms": 500.0,
    "spans": [
        span("asr", "compute", 40, 90),
        span("llm", "compute", 60, 260),
        span("tts", "wait", 261, 340),
        span("tts", "compute", 340, 440),
        span("playout", "queue", 450, 500),
        span("face", "compute", 440, 470),
        {**span("tts", "compute", 440, 900), "chunk": "last"},
    ],
}


def test_each_moment_behind_the_pause_is_one_stage_s() -> None:
    went = where_it_went(TIMELINE, 0.2)
    assert went[CERTAIN] == 0.2 and went[LOST] == pytest.approx(0.3)
    assert went["recognition"] == 0
    assert went["language model, first token"] == pytest.approx(0.06)
    assert went["language model, first phrase"] == pytest.approx(0.079)
    assert went["voice, first sound"] == pytest.approx(0.1)
    assert went["waiting for the tick"] == pytest.approx(0.05)
    assert went[REST] == pytest.approx(0.011)
    assert sum(went[part] for part in (*PARTS, REST)) == pytest.approx(went[LOST])


def test_where_all_work_is_hidden_nothing_is_lost() -> None:
    went = where_it_went(TIMELINE, 0.6)
    assert went[LOST] == 0
    assert where_it_went({}, 0.2) == {} == where_it_went(TIMELINE, None)
    rows = {row.name: mean for row, mean in rows_of_parts([went, {}, where_it_went(TIMELINE, 0.2)])}
    assert rows[LOST] == pytest.approx(0.15)
    assert rows_of_parts([{}]) == []


def test_what_is_handed_out_is_headed_by_the_held_out_set(tmp_path: Path) -> None:
    went = where_it_went(TIMELINE, 0.2)
    turns = [
        turn(group, figures={"voice_to_voice": seconds}, went=went)
        for group, seconds in ((OWN, 0.25), (HELD_OUT, 0.5), (TUNED, 0.125))
    ]
    console = Console(width=200, record=True, file=StringIO())
    bench = Benchmark("latency", tmp_path / "told.json", console=console)
    hand_out(bench, LatencyRun(turns), {})
    told = console.export_text()
    assert "held out: 1 of 1 counted, 0 cut off, 0 split, 0 false ends taken back" in told
    assert machine_kind() in told and "0.125 s" not in told
    assert told.index("0.500 s") < told.index("lost against the ideal") < told.index("0.250 s")
    written = json.loads((tmp_path / "told.json").read_text("utf-8"))
    assert written["figures"]["voice_to_voice"]["p50"] == 0.5
    assert set(written["groups"]) == {HELD_OUT, OWN}
    assert written["groups"][OWN]["figures"]["voice_to_voice"]["p50"] == 0.25
    assert len(written["turns"]) == 3
