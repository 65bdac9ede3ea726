"""What the trials on a running stack stand on: shortened rules, and drawings of what was asked."""

import json
import re
from pathlib import Path

import yaml

from deploy.monitoring.check_panels import measured
from deploy.monitoring.trial.drawing import Box, Drawn, Line, Span, panel
from deploy.monitoring.trial.faults import FAULTS
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


def test_a_gap_in_the_values_is_a_gap_in_the_line() -> None:
    points = [(0.0, 1.0), (5.0, 2.0), (50.0, 1.0), (55.0, 3.0)]
    steps = [{"color": "green", "value": None}, {"color": "red", "value": 2.5}]
    drawn = Drawn("A <title>", "s", [Line("P95 & more", points)], figure=False, steps=steps)
    svg = panel(drawn, Box(0, 0, 400, 200), SPAN)
    assert svg.count("<polyline") == 2 and "A &lt;title&gt;" in svg and "P95 &amp; more" in svg
    assert svg.count("stroke-dasharray") == 1
