"""What one run asks of device and TensorRT, and what it does not ask again."""

import numpy as np
import pytest

from tests.engine.tensorrt.conftest import Bench, x_of
from visavis.engine.tensorrt import buffers
from visavis.engine.tensorrt.buffers import CudaTensor
from visavis.serving.errors import InvalidInputError, UnfitShapeError


def test_outputs_are_what_was_computed_and_belong_to_the_caller(bench: Bench) -> None:
    with bench.open() as engine:
        first = engine.infer(x_of(3, 1.5))
        kept = first["y"].copy()
        engine.infer(x_of(3, 9.0))
    np.testing.assert_array_equal(kept, np.full((3, 2), 3.0))
    np.testing.assert_array_equal(first["y"], kept)
    assert first["total"].tolist() == [9.0]


def test_a_run_is_waited_for_once_and_tells_tensorrt_only_what_has_changed(bench: Bench) -> None:
    with bench.open(cuda_graphs=False) as engine:
        engine.infer(x_of(3))
        bench.forget()
        engine.infer(x_of(3))
        assert bench.device.calls.count("synchronize") == 1
        assert bench.trt.calls == [("execute_async_v3",)]
        assert engine.times is not None and engine.times.infer_s > 0


def test_after_warming_up_no_device_memory_is_taken_any_more(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffers, "_LEAST_BYTES", 16)
    with bench.open() as engine:
        bench.forget()
        for batch in (1, 4, 8, 32):
            engine.infer(x_of(batch))
        assert not {"alloc", "free"} & set(bench.device.calls)
        for batch in (1, 4, 8, 32):
            bench.forget()
            engine.infer(x_of(batch))
            assert "alloc_pinned" not in bench.device.calls


@pytest.mark.parametrize("batch", [5, 33])
def test_a_shape_outside_of_every_profile_never_reaches_the_device(
    bench: Bench, batch: int
) -> None:
    with bench.open() as engine:
        bench.forget()
        told = rf"x: shape \[{batch}, 2\] .*\[1, 2\] to \[4, 2\] or \[8, 2\] to \[32, 2\]"
        with pytest.raises(UnfitShapeError, match=told):
            engine.infer(x_of(batch))
        assert bench.device.calls in ([], ["current"])
        assert bench.trt.calls == []
        assert not engine.broken
        engine.infer(x_of(2))


def test_outputs_of_unknown_size_come_through_an_allocator(bench: Bench) -> None:
    with bench.open("late") as engine:
        for batch, positive in ((4, 3), (4, 5), (32, 40)):
            x = np.full((batch, 2), -1, np.float32)
            x.flat[:positive] = 7
            outputs = engine.infer({"x": x})
            assert outputs["z"].tolist() == [7.0] * positive
            np.testing.assert_array_equal(outputs["y"], 2 * x)
        # Once for each context: a graph could not hold an output of unknown size.
        assert bench.trt.named("set_output_allocator") == [("z",), ("z",)]
        assert engine.graphs == 0


def test_an_output_can_stay_on_the_device_and_be_an_input_there(bench: Bench) -> None:
    with bench.open() as engine, bench.open() as other:
        made = engine.infer_resident(x_of(3), ["y"])
        tensor = made["y"]
        assert isinstance(tensor, CudaTensor)
        assert isinstance(made["total"], np.ndarray)
        engine.infer(x_of(3, 100.0))  # does not overwrite what was kept
        bench.forget()
        outputs = other.infer({"x": tensor[1:3]})
        assert "copy_to_device" not in bench.device.calls
        np.testing.assert_array_equal(outputs["y"], np.full((2, 2), 4.0))
        np.testing.assert_array_equal(tensor.to_host(), np.full((3, 2), 2.0))
        del made, tensor


def test_memory_of_dropped_tensors_is_used_again(bench: Bench) -> None:
    with bench.open() as engine:
        first = engine.infer_resident(x_of(3), ["y"])["y"]
        address = first.address
        part = first[0:1]
        del first
        held = engine.infer_resident(x_of(3), ["y"])["y"]
        assert held.address != address, "a part keeps the whole"
        del part
        assert engine.infer_resident(x_of(3), ["y"])["y"].address == address


def test_parts_with_gaps_are_refused(bench: Bench) -> None:
    with bench.open() as engine:
        tensor = engine.infer_resident(x_of(3), ["y"])["y"]
        with pytest.raises(InvalidInputError, match="gaps"):
            tensor[:, 0:1]
        with pytest.raises(InvalidInputError, match="gaps"):
            tensor[0:3:2]
        with pytest.raises(InvalidInputError, match="2 dimensions"):
            tensor[:, :, :]
        del tensor


def test_memory_is_told_by_plan(bench: Bench) -> None:
    with bench.open() as engine:
        memory = engine.memory()
        assert memory is not None
        assert (memory.weights_bytes, memory.scratch_bytes) == (1000, 2000)
        largest = 32 * 2 * 4
        assert memory.buffer_bytes == 3 * max(256, largest)
        assert 0 < memory.pinned_bytes < memory.buffer_bytes + 1
        assert memory.device_bytes == 3000 + memory.buffer_bytes
    assert engine.memory() is None
