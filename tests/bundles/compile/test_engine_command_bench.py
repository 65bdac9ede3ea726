"""What a benchmark computes, and what its picture shows, on an engine of known speed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.bundles.compile.compiling import rtx
from tests.bundles.compile.small_graphs import profile, recipe
from tests.bundles.compile.small_store import Engine as RunCommand
from tests.fakes import ManualClock
from tests.made_engine import MadeEngine
from visavis.bundles.compile.sources import BundlePlan
from visavis.bundles.compile.targets import PORTABLE
from visavis.engine.base import Tensors, TensorSpec
from visavis.engine.onnxruntime import OnnxRuntimeEngine
from visavis.serving.errors import InvalidInputError
from visavis.tools.charts import draw_plan_bench
from visavis.tools.cli.engine import bench as engine_bench
from visavis.tools.plan_bench import BenchRow, batched_shapes, bench_engine, dummy_inputs

RECIPE = recipe(profile((1, 8), (1, 8), (4, 8)))
SVG = "{http://www.w3.org/2000/svg}"


class Metronome(MadeEngine):
    """Takes 10 ms per item, and every tenth run twice as long."""

    def __init__(self, clock: ManualClock, first: int | None = None) -> None:
        super().__init__()
        self.takes, self.gives = {"x": (first, 8)}, {"y": (first, 8)}  # type: ignore[misc]
        self._clock = clock
        self.batches: list[int] = []

    def _infer(self, inputs: Tensors) -> dict[str, NDArray[Any]]:
        x = np.asarray(inputs["x"])
        self.batches.append(len(x))
        slow = 2 if len(self.batches) % 10 == 0 else 1
        self._clock.advance(0.01 * len(x) * slow)
        return {"y": x}


def rows_of(
    batches: list[int], *, within_profile: bool = True, first: int | None = None
) -> list[BenchRow]:
    clock = ManualClock()
    with Metronome(clock, first) as engine:
        return list(
            bench_engine(
                "metronome",
                engine,
                RECIPE,
                batches,
                seconds=1.0,
                clock=clock,
                within_profile=within_profile,
            )
        )


def test_latency_and_throughput_are_those_of_the_engine() -> None:
    one, four = rows_of([1, 4])
    assert one.median_ms == pytest.approx(10)
    assert one.p95_ms == pytest.approx(20)
    assert one.per_second == pytest.approx(100)
    assert 85 <= one.runs <= 95
    assert four.median_ms == pytest.approx(40)
    assert four.per_second == pytest.approx(100)


def test_a_batch_outside_of_the_profile_is_refused_for_a_plan_alone() -> None:
    (plan,) = rows_of([8])
    assert "x has the shape [8, 8]; it takes [1, 8] to [4, 8]" in plan.problem
    (fallback,) = rows_of([8], within_profile=False)
    assert fallback.median_ms == pytest.approx(80)


def test_a_graph_of_one_item_says_so() -> None:
    one, two = rows_of([1, 2], first=1)
    assert one.runs > 0
    assert two.problem == "x [1, 8] takes one item at a time"
    with pytest.raises(InvalidInputError):
        batched_shapes(
            {"x": TensorSpec("x", np.dtype(np.float32), (None, 8))},
            profile((1, 8), (3, 8), (4, 8)),
            2,
        )


def test_a_cancelled_benchmark_begins_no_further_size() -> None:
    clock = ManualClock()
    with Metronome(clock) as engine:
        rows = bench_engine(
            "metronome",
            engine,
            RECIPE,
            [1, 2, 4],
            seconds=0.1,
            clock=clock,
            within_profile=True,
            cancelled=lambda: 2 in engine.batches,
        )
        assert [row.batch for row in rows] == [1, 2]


def test_inputs_are_in_range_for_their_kind() -> None:
    kinds = {"f": np.float16, "m": np.bool_, "i": np.int64}
    specs = {name: TensorSpec(name, np.dtype(kind), (3,)) for name, kind in kinds.items()}
    made = dummy_inputs(specs, {name: (3,) for name in kinds})
    assert {name: array.dtype for name, array in made.items()} == {
        name: np.dtype(kind) for name, kind in kinds.items()
    }
    assert made["m"].all()
    assert not made["i"].any()
    assert np.abs(made["f"]).max() > 0


def test_the_picture_has_a_line_per_engine_and_leaves_out_what_was_not_measured() -> None:
    rows = [
        BenchRow("a <fp16>", 1, 1.0, 1.5, 10),
        BenchRow("a <fp16>", 4, 2.0, 2.5, 10),
        BenchRow("b", 1, 10.0, 11.0, 10),
        BenchRow("b", 4, problem="outside"),
        BenchRow("c", 1, problem="nothing"),
    ]
    drawn = ElementTree.fromstring(draw_plan_bench("a & b", rows))
    texts = [element.text for element in drawn.findall(f"{SVG}text")]
    assert {"a & b", "a <fp16>", "b", "latency, ms (median)"} <= set(texts)
    assert "c" not in texts
    lines = [line.attrib["points"].split() for line in drawn.findall(f"{SVG}polyline")]
    assert [len(points) for points in lines] == [2, 1, 2, 1]
    # Slower is higher in the left panel; every point is inside of the picture.
    latency_a, latency_b = float(lines[0][0].split(",")[1]), float(lines[1][0].split(",")[1])
    assert latency_b < latency_a
    width, height = float(drawn.attrib["width"]), float(drawn.attrib["height"])
    points = [tuple(map(float, point.split(","))) for line in lines for point in line]
    assert all(0 < x < width and 0 < y < height for x, y in points)


class OnGpu(OnnxRuntimeEngine):
    """Stands where the engine of a GPU would be: what it measures is no GPU."""

    def __init__(self, model: Path, *, source: BundlePlan, **_: Any) -> None:
        super().__init__(model, device="cpu", threads=1)
        self.source = source


def test_plan_and_fallback_are_measured_in_one_run(
    engine: RunCommand, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(engine_bench, "_gpu", lambda choice: ((rtx(), PORTABLE), ""))
    monkeypatch.setattr(engine_bench, "TensorRTEngine", OnGpu)
    file = tmp_path / "bench.json"
    sizes = ("--batch", "1", "--batch", "8")
    told = engine("bench", "small-net", "--seconds", "0.05", *sizes, "--json", str(file)).output
    rows = [line.split() for line in told.splitlines() if " fp32 " in line or " fp16 " in line]
    measured = [row for row in rows if re.fullmatch(r"[\d.]+", row[-1])]
    labels = ["onnxruntime cpu fp32", "tensorrt_rtx fp32", "tensorrt_rtx fp16"]
    assert [" ".join(row[:-6]) for row in measured] == [labels[0], *labels]
    assert [row[-6] for row in measured] == ["1", "8", "1", "1"]
    # × fallback: itself, and each plan against the fallback at the same batch size.
    assert [row[-2] for row in measured[:2]] == ["1.0", "1.0"]
    assert all(float(row[-2]) > 0 for row in measured[2:])
    # The plan takes four at most; the fallback takes what comes.
    refused = [line for line in told.splitlines() if "tensorrt_rtx" in line and " 8 " in line]
    assert len(refused) == 2
    assert "x has the shape [8, 8]" in " ".join(told.split())
    written = json.loads(file.read_text(encoding="utf-8"))
    assert [(row["engine"], row["batch"]) for row in written["rows"]].count((labels[0], 1)) == 1
    assert written["machine"]["cores"] and written["date"]
