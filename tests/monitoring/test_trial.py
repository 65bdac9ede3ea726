"""What the trials on a running stack stand on: shortened rules, and drawings of what was asked."""

import json
import re
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import pytest
import yaml

from deploy.monitoring.check_panels import measured
from deploy.monitoring.dashboards.panels import PER_SECOND
from deploy.monitoring.trial.drawing import Box, Drawn, Line, Span, panel, told, width_of
from deploy.monitoring.trial.faults import FAULTS
from deploy.monitoring.trial.pictures import with_palette
from deploy.monitoring.trial.prometheus import configuration
from deploy.monitoring.trial.scaled import scaled_duration, scaled_rules
from tests.monitoring.test_alerts import promtool, pytestmark
from tests.monitoring.test_lists import all_rules

SPAN = Span(0.0, 100.0, 5.0)
__all__ = ["pytestmark"]


def scaled(time_scale: float) -> list[dict[str, object]]:
    groups = yaml.safe_load(scaled_rules(time_scale))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_shortened_rules_differ_in_nothing_but_their_times() -> None:
    def timeless(text: object) -> str:
        return re.sub(r"(\[|offset )\d+(ms|[smhd])\b", r"\1T", str(text))

    short, rules = scaled(1 / 20), all_rules()
    assert [timeless(r["expr"]) for r in short] == [timeless(r["expr"]) for r in rules]
    keys = ("record", "alert", "labels", "annotations")
    assert [[r.get(key) for key in keys] for r in short] == [
        [r.get(key) for key in keys] for r in rules
    ]
    page = next(r for r in short if r.get("alert") == "TurnsFail")
    assert "[180000ms]" in str(page["expr"]) and "[1h]" not in str(page["expr"])
    down = next(r for r in short if r.get("alert") == "ProcessDown")
    assert down["for"] == scaled_duration("2m", 1 / 20) == "6000ms"


def test_prometheus_takes_shortened_rules_and_the_configuration(tmp_path: Path) -> None:
    rules, config = tmp_path / "rules.json", tmp_path / "prometheus.json"
    rules.write_text(scaled_rules(1 / 20), encoding="utf-8")
    config.write_text(configuration("http://127.0.0.1:8080", 9090, str(rules), 1 / 20), "utf-8")
    assert promtool("check", "config", config) == ""


def test_what_an_alert_measures_is_asked_for_without_its_thresholds(tmp_path: Path) -> None:
    known = {str(r["alert"]): str(r["expr"]) for r in all_rules() if "alert" in r}
    assert measured(known["ProcessDown"]).split() == ['up{job="visavis"}']
    assert not any(re.search(r"(?<![=!<>~])[<>]|==", measured(e)) for e in known.values())
    rules = [
        {"record": "x:y:z", "labels": {"number": str(number)}, "expr": measured(expression)}
        for number, expression in enumerate(known.values())
    ]
    file = tmp_path / "measured.yml"
    file.write_text(json.dumps({"groups": [{"name": "measured", "rules": rules}]}), "utf-8")
    assert promtool("check", "rules", file) == ""


def test_faults_expect_alerts_that_there_are() -> None:
    alerts = {(r["alert"], dict(r["labels"])["severity"]) for r in all_rules() if "alert" in r}  # type: ignore[call-overload]
    expected = {tuple(alert.split()) for fault in FAULTS for alert in fault.fires | fault.may}
    assert expected <= alerts
    assert len({alert for alert, _ in expected}) >= 5


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0.0, "s", "0 s"),
        (0.0125, "s", "12.5 ms"),
        (2e-5, "s", "20 µs"),
        (300.0, "s", "5 min"),
        (0.987, "percentunit", "98.7%"),
        (3 * 1024**2, "bytes", "3 MiB"),
        (12_300, "short", "12.3 K"),
        (0.04, PER_SECOND, "0.04 /s"),
        (12_300, PER_SECOND, "12.3 K /s"),
        (65_400, "Bps", "65.4 kB/s"),
    ],
)
def test_values_are_written_in_their_units(value: float, unit: str, shown: str) -> None:
    assert told(value, unit) == shown


def test_a_gap_in_the_values_is_a_gap_in_the_line() -> None:
    points = [(0.0, 1.0), (5.0, 2.0), (50.0, 1.0), (55.0, 3.0)]
    steps = [{"color": "green", "value": None}, {"color": "red", "value": 2.5}]
    drawn = Drawn("A <title>", "s", [Line("P95 & more", points)], figure=False, steps=steps)
    svg = panel(drawn, Box(0, 0, 400, 200), SPAN)
    assert svg.count("<polyline") == 2 and "A &lt;title&gt;" in svg and "P95 &amp; more" in svg
    assert svg.count("stroke-dasharray") == 1


def test_what_is_always_below_zero_stays_within_its_panel() -> None:
    drawn = Drawn("Slack", "percentunit", [Line("asr", [(0.0, -0.8), (5.0, -0.4)])], False, [])
    svg = panel(drawn, Box(0, 0, 400, 200), SPAN)
    [filled] = re.findall(r'<polygon points="([^"]+)"', svg)
    heights = [float(point.split(",")[1]) for point in filled.split()]
    assert min(heights) > 0 and max(heights) < 200 and ">0%<" in svg


def test_no_time_stands_beyond_its_panel() -> None:
    points = [(1000.0, 1.0), (1100.0, 2.0)]
    drawn = Drawn("Wide", "short", [Line("lost", points)], figure=False, steps=[])
    svg = panel(drawn, Box(0, 0, 800, 200), Span(1000.0, 1100.0, 5.0))
    times = re.findall(r'<text x="([\d.]+)"[^>]*>(\d\d:\d\d:\d\d)</text>', svg)
    assert len(times) > 3
    assert all(float(x) + width_of(when, 11) / 2 <= 800 for x, when in times)
    places = [float(x) for x, _ in times]
    assert all(b - a > width_of("00:00:00", 11) for a, b in pairwise(places))


def test_a_panel_without_data_says_so() -> None:
    svg = panel(Drawn("GPU", "watt", [], False, [], why="no GPU"), Box(0, 0, 300, 200), SPAN)
    assert "No data" in svg and "no GPU" in svg


def test_a_long_reason_is_told_to_its_end() -> None:
    why = "nothing of the kind has happened: its series begins with the first"
    svg = panel(Drawn("Closed", "short", [], False, [], why=why), Box(0, 0, 230, 192), SPAN)
    shown = re.findall(r">([^<>]+)</text>", svg)
    assert " ".join(shown).endswith(why) and len(shown) > 3


@pytest.mark.parametrize(
    ("words", "measured_px"),
    [
        ("fastspeech2-mbmelgan-zh/decoder onnxruntime cpu", 305.8),
        ("WWW MMM mmm", 104.8),
        ("asr: P95", 46.7),
    ],
)
def test_a_text_is_thought_no_narrower_than_chromium_draws_it(
    words: str, measured_px: float
) -> None:
    """Else names of a legend stand upon each other. Measured in DejaVu Sans of 11.5 pixels."""
    assert measured_px <= width_of(words) <= 1.15 * measured_px


def test_a_picture_of_few_colours_is_kept_as_it_is() -> None:
    picture = np.zeros((40, 60, 3), np.uint8)
    picture[5:20, 10:50] = (242, 73, 92)
    picture[25:30] = (115, 191, 105)
    png = np.frombuffer(with_palette(picture), np.uint8)
    assert np.array_equal(cv2.imdecode(png, cv2.IMREAD_COLOR)[:, :, ::-1], picture)
