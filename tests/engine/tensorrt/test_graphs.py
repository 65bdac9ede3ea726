"""CUDA graphs: which shapes get one, when they fall, and that a wrong one is noticed."""

import numpy as np
import pytest

from tests.engine.tensorrt.conftest import Bench, x_of
from tests.engine.tensorrt.recorded_trt import DataType, Network
from visavis.engine.tensorrt import graphs
from visavis.engine.tensorrt.bindings.device import CudaError
from visavis.engine.tensorrt.plan import Plan
from visavis.engine.tensorrt.runner import PlanRunner


def test_usual_shapes_have_their_graph_from_the_start(bench: Bench) -> None:
    with bench.open() as engine:
        assert engine.graphs == 2
        bench.forget()
        assert engine.infer(x_of(2, 3.0))["total"].tolist() == [12.0]
        assert engine.infer(x_of(16, 1.0))["total"].tolist() == [32.0]
        assert bench.device.calls.count("launch_graph") == 2
        assert bench.trt.calls == []


def test_another_shape_gets_one_when_it_keeps_coming(bench: Bench) -> None:
    with bench.open() as engine:
        for run in range(1, graphs.RUNS_BEFORE_CAPTURE + 1):
            assert engine.graphs == 2
            np.testing.assert_array_equal(engine.infer(x_of(3, run))["y"], np.full((3, 2), 2 * run))
        assert engine.graphs == 3
        bench.forget()
        np.testing.assert_array_equal(engine.infer(x_of(3, 9.0))["y"], np.full((3, 2), 18.0))
        assert "launch_graph" in bench.device.calls
        # The context still knows the shape of its last plain run, and takes another one.
        np.testing.assert_array_equal(engine.infer(x_of(1, 4.0))["y"], [[8.0, 8.0]])


def test_no_context_changes_under_a_graph_that_was_captured_from_it(bench: Bench) -> None:
    """The double fails a replay whose context was told anything since."""
    with bench.open() as engine:
        for batch in (1, 3, 4, 1, 3, 4, 1, 3, 4):
            engine.infer(x_of(batch))
        assert engine.graphs == 5
        bench.forget()
        for batch in (2, 4, 1, 3, 16, 2):
            assert engine.infer(x_of(batch, 5.0))["total"].tolist() == [10.0 * batch]
        assert bench.device.calls.count("launch_graph") == 6
        assert bench.trt.calls == []


def test_the_least_used_graph_makes_room(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "MOST_GRAPHS", 2)
    with bench.open() as engine:
        for _ in range(graphs.RUNS_BEFORE_CAPTURE):
            engine.infer(x_of(3))
        assert engine.graphs == 2 == len(bench.device.graphs)
        assert engine.infer(x_of(2, 5.0))["total"].tolist() == [20.0]


def test_none_where_they_are_switched_off_or_not_offered(bench: Bench) -> None:
    with bench.open(cuda_graphs=False) as engine:
        assert engine.graphs == 0
    bench.device.has_graphs = False
    with bench.open() as engine:
        assert engine.graphs == 0
    assert "begin_capture" not in bench.device.calls


@pytest.mark.parametrize("call", ["begin_capture", "end_capture"])
def test_a_capture_that_fails_costs_the_graphs_and_nothing_else(bench: Bench, call: str) -> None:
    bench.device.fail[call] = CudaError(call, "cudaErrorStreamCaptureInvalidated")
    with bench.open() as engine:
        assert engine.graphs == 0
        assert not engine.broken
        for _ in range(5):
            assert engine.infer(x_of(2, 3.0))["total"].tolist() == [12.0]
        assert engine.graphs == 0


def test_a_replay_that_gives_other_outputs_is_not_trusted(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    network = bench.trt.plans[b"scaling"]
    honest, runs = network.compute, 0

    def drifting(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        nonlocal runs
        runs += 1
        return {name: value + runs for name, value in honest(inputs).items()}

    network.compute = drifting
    with bench.open() as engine:
        assert engine.graphs == 0
    assert "its replay gives other outputs" in caplog.text


@pytest.mark.parametrize("grows", ["input", "output"])
def test_graphs_fall_when_a_buffer_moves(bench: Bench, grows: str) -> None:
    """Without warming up, so that a buffer still has to grow."""

    def repeats(x: np.ndarray) -> int:
        return 1 if grows == "input" else 5000 // x.shape[0]

    network = Network(
        lambda given: {"y": np.repeat(given["x"][:1], repeats(given["x"]), axis=0)},
        {"x": (DataType.FLOAT, (-1, 2))},
        {"y": (DataType.FLOAT, (-1, 2))},
        [{"x": ((1, 2), (2, 2), (5000, 2))}],
        lambda shapes: {"y": (repeats(np.zeros(shapes["x"])), 2)},
    )
    bench.trt.plans[b"growing"] = network
    small, large = (3, 4000) if grows == "input" else (4000, 3)
    with bench.device.current():
        plan = Plan(bench.trt, b"growing", "growing")
        runner = PlanRunner(plan, bench.device, graphs=True)
        for _ in range(graphs.RUNS_BEFORE_CAPTURE):
            runner.run(x_of(small))
        assert runner.graphs == 1
        runner.run(x_of(large))
        assert runner.graphs == 0
        assert np.asarray(runner.run(x_of(small, 7.0))["y"]).max() == 7.0
        runner.close()
