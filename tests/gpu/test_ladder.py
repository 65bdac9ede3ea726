"""Stepping down on real hardware: a device that is full, an engine that breaks, a wrong device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from visavis.bundles.compile.sources import bundle_plans
from visavis.engine import EngineOptions, open_engine
from visavis.engine.ladder import LadderEngine
from visavis.engine.tensorrt.bindings.device import CudaDevice, CudaError
from visavis.engine.tensorrt.compiled import CompiledEngine
from visavis.engine.tensorrt.engine import TensorRTEngine
from visavis.serving.errors import EngineError, EngineLoadError

MEL = {"mel": np.zeros((1, 120, 80), np.float32)}


@pytest.fixture
def vocoder(bundle: Callable[[str], Path], flavour: str) -> LadderEngine:
    model = bundle("fastspeech2-mbmelgan-zh") / "vocoder.onnx"
    engine = open_engine(model, device="cuda:0", options=EngineOptions(plans=bundle_plans))
    assert isinstance(engine, LadderEngine)
    return engine


def spoil(engine: LadderEngine) -> None:
    """The next run copies to an address that is none."""
    compiled = engine.current
    assert isinstance(compiled, CompiledEngine)
    (plan,) = compiled.parts.values()
    assert isinstance(plan, TensorRTEngine)
    assert plan._runner is not None
    plan._runner._inputs["mel"]._address = 0x10


def test_the_best_place_is_taken(vocoder: LadderEngine, flavour: str) -> None:
    with vocoder:
        assert (vocoder.state.backend, vocoder.state.detail) == (flavour, "")
        assert vocoder.infer(MEL)["voice"].shape == (1, 36_000)


def test_a_broken_engine_is_restarted_once_then_left(vocoder: LadderEngine, flavour: str) -> None:
    with vocoder:
        expected = vocoder.infer(MEL)["voice"]
        spoil(vocoder)
        with pytest.raises(EngineError, match="loaded anew"):
            vocoder.infer(MEL)
        assert vocoder.state.backend == flavour
        np.testing.assert_allclose(vocoder.infer(MEL)["voice"], expected, atol=1e-3)
        spoil(vocoder)
        with pytest.raises(EngineError, match="now on onnxruntime"):
            vocoder.infer(MEL)
        assert vocoder.state.backend == "onnxruntime"
        assert vocoder.state.detail
        np.testing.assert_allclose(vocoder.infer(MEL)["voice"], expected, atol=5e-2)


def test_a_full_device_leaves_the_cpu(vocoder: LadderEngine, cuda: CudaDevice) -> None:
    taken: list[int] = []
    with cuda.current():
        size = cuda.memory().free_bytes
        while size > 2**20:
            try:
                taken.append(cuda.alloc(size))
            except CudaError:
                size //= 2
    try:
        with vocoder:
            assert vocoder.state.device == "cpu"
            assert vocoder.state.detail
            assert vocoder.infer(MEL)["voice"].shape == (1, 36_000)
    finally:
        with cuda.current():
            for address in taken:
                cuda.free(address)


def test_a_wrong_device_is_refused_with_those_that_are_there(
    bundle: Callable[[str], Path], cuda: CudaDevice
) -> None:
    model = bundle("fastspeech2-mbmelgan-zh") / "vocoder.onnx"
    with pytest.raises(EngineLoadError, match=cuda.info.uuid):
        open_engine(model, device="cuda:99").load()


def test_require_device_never_ends_on_the_cpu(bundle: Callable[[str], Path], flavour: str) -> None:
    model = bundle("fastspeech2-mbmelgan-zh") / "vocoder.onnx"
    options = EngineOptions(plans=bundle_plans, require_device=True)
    with open_engine(model, device="cuda:0", options=options) as engine:
        assert engine.state.device == "cuda:0"
