"""Plans that do not load, runs that fail, devices that are not there."""

import pytest

from tests.engine.tensorrt.conftest import Bench, x_of
from tests.engine.tensorrt.recorded_device import RecordedBinding
from visavis.engine.tensorrt import buffers
from visavis.engine.tensorrt.bindings.device import CudaError
from visavis.engine.tensorrt.bindings.selection import NoDeviceError, UnknownDeviceError
from visavis.serving.errors import EngineError, EngineLoadError

OUT_OF_MEMORY = CudaError("cudaMalloc", "cudaErrorMemoryAllocation", "out of memory")
ILLEGAL_ADDRESS = CudaError("cudaStreamSynchronize", "cudaErrorIllegalAddress")


def test_a_plan_of_another_version_is_refused_in_tensorrts_own_words(bench: Bench) -> None:
    with pytest.raises(EngineLoadError, match=r"junk\.plan.*recorded_trt 0.*magic tag"):
        bench.open("junk").load()


@pytest.mark.parametrize("call", ["alloc", "alloc_pinned", "synchronize", "copy_to_host"])
def test_a_device_that_fails_while_loading_leaves_nothing_behind(bench: Bench, call: str) -> None:
    bench.device.fail[call] = OUT_OF_MEMORY
    engine = bench.open()
    with pytest.raises(EngineLoadError, match="cudaErrorMemoryAllocation"):
        engine.load()
    assert {k for k, v in bench.device.queued.items() if v} == set()
    assert bench.device.nothing_left()
    engine.load()
    assert engine.infer(x_of(2))["total"].tolist() == [4.0]


@pytest.mark.parametrize(
    "call",
    [
        "create_execution_context",
        "set_optimization_profile_async",
        "set_input_shape",
        "set_tensor_address",
        "execute_async_v3",
    ],
)
def test_a_false_of_tensorrt_becomes_an_error_with_its_reason(bench: Bench, call: str) -> None:
    bench.trt.fail[call] = "the reason of TensorRT"
    with pytest.raises(EngineLoadError, match="the reason of TensorRT"):
        bench.open().load()


def test_a_failed_run_breaks_the_engine_until_it_is_loaded_anew(bench: Bench) -> None:
    engine = bench.open()
    engine.load()
    bench.device.fail["synchronize"] = ILLEGAL_ADDRESS
    with pytest.raises(EngineError, match="cudaErrorIllegalAddress"):
        engine.infer(x_of(3))
    assert "cudaErrorIllegalAddress" in engine.broken
    bench.forget()
    with pytest.raises(EngineError, match=r"broken.*cudaErrorIllegalAddress"):
        engine.infer(x_of(3))
    assert bench.trt.calls == [], "a broken engine is left alone"
    engine.close()
    engine.load()
    assert engine.infer(x_of(3))["total"].tolist() == [6.0]


def test_no_memory_for_an_output_of_unknown_size_is_told_as_that(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffers, "_LEAST_BYTES", 16)
    engine = bench.open("late")
    engine.load()
    bench.device.fail["alloc"] = OUT_OF_MEMORY
    with pytest.raises(EngineError, match=r"z: .*cudaErrorMemoryAllocation"):
        engine.infer(x_of(32, 5.0))
    assert engine.broken


def test_a_device_that_is_lost_does_not_keep_the_engine_from_closing(bench: Bench) -> None:
    engine = bench.open()
    engine.load()
    for call in ("destroy_graph", "free", "destroy_event"):
        bench.device.fail[call] = ILLEGAL_ADDRESS
    engine.close()
    for kept in (bench.device.on_device, bench.device.pinned, bench.device.queued):
        kept.clear()
    bench.device.events.clear()
    bench.device.graphs.clear()


@pytest.mark.parametrize("device", ["tpu", "cuda:x", "cuda:GPU", "cuda:-1", "gpu:0", "cpu"])
def test_a_device_that_makes_no_sense_is_refused(bench: Bench, device: str) -> None:
    with pytest.raises(UnknownDeviceError, match="device"):
        bench.open(device=device).load()


def test_a_device_that_is_not_there_is_refused_with_those_that_are(bench: Bench) -> None:
    for device in ("cuda:1", "cuda:GPU-12345678-0000-0000-0000-000000000000"):
        with pytest.raises(UnknownDeviceError, match=r"cuda:0 \(Double, sm_89, 1 GiB, GPU-0000"):
            bench.open(device=device).load()


def test_a_device_is_found_by_its_uuid(bench: Bench) -> None:
    bench.open(device=f"cuda:{bench.device.info.uuid.upper()}").load()


def test_no_device_at_all_is_another_error(bench: Bench) -> None:
    missing = CudaError("cudaGetDeviceCount", "cudaErrorNoDevice")
    binding = RecordedBinding(bench.device, missing=missing)
    with pytest.raises(NoDeviceError, match="cudaErrorNoDevice"):
        bench.open(binding=binding).load()
