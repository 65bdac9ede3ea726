"""Stepping down: restart once, then the next place, and told each time in three ways."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.gpus import why_no_gpu
from visavis.bundles.compile.sources import bundle_plans
from visavis.engine import EngineOptions, ladder, open_engine
from visavis.engine.base import Engine, Tensors, TensorSpec
from visavis.engine.ladder import LadderEngine, Rung, rungs_for
from visavis.engine.tensorrt.bindings import selection
from visavis.engine.tensorrt.bindings.device import DeviceInfo
from visavis.serving import metrics
from visavis.serving.errors import EngineError, EngineLoadError, InvalidInputError, UnfitShapeError

SPEC = TensorSpec("x", np.dtype(np.float32), (None,))
INPUT = {"x": np.zeros(2, np.float32)}


class Scripted(Engine):
    """y = x + number. Fails where it is told to."""

    def __init__(self, number: int, tensor: str = "y") -> None:
        super().__init__(Path("bundle/model.onnx"), device="", threads=1)
        self.backend = f"b{number}"
        self.number, self.tensor = number, tensor
        self.loads = self.closes = 0
        self.load_errors: list[EngineError | None] = []
        self.run_errors: list[Exception | None] = []

    def _load(self) -> tuple[dict[str, TensorSpec], dict[str, TensorSpec]]:
        self.loads += 1
        if self.load_errors and (error := self.load_errors.pop(0)):
            raise error
        return {"x": SPEC}, {self.tensor: TensorSpec(self.tensor, SPEC.dtype, SPEC.shape)}

    def _infer(self, inputs: Tensors) -> dict[str, NDArray[Any]]:
        if self.run_errors and (error := self.run_errors.pop(0)):
            raise error
        x = inputs["x"]
        assert isinstance(x, np.ndarray)
        return {self.tensor: x + self.number}

    def _close(self) -> None:
        self.closes += 1


def stairs(*engines: Scripted, last: str = "cpu") -> LadderEngine:
    rungs = [
        Rung(e.backend, last if e is engines[-1] else "cuda:0", lambda e=e: e) for e in engines
    ]
    return LadderEngine(Path("bundle/model.onnx"), rungs)


def number_of(engine: Engine) -> float:
    return float(engine.infer(INPUT)["y"][0])


def test_each_step_down_is_told_in_log_metrics_and_state(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second, third = Scripted(1), Scripted(2), Scripted(3)
    first.load_errors = [EngineLoadError("no GPU")]
    second.load_errors = [EngineLoadError("no CUDA in it")]
    engine = stairs(first, second, third)
    counters = metrics.engine_degraded
    steps = [("bundle/model", "b1", "b2"), ("bundle/model", "b2", "b3")]
    before = [counters.labels(*step)._value.get() for step in steps]
    with caplog.at_level(logging.INFO):
        engine.load()
    assert number_of(engine) == 3
    assert [counters.labels(*s)._value.get() - b for s, b in zip(steps, before, strict=True)] == [
        1,
        1,
    ]
    info = metrics.engine_backend_info
    assert info.labels("bundle/model", "b1", "cuda:0")._value.get() == 0
    assert info.labels("bundle/model", "b3", "cpu")._value.get() == 1
    assert (engine.state.backend, engine.state.device) == ("b3", "cpu")
    assert "b1 on cuda:0: no GPU" in engine.state.detail
    assert "b2 on cuda:0: no CUDA in it" in engine.state.detail
    told = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(told) == 3
    assert "steps down to b2 on cuda:0; b1 on cuda:0: no GPU" in told[0]
    assert "steps down to b3 on cpu" in told[1]


def test_nothing_left_names_every_reason() -> None:
    first, second = Scripted(1), Scripted(2)
    first.load_errors = [EngineLoadError("no GPU")]
    second.load_errors = [EngineLoadError("no file")]
    with pytest.raises(EngineLoadError, match=r"nothing is left.*b1.*no GPU; b2.*no file"):
        stairs(first, second).load()


def test_a_failure_is_answered_and_the_engine_restarted_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second = Scripted(1), Scripted(2)
    engine = stairs(first, second)
    engine.load()
    assert (engine.state.backend, engine.state.device, engine.state.detail) == ("b1", "cuda:0", "")
    info = metrics.engine_backend_info
    assert info.labels("bundle/model", "b1", "cuda:0")._value.get() == 1
    first.run_errors = [EngineError("illegal address")]
    with pytest.raises(EngineError, match=r"illegal address; b1 .*loaded anew, send .* again"):
        engine.infer(INPUT)
    assert (first.closes, first.loads) == (1, 2)
    assert number_of(engine) == 1
    assert "broke and is loaded anew: illegal address" in caplog.text
    first.run_errors = [EngineError("illegal address again")]
    with pytest.raises(EngineError, match="now on b2 on cpu, send the request again"):
        engine.infer(INPUT)
    assert number_of(engine) == 2
    assert "illegal address again" in engine.state.detail


def test_after_long_good_service_there_is_another_restart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ladder, "FORGIVEN_AFTER_RUNS", 3)
    first = Scripted(1)
    engine = stairs(first, Scripted(2))
    engine.load()
    for _ in range(3):
        first.run_errors = [EngineError("now and then")]
        with pytest.raises(EngineError, match="loaded anew"):
            engine.infer(INPUT)
        for _ in range(3):
            assert number_of(engine) == 1


def test_a_bad_request_costs_no_engine() -> None:
    first = Scripted(1)
    engine = stairs(first, Scripted(2))
    engine.load()
    with pytest.raises(InvalidInputError):
        engine.infer({"x": np.zeros(2)})
    assert (first.closes, first.loads) == (0, 1)


def test_a_shape_that_was_not_compiled_is_answered_one_rung_below(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second = Scripted(1), Scripted(2)
    engine = stairs(first, second)
    engine.load()
    steps = metrics.engine_degraded.labels("bundle/model", "b1", "b2")
    before = steps._value.get()
    first.run_errors = [UnfitShapeError("x: shape [2] is outside of the plan's profiles")]
    assert number_of(engine) == 2
    assert (first.closes, first.loads) == (1, 1), "loading the same plan anew would not help"
    assert steps._value.get() == before + 1
    assert "outside of the plan's profiles" in engine.state.detail
    assert "was not compiled for this" in caplog.text


def test_with_no_place_for_such_a_shape_the_plan_goes_on_serving_the_others() -> None:
    first, second = Scripted(1), Scripted(2)
    engine = stairs(first, second, last="cuda:0")
    engine.load()
    first.run_errors = [UnfitShapeError("x: shape [2] is outside")]
    second.load_errors = [EngineLoadError("no CUDA in it")]
    with pytest.raises(EngineError, match=r"nothing is left.*shape \[2\] is outside.*no CUDA"):
        engine.infer(INPUT)
    assert number_of(engine) == 1
    assert (first.closes, engine.state.backend, engine.state.detail) == (0, "b1", "")


def test_on_the_cpu_an_error_is_the_requests_own() -> None:
    only = Scripted(1)
    engine = stairs(only)
    engine.load()
    only.run_errors = [EngineError("index out of range")]
    with pytest.raises(EngineError, match=r"^index out of range$"):
        engine.infer(INPUT)
    assert only.loads == 1
    assert number_of(engine) == 1


def test_a_restart_that_fails_steps_down_at_once_and_other_tensors_are_no_replacement() -> None:
    first, other, last = Scripted(1), Scripted(2, tensor="z"), Scripted(3)
    engine = stairs(first, other, last)
    engine.load()
    first.run_errors = [EngineError("lost")]
    first.load_errors = [EngineLoadError("still lost")]
    with pytest.raises(EngineError, match="now on b3"):
        engine.infer(INPUT)
    assert number_of(engine) == 3
    assert other.closes == 1
    assert "still lost" in engine.state.detail
    assert "tensors z instead of y" in engine.state.detail


def test_where_nothing_is_left_later_requests_try_again() -> None:
    only = Scripted(1)
    engine = stairs(only, last="cuda:0")
    engine.load()
    only.run_errors = [EngineError("lost")]
    only.load_errors = [EngineLoadError("lost"), EngineLoadError("lost"), None]
    for _ in range(2):
        with pytest.raises(EngineError, match="lost"):
            engine.infer(INPUT)
    assert number_of(engine) == 1


GPUS = [
    DeviceInfo(0, "Small", "GPU-00000000-0000-0000-0000-000000000000", (8, 9), 2**33),
    DeviceInfo(1, "Large", "GPU-11111111-0000-0000-0000-000000000000", (9, 0), 2**36),
]
COMPILED = EngineOptions(plans=bundle_plans)


class Binding:
    """Of a machine that has them."""

    name = "double"

    def devices(self) -> list[DeviceInfo]:
        return GPUS

    def open(self, info: DeviceInfo) -> Any:
        raise AssertionError("not here")


@pytest.mark.parametrize("device", ["cuda:1", f"cuda:{GPUS[1].uuid}"])
def test_the_rungs_of_a_gpu(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    monkeypatch.setattr(selection, "open_binding", Binding)
    rungs = rungs_for(Path("m.onnx"), device, 1, EngineOptions())
    assert [rung.device for rung in rungs] == ["cuda:1", "cuda:1", "cpu"]
    assert rungs[0].backend in ("tensorrt", "tensorrt_rtx")
    assert [rung.backend for rung in rungs[1:]] == ["onnxruntime", "onnxruntime"]
    strict = rungs_for(Path("m.onnx"), device, 1, EngineOptions(require_device=True))
    assert [rung.device for rung in strict] == ["cuda:1", "cuda:1"]


def test_a_wrong_gpu_is_no_reason_to_step_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "open_binding", Binding)
    with pytest.raises(EngineLoadError, match=r"no 'cuda:2'.*cuda:0 \(Small.*cuda:1 \(Large"):
        open_engine(Path("m.onnx"), device="cuda:2")


@pytest.mark.skipif(not why_no_gpu(), reason="there is a GPU")
def test_without_a_gpu_a_voice_speaks_on_the_cpu_and_says_so(
    bundle: Callable[[str], Path],
) -> None:
    model = bundle("fastspeech2-mbmelgan-zh") / "vocoder.onnx"
    mel = {"mel": np.zeros((1, 20, 80), np.float32)}
    with open_engine(model, device="cuda:0", options=COMPILED) as engine:
        assert engine.infer(mel)["voice"].shape == (1, 6000)
        assert (engine.state.backend, engine.state.device) == ("onnxruntime", "cpu")
        assert "no usable CUDA device" in engine.state.detail
        assert "onnxruntime-gpu" in engine.state.detail
    with pytest.raises(EngineLoadError, match="nothing is left"):
        open_engine(model, device="cuda:0", options=replace(COMPILED, require_device=True)).load()


def test_what_is_never_compiled_stays_on_the_cpu_and_steps_down_from_nothing(
    bundle: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "open_binding", Binding)
    model = bundle("silero-vad") / "silero_vad.onnx"
    with open_engine(model, device="cuda:1", options=EngineOptions(require_device=True)) as engine:
        assert (engine.state.device, engine.state.detail) == ("cpu", "")
    with pytest.raises(EngineLoadError, match=r"silero_vad\.onnx is never compiled"):
        open_engine(model, backend="tensorrt", device="cuda:1", options=COMPILED).load()
