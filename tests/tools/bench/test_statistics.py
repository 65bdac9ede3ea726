"""Percentiles, tables, JSON and pictures of figures."""

import json
from xml.etree import ElementTree

import pytest
from rich.console import Console

from visavis.tools.bench.figures.report import Row, models_of, report, rows_of, summarise
from visavis.tools.bench.figures.tables import figures_table, written
from visavis.tools.charts import draw_spread


def test_percentiles_lie_between_neighbours_and_missing_values_are_left_out() -> None:
    found = summarise([0.1 * i for i in range(11)] + [None])
    assert found is not None and found.count == 11
    assert (found.p50, found.p90, found.p95, found.max) == pytest.approx((0.5, 0.9, 0.95, 1.0))


def rows() -> list[Row]:
    turns: list[dict[str, float | None]]
    turns = [{"wait": 0.2, "memory": 3e6}, {"wait": 0.4, "memory": None}]
    return rows_of(turns, {"wait": "s", "memory": "MB", "absent": "s"})


def test_the_report_is_json_and_names_what_was_measured() -> None:
    coder = {"model": "coder", "file": "coder-q4.gguf", "backend": "llamacpp", "device": "cpu"}
    services = [{"service": "llm", "engines": [{**coder, "detail": ""}]}] * 2
    models = models_of(services)
    result = report("latency", rows(), counts={"asked": 2}, turns=[], settings={}, models=models)
    read = json.loads(json.dumps(result))
    assert read["figures"]["wait"]["p50"] == pytest.approx(0.3)
    assert read["figures"]["memory"]["count"] == 1
    assert read["models"] == [{"service": "llm", **coder}]
    assert "absent" not in read["figures"]
    assert read["machine"]["cores"] >= 1


def test_the_table_says_what_could_not_be_measured() -> None:
    console = Console(width=120)
    with console.capture() as capture:
        console.print(figures_table("title", rows()))
    lines = capture.get().splitlines()
    assert any("wait" in line and "0.300 s" in line for line in lines)
    assert any("absent" in line and " 0 " in line and "-" in line for line in lines)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(0.3004, "s", "0.300 s"), (2.5e6, "MB", "2 MB"), (1.234, "CPU s", "1.23 s"),
     (0.125, "%", "12.5%"), (3.0, "", "3")],
)  # fmt: skip
def test_units(value: float, unit: str, text: str) -> None:
    assert written(value, unit) == text


def test_the_picture_is_drawn_to_scale() -> None:
    root = ElementTree.fromstring(draw_spread("a < b", rows()))
    bars = [e for e in root.iter() if e.tag.endswith("rect") and e.get("fill") == "#2a6f97"]
    dots = [e for e in root.iter() if e.tag.endswith("circle")]
    assert len(bars) == len(dots) == 1
    left, width = float(bars[0].attrib["x"]), float(bars[0].attrib["width"])
    # Median 0.3 of at most 0.4.
    assert width / (float(dots[0].attrib["cx"]) - left) == pytest.approx(0.75, abs=0.01)
