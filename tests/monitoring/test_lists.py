"""Metrics, dashboards and rules know each other, and what is written from code is fresh."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from deploy.monitoring import catalogue, objectives
from deploy.monitoring.catalogue import ROOT, every_metric, series_in
from tests.test_repository import PRODUCT, imported

MONITORING = ROOT / "deploy" / "monitoring"
DASHBOARDS = sorted((MONITORING / "grafana" / "dashboards").glob("*.json"))
# Of Prometheus itself and of its client library; and of NVIDIA's DCGM exporter.
OTHERS = {
    "up",
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
}
DCGM = "DCGM_FI_DEV_"


def all_rules() -> list[dict[str, object]]:
    files = sorted((MONITORING / "rules").glob("*.yml"))
    groups = [g for f in files for g in yaml.safe_load(f.read_text("utf-8"))["groups"]]
    return [rule for group in groups for rule in group["rules"]]


def queries() -> dict[str, list[str]]:
    """What each panel asks, by dashboard and title."""
    found = {}
    for file in DASHBOARDS:
        for panel in json.loads(file.read_text("utf-8"))["panels"]:
            if panel["type"] != "row":
                name = f"{file.stem}: {panel['title']}"
                assert name not in found, f"{name}: twice"
                found[name] = [target["expr"] for target in panel["targets"]]
    return found


def asked(expressions: list[str]) -> set[str]:
    return {name for expression in expressions for name in series_in(expression)}


@pytest.mark.parametrize(
    ("file", "made", "by"),
    [
        (catalogue.PAGE, catalogue.page, "catalogue"),
        (objectives.RULES, objectives.rules, "objectives"),
    ],
)
def test_what_is_written_from_code_is_fresh(file: Path, made: Callable[[], str], by: str) -> None:
    assert file.read_text("utf-8") == made(), f"run `python -m deploy.monitoring.{by}`"


def test_the_dashboards_are_fresh() -> None:
    pytest.importorskip("grafana_foundation_sdk", reason="no Grafana SDK: make test installs it")
    from deploy.monitoring.dashboards.__main__ import BOARDS

    made = {f"{board.name}.json": board.json() for board in BOARDS}
    kept = {file.name: file.read_text("utf-8") for file in DASHBOARDS}
    assert made == kept, "run `python -m deploy.monitoring.dashboards`"


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_panels_fill_their_rows(file: Path) -> None:
    """None stands beyond the page's 24 columns, and none stands alone."""
    places = [panel["gridPos"] for panel in json.loads(file.read_text("utf-8"))["panels"]]
    widths: dict[int, int] = {}
    for place in places:
        widths[place["y"]] = widths.get(place["y"], 0) + place["w"]
    assert set(widths.values()) == {24}


def test_metrics_are_defined_only_where_the_catalogue_looks() -> None:
    kinds = {"Counter", "Gauge", "Summary", "Info"}
    found = {
        ".".join(file.relative_to(ROOT).with_suffix("").parts)
        for folder in PRODUCT
        for file in (ROOT / folder).rglob("*.py")
        for module, names in imported(file)
        if module.startswith("prometheus_client") and kinds & set(names)
    }
    assert found == {module.__name__ for module in catalogue.MODULES}


def test_each_metric_says_what_it_is() -> None:
    for metric in every_metric():
        assert re.fullmatch(r"([A-Z0-9]|gRPC).*\.", metric.help, re.S), metric.name
        assert metric.unit, f"{metric.name}: neither its name nor COUNTED tells the unit"
        assert all(metric.values(label) for label in metric.labels), metric.name
        assert not {"session", "turn", "visitor", "id"} & set(metric.labels), metric.name
        assert list(metric.buckets) == sorted(set(metric.buckets)), metric.name


def test_no_list_of_the_catalogue_names_what_is_gone() -> None:
    metrics = {metric.name: metric for metric in every_metric()}
    assert set(catalogue.COUNTED) <= set(metrics)
    labels = {label for metric in metrics.values() for label in metric.labels}
    own = {f"{name}{{{label}}}" for name, m in metrics.items() for label in m.labels}
    assert set(catalogue.LABELS) <= labels | own


def test_every_metric_is_on_a_panel_or_in_a_rule() -> None:
    seen = asked([e for panel in queries().values() for e in panel])
    seen |= asked([str(rule["expr"]) for rule in all_rules()])
    assert [m.name for m in every_metric() if not seen & set(m.samples)] == []


def test_panels_and_rules_ask_for_what_exists() -> None:
    recorded = {str(rule["record"]) for rule in all_rules() if "record" in rule}
    known = OTHERS | recorded | {name for metric in every_metric() for name in metric.samples}
    panels = {title: asked(expressions) for title, expressions in queries().items()}
    panels |= {str(r.get("alert", r.get("record"))): asked([str(r["expr"])]) for r in all_rules()}
    unknown = {title: names - known for title, names in panels.items()}
    unknown = {t: {n for n in names if not n.startswith(DCGM)} for t, names in unknown.items()}
    assert {title: names for title, names in unknown.items() if names} == {}
    assert all(panels.values())


def test_panels_choose_by_labels_that_their_metrics_have() -> None:
    given = {"service", "instance", "instance_id", "job", "le", "Hostname", "gpu"}
    # A label of ours that Prometheus gives to the target, too, is kept under another name.
    own = {m: {f"exported_{label}" if label in given else label for label in m.labels}
           for m in every_metric()}  # fmt: skip
    labels = {sample: own[m] for m in own for sample in m.samples}
    for title, expressions in queries().items():
        for expression in expressions:
            had = set.union(given, *(labels.get(n, set()) for n in series_in(expression)))
            by = re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", expression)
            chosen = {label.strip() for group in by for label in group.split(",")}
            chosen |= set(re.findall(r"[{,]\s*(\w+)\s*(?:=|!=|=~|!~)\s*\"", expression))
            assert chosen <= had, f"{title}: {chosen - had}"


def test_every_alert_has_its_place_in_the_runbook() -> None:
    text = (ROOT / "docs" / "runbooks.md").read_text("utf-8")
    sections = re.findall(r"^## (\w+)$", text, re.M)
    alerts = {str(rule["alert"]): rule for rule in all_rules() if "alert" in rule}
    assert sorted(sections) == sorted(alerts)
    for alert, rule in alerts.items():
        annotations, labels = rule["annotations"], rule["labels"]
        assert isinstance(annotations, dict) and isinstance(labels, dict)
        anchor = f"docs/runbooks.md#{alert.lower()}"
        assert annotations["runbook_url"] == anchor and annotations["summary"]
        assert labels["severity"] in ("page", "ticket")
