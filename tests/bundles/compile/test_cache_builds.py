"""Building through the cache: what is compiled, what is reused, what is recognised as stale."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.bundles.compile import small_graphs
from tests.bundles.compile.compiling import rtx
from tests.bundles.compile.small_graphs import USUAL, profile, recipe
from visavis.bundles.compile.build_progress import Cancelled, Progress, stop_if
from visavis.bundles.compile.builder import PlanBuilder
from visavis.bundles.compile.plans.cache import PlanCache, PlanState
from visavis.bundles.compile.plans.freshness import PlanRequest, source_digest, state_of
from visavis.bundles.compile.survey import check_plans
from visavis.bundles.compile.targets import PORTABLE, flavour_of
from visavis.bundles.store.installed import RECORD_NAME
from visavis.bundles.store.recipe import PlanRecipe, Precision
from visavis.serving.errors import PlanCancelledError, PlanError


class Graphs:
    """Gives a graph that may be changed, and counts how often it was asked."""

    def __init__(self) -> None:
        self.made = 0
        self.content = small_graphs.linear()

    def __call__(
        self,
        folder: Path,
        recipe: PlanRecipe,
        precision: Precision,
        cancelled: Cancelled | None = None,
    ) -> onnx.ModelProto:
        del folder, recipe, precision, cancelled
        self.made += 1
        return onnx.load_from_string(self.content)


@pytest.fixture(scope="module")
def trt() -> Any:
    return rtx()


@pytest.fixture
def graphs() -> Graphs:
    return Graphs()


@pytest.fixture
def cache(tmp_path: Path) -> PlanCache:
    return PlanCache(tmp_path / "plans")


@pytest.fixture
def builder(trt: Any, cache: PlanCache, graphs: Graphs) -> PlanBuilder:
    return PlanBuilder(trt, PORTABLE, cache, make_graph=graphs)


@pytest.fixture
def request_(tmp_path: Path) -> PlanRequest:
    folder = tmp_path / "bundle"
    folder.mkdir()
    (folder / RECORD_NAME).write_text("as it was pulled")
    return PlanRequest("bundle", folder, recipe(), "fp32")


def test_the_same_graph_of_a_changed_bundle_is_not_compiled_again(
    builder: PlanBuilder, graphs: Graphs, request_: PlanRequest
) -> None:
    first = builder.build(request_)
    assert builder.build(request_).cached == builder.cached(request_) == first.cached
    assert graphs.made == 1, "which can take minutes"
    (request_.folder / RECORD_NAME).write_text("pulled anew, with another tokenizer")
    assert builder.cached(request_) is None
    assert not builder.build(request_).compiled
    assert builder.cached(request_) is not None
    assert graphs.made == 2


def test_a_cancelled_build_leaves_nothing(
    builder: PlanBuilder, cache: PlanCache, graphs: Graphs, request_: PlanRequest
) -> None:
    graphs.content = small_graphs.deep()
    reports: list[Progress] = []
    with pytest.raises(PlanCancelledError):
        builder.build(request_, on_progress=reports.append, cancelled=lambda: len(reports) > 5)
    assert reports[0].phase == "making the graph"
    assert list(cache.entries()) == []
    assert [path for path in cache.folder.rglob("*.*") if path.is_file()] == list(
        cache.folder.glob(".locks/*.lock")
    )
    assert builder.build(request_).compiled


def test_a_build_is_cancelled_while_its_graph_is_made(
    trt: Any, cache: PlanCache, request_: PlanRequest
) -> None:
    asked: list[Cancelled | None] = []

    def slow_graph(folder: Path, recipe: PlanRecipe, precision: Precision, cancelled: Any) -> Any:
        asked.append(cancelled)
        stop_if(cancelled)
        raise AssertionError("it went on")

    def cancelled() -> bool:
        return bool(asked)

    builder = PlanBuilder(trt, PORTABLE, cache, make_graph=slow_graph)
    with pytest.raises(PlanCancelledError):
        builder.build(request_, cancelled=cancelled)
    with pytest.raises(PlanCancelledError):
        list(check_plans(builder, [request_], cancelled=cancelled))
    assert asked == [cancelled, cancelled]
    assert list(cache.entries()) == []


def test_a_failed_build_leaves_nothing_and_the_next_one_works(
    builder: PlanBuilder, cache: PlanCache, graphs: Graphs, request_: PlanRequest
) -> None:
    good, graphs.content = graphs.content, small_graphs.nonzero()
    with pytest.raises(PlanError, match="NonZero"):
        builder.build(request_)
    assert list(cache.entries()) == []
    graphs.content = good
    assert builder.build(request_).compiled


def test_a_package_that_is_missing_is_named(
    trt: Any, cache: PlanCache, request_: PlanRequest
) -> None:
    def needs_more(*_: Any) -> onnx.ModelProto:
        raise ModuleNotFoundError("no", name="some_quantiser")

    with pytest.raises(PlanError, match="bundle net fp32: some_quantiser is not installed"):
        PlanBuilder(trt, PORTABLE, cache, make_graph=needs_more).build(request_)


def test_the_source_is_all_that_makes_the_graph(request_: PlanRequest, tmp_path: Path) -> None:
    before = source_digest(request_)
    assert source_digest(request_) == before
    (request_.folder / "notes.txt").write_text("not in the record")
    assert source_digest(request_) == before
    other_recipe = recipe(profile((1, 8), (2, 8), (4, 8)))
    changed = [
        PlanRequest("bundle", request_.folder, other_recipe, "fp32"),
        PlanRequest("bundle", request_.folder, request_.recipe, "fp16"),
    ]
    assert before not in {source_digest(request) for request in changed}
    # A folder that was not pulled has no record: its files count.
    (request_.folder / RECORD_NAME).unlink()
    own = source_digest(request_)
    (request_.folder / "notes.txt").write_text("changed")
    assert len({before, own, source_digest(request_)}) == 3


def test_stale_and_fresh_are_told_apart(
    trt: Any, builder: PlanBuilder, cache: PlanCache, request_: PlanRequest
) -> None:
    builder.build(request_)
    (entry,) = cache.entries()
    here = {trt.__name__: flavour_of(trt)}
    assert state_of(entry, here, request_) == (PlanState.FRESH, "")
    for compilers, request, told in (
        ({}, request_, "is not installed here"),
        ({trt.__name__: "tensorrt_rtx 99.0"}, request_, "here is tensorrt_rtx 99.0"),
        (here, None, "asks for no such plan"),
        (here, PlanRequest("bundle", request_.folder, recipe(USUAL, name="b"), "fp32"), "changed"),
    ):
        state, why = state_of(entry, compilers, request)
        assert state is PlanState.STALE
        assert told in why
    entry.path.unlink()
    (entry,) = cache.entries()
    assert state_of(entry, here, request_)[0] is PlanState.DAMAGED


def test_a_survey_names_the_profile_that_fails_and_goes_on(
    builder: PlanBuilder, cache: PlanCache, request_: PlanRequest
) -> None:
    large = profile((32, 8), (64, 8), (64, 8), name="large")
    wrong = profile((1, 9), (4, 9), (16, 9), name="wrong")
    good = PlanRequest("bundle", request_.folder, recipe(USUAL, large), "fp32")
    bad = PlanRequest("bundle", request_.folder, recipe(USUAL, wrong), "fp32")
    checks = list(check_plans(builder, [bad, good]))
    assert [(c.request is bad, c.profile, bool(c.problem)) for c in checks] == [
        (True, "usual", False),
        (True, "wrong", True),
        (True, "all 2", True),
        (False, "usual", False),
        (False, "large", False),
        (False, "all 2", False),
    ]
    assert "wrong: x" in checks[1].problem
    assert all(c.size_bytes > 0 and c.build_s > 0 and c.layers > 0 for c in checks[3:])
    assert list(cache.entries()) == []
