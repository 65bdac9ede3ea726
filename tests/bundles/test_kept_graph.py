"""Optimised graphs in the cache: made once, whole or not at all, never a reason not to start."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import helper

from tests.bundles.compile.graph_runs import model_of
from tests.full_disk import limited_files
from visavis.bundles.compile.plans.cache import PlanCache
from visavis.bundles.kept_graph import KeptGraph
from visavis.bundles.store.installed import RECORD_NAME, BundleRecord, FileRecord
from visavis.engine import EngineOptions, open_engine

SIZE = 100


@pytest.fixture
def plans(tmp_path: Path) -> PlanCache:
    return PlanCache(tmp_path / "plans")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A bundle's network: y = relu(x w), w from one seed."""
    (tmp_path / "tiny").mkdir()
    path = tmp_path / "tiny" / "net.onnx"
    write(path, seed=1)
    return path


def write(path: Path, *, seed: int) -> None:
    weights = np.random.default_rng(seed).standard_normal((SIZE, SIZE)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Relu", ["product"], ["y"]),
    ]
    onnx.save(model_of(nodes, {"x": ["rows", SIZE]}, {"y": ["rows", SIZE]}, {"w": weights}), path)
    record = BundleRecord(
        name="tiny", version="1", files={path.name: FileRecord.of(path)}, prepared={}, steps={}
    )
    (path.parent / RECORD_NAME).write_text(record.model_dump_json())


class Runs:
    """Runs a network on the CPU, and knows how often its graph was made."""

    def __init__(self, plans: PlanCache) -> None:
        self.made = 0
        self._plans = plans

    def __call__(self, model: Path) -> NDArray[np.float32]:
        def graph(path: Path) -> bytes:
            self.made += 1
            return path.read_bytes()

        options = EngineOptions(kept=KeptGraph(model, "graph", plans=self._plans), graph=graph)
        with open_engine(model, options=options) as engine:
            given = np.linspace(-1, 1, 3 * SIZE, dtype=np.float32).reshape(3, SIZE)
            return engine.infer({"x": given})["y"]


@pytest.fixture
def run(plans: PlanCache) -> Runs:
    return Runs(plans)


def test_it_is_made_once_and_computes_the_same_ever_after(
    model: Path, plans: PlanCache, run: Runs
) -> None:
    first = run(model)
    np.testing.assert_array_equal(run(model), first)
    assert run.made == 1
    assert first.any()
    assert len(plans.for_this_processor()) == 1
    assert not list(plans.entries())  # no compiled plan, and no damaged one


def test_another_network_takes_its_place(model: Path, plans: PlanCache, run: Runs) -> None:
    first = run(model)
    write(model, seed=2)
    assert not np.array_equal(run(model), first)
    assert len(plans.for_this_processor()) == 1


@pytest.mark.parametrize("damage", [lambda whole: whole[:-9] + b"damaged!!", lambda whole: b""])
def test_a_damaged_one_is_made_anew(
    model: Path, plans: PlanCache, run: Runs, damage: Callable[[bytes], bytes]
) -> None:
    first = run(model)
    (kept,) = plans.for_this_processor()
    kept.write_bytes(damage(kept.read_bytes()))
    np.testing.assert_array_equal(run(model), first)
    np.testing.assert_array_equal(run(model), first)
    assert run.made == 2


@pytest.mark.parametrize("trouble", ["full", "no folder"])
def test_where_it_cannot_be_kept_it_is_made_at_each_start(
    model: Path, plans: PlanCache, run: Runs, trouble: str, caplog: pytest.LogCaptureFixture
) -> None:
    if trouble == "no folder":
        plans.folder.write_bytes(b"a file stands where the folder should")
    with limited_files(20_000), caplog.at_level(logging.WARNING):
        first = run(model)
        np.testing.assert_array_equal(run(model), first)
    assert first.any()
    assert "tiny is optimised at each start, which takes longer" in caplog.text
    assert plans.for_this_processor() == []
    assert not [path for path in plans.folder.glob("tiny/.*")]


def test_what_was_not_pulled_is_not_kept(model: Path, plans: PlanCache, run: Runs) -> None:
    (model.parent / RECORD_NAME).unlink()
    run(model)
    assert not plans.folder.exists()
