"""What sets the Triton backend apart: several runs at once, taken back, asked again, refused.

That it computes and describes itself as every backend does, `tests/engine/test_engine.py` says.
"""

import asyncio
import hashlib
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import onnx
import pytest
from onnx import helper

from tests.bundles.compile.graph_runs import model_of
from tests.fakes import ManualClock
from tests.triton_server import QUEUE_FULL, TOO_LATE, TritonDouble, serving
from visavis.engine import Engine, EngineLane, EngineOptions, TritonOptions, Urgency, open_engine
from visavis.engine.in_hand import InHand
from visavis.serving.errors import (
    AtCapacityError,
    EngineError,
    EngineLoadError,
    InvalidInputError,
)

AT_ONCE = 4


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """y = 2 x, of free length."""
    path = tmp_path / "twice.onnx"
    twice = helper.make_node("Add", ["x", "x"], ["y"])
    onnx.save(model_of([twice], {"x": ["batch"]}, {"y": ["batch"]}, {}), path)
    return path


@pytest.fixture
def double(tmp_path: Path) -> Iterator[TritonDouble]:
    double = TritonDouble(tmp_path)
    with serving(double):
        yield double


def engine_of(double: TritonDouble, model: Path, name: str = "twice") -> Engine:
    asked = TritonOptions(double.url, name, at_once=AT_ONCE, timeout_s=30.0)
    return open_engine(model, backend="triton", options=EngineOptions(triton=asked))


@pytest.fixture
def engine(double: TritonDouble, model: Path) -> Iterator[Engine]:
    with engine_of(double, model) as engine:
        yield engine


@pytest.fixture
def lane(engine: Engine) -> Iterator[EngineLane]:
    lane = EngineLane("t", at_once=engine.at_once, clock=ManualClock())
    yield lane
    lane.close()


def twice(engine: Engine, x: float) -> float:
    return float(engine.infer({"x": np.array([x], np.float32)})["y"][0])


async def arrivals(double: TritonDouble, count: int) -> None:
    for _ in range(count):
        assert await asyncio.to_thread(double.arrived.acquire, timeout=10)


async def test_a_lane_has_as_many_runs_under_way_as_the_engine_takes(
    double: TritonDouble, engine: Engine, lane: EngineLane
) -> None:
    double.hold.clear()
    runs = [asyncio.ensure_future(lane.run(twice, engine, x)) for x in range(AT_ONCE + 2)]
    await arrivals(double, AT_ONCE)
    assert len(double.asked) == AT_ONCE and not any(run.done() for run in runs)
    double.hold.set()
    assert await asyncio.gather(*runs) == [2 * x for x in range(AT_ONCE + 2)]


async def test_what_nobody_waits_for_any_more_is_taken_back(
    double: TritonDouble, engine: Engine, lane: EngineLane
) -> None:
    double.hold.clear()
    run = asyncio.ensure_future(lane.run(twice, engine, 1.0))
    await arrivals(double, 1)
    run.cancel()
    assert await asyncio.to_thread(double.cancelled.acquire, timeout=10)
    double.hold.set()
    assert await lane.run(twice, engine, 4.0) == 8.0


async def test_what_is_given_up_as_its_run_begins_is_taken_back(
    double: TritonDouble, engine: Engine, lane: EngineLane, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()

    def in_hand(*told: Any, **more: Any) -> InHand:
        loop.call_soon_threadsafe(run.cancel)
        time.sleep(0.05)  # the lane hears of it
        return InHand(*told, **more)

    monkeypatch.setattr("visavis.engine.lane.InHand", in_hand)
    double.hold.clear()
    run = asyncio.ensure_future(lane.run(twice, engine, 1.0))
    await asyncio.wait([run])
    ended, _ = await asyncio.wait([asyncio.ensure_future(asyncio.to_thread(lane.close))], timeout=2)
    double.hold.set()
    assert ended, "the thread waits for an answer that nobody wants"


async def test_the_server_is_told_how_urgent_it_is_and_how_long_it_may_wait(
    double: TritonDouble, engine: Engine, lane: EngineLane
) -> None:
    await lane.run(twice, engine, 1.0)
    await lane.run(twice, engine, 1.0, urgency=Urgency(priority=2, deadline_s=5.0))
    await lane.run(twice, engine, 1.0, urgency=Urgency(priority=99, deadline_s=-5.0))
    told = [asked.parameters for asked in double.asked]
    assert [told["priority"].int64_param for told in told] == [1, 3, 4]
    # What is needed in five seconds may come five seconds later; what is late counts from now.
    assert [told["timeout"].int64_param for told in told] == [30_000_000, 35_000_000, 30_000_000]


def test_a_server_that_came_back_is_asked_again(tmp_path: Path, model: Path) -> None:
    double = TritonDouble(tmp_path)
    with serving(double) as stop:
        engine = engine_of(double, model)
        engine.load()
        assert twice(engine, 1.0) == 2.0
        stop()
        with pytest.raises(EngineError, match=f"Triton at {double.url} is away"):
            twice(engine, 2.0)
    again = TritonDouble(tmp_path)
    with serving(again, port=int(double.url.rpartition(":")[2])), engine:
        answers: list[float] = []
        while not answers:  # until the connection is tried again, within a second
            with suppress(EngineError):
                answers.append(twice(engine, 3.0))
        assert answers == [6.0]


def test_a_connection_that_was_lost_costs_one_more_question(
    double: TritonDouble, engine: Engine
) -> None:
    lost = (grpc.StatusCode.UNAVAILABLE, "Socket closed")
    double.refusals = [lost]
    assert twice(engine, 3.0) == 6.0 and len(double.asked) == 2
    double.refusals = [lost, lost]
    with pytest.raises(EngineError, match="is away: Socket closed"):
        twice(engine, 3.0)
    assert len(double.asked) == 4


@pytest.mark.parametrize(
    ("refusal", "kind", "told"),
    [
        (QUEUE_FULL, AtCapacityError, "maximum queue size"),
        (TOO_LATE, EngineError, "timeout expired"),
        ((grpc.StatusCode.INVALID_ARGUMENT, "unexpected shape"), InvalidInputError, "unexpected"),
        ((grpc.StatusCode.NOT_FOUND, "unknown model"), EngineError, "NOT_FOUND: unknown model"),
        ((grpc.StatusCode.INTERNAL, "no memory"), EngineError, "no memory"),
    ],
)
def test_what_the_server_refuses_is_not_asked_again(
    double: TritonDouble,
    engine: Engine,
    refusal: tuple[grpc.StatusCode, str],
    kind: type[Exception],
    told: str,
) -> None:
    double.refusals = [refusal]
    with pytest.raises(kind, match=told):
        twice(engine, 3.0)
    assert len(double.asked) == 1
    assert twice(engine, 3.0) == 6.0  # and it still works


def test_weights_have_to_be_the_same(double: TritonDouble, model: Path) -> None:
    double.digests["twice"] = hashlib.sha256(model.read_bytes()).hexdigest()
    engine_of(double, model).load()
    double.digests["twice"] = hashlib.sha256(b"other").hexdigest()
    with pytest.raises(EngineLoadError, match=r"other weights than .*twice\.onnx"):
        engine_of(double, model).load()


def test_a_model_that_is_not_served_says_what_to_do(double: TritonDouble, model: Path) -> None:
    with pytest.raises(EngineLoadError, match=r"no model thrice that is ready.*triton-repository"):
        engine_of(double, model, "thrice").load()
