"""Each binding of CUDA does what its interface says."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from visavis.engine.tensorrt.bindings.device import CudaDevice, CudaError
from visavis.engine.tensorrt.bindings.selection import BINDINGS, list_devices, open_device

SIZE = 1 << 20


@pytest.fixture(params=list(BINDINGS))
def device(request: pytest.FixtureRequest) -> Iterator[CudaDevice]:
    try:
        binding = BINDINGS[request.param]()
    except ImportError as error:
        pytest.skip(str(error))
    opened = open_device("cuda:0", binding)
    with opened.current():
        yield opened


def test_it_describes_itself_and_is_found_by_its_uuid(device: CudaDevice) -> None:
    info = device.info
    assert info.name and info.sm >= (7, 0)
    assert len(info.uuid) == 40, info.uuid
    assert open_device(f"cuda:{info.uuid}").info.uuid == info.uuid
    memory = device.memory()
    assert 0 < memory.free_bytes <= memory.total_bytes


def test_both_bindings_see_the_same_devices() -> None:
    seen = []
    for factory in BINDINGS.values():
        try:
            seen.append(list_devices(factory()))
        except ImportError:
            continue
    assert all(devices == seen[0] for devices in seen)


def test_bytes_come_back_by_every_way(device: CudaDevice) -> None:
    stream = device.create_stream()
    there, elsewhere = device.alloc(SIZE), device.alloc(SIZE)
    out, back = device.alloc_pinned(SIZE), device.alloc_pinned(SIZE)
    out.array[:] = np.random.default_rng(0).integers(0, 256, SIZE, np.uint8)
    back.array[:] = 0
    device.copy_to_device(there, out, SIZE, stream)
    device.copy_on_device(elsewhere, there, SIZE, stream)
    device.copy_to_host(back, elsewhere, SIZE, stream)
    device.synchronize(stream)
    np.testing.assert_array_equal(out.array, back.array)
    for address in (there, elsewhere):
        device.free(address)
    for memory in (out, back):
        device.free_pinned(memory)
    device.destroy_stream(stream)


def test_events_measure_time(device: CudaDevice) -> None:
    stream = device.create_stream()
    memory = device.alloc_pinned(64 * SIZE)
    address = device.alloc(64 * SIZE)
    start, end = device.create_event(), device.create_event()
    device.record(start, stream)
    device.copy_to_device(address, memory, 64 * SIZE, stream)
    device.record(end, stream)
    device.synchronize(stream)
    assert 1e-4 < device.elapsed_s(start, end) < 1  # 64 MiB at 0.06 to 600 GB/s
    for event in (start, end):
        device.destroy_event(event)
    device.free(address)
    device.free_pinned(memory)
    device.destroy_stream(stream)


def test_a_graph_replays_what_was_captured(device: CudaDevice) -> None:
    if not device.has_graphs:
        pytest.skip("this binding has no CUDA graphs")
    stream = device.create_stream()
    there = device.alloc(SIZE)
    out, back = device.alloc_pinned(SIZE), device.alloc_pinned(SIZE)
    device.begin_capture(stream)
    device.copy_to_device(there, out, SIZE, stream)
    device.copy_to_host(back, there, SIZE, stream)
    graph = device.end_capture(stream)
    for value in (3, 7):
        out.array[:] = value
        device.launch_graph(graph, stream)
        device.synchronize(stream)
        assert (back.array == value).all()
    device.destroy_graph(graph)
    device.free(there)
    for memory in (out, back):
        device.free_pinned(memory)
    device.destroy_stream(stream)


def test_too_much_memory_is_an_error_with_cudas_name(device: CudaDevice) -> None:
    with pytest.raises(CudaError) as caught:
        device.alloc(device.memory().total_bytes * 2)
    assert caught.value.out_of_memory
    device.free(device.alloc(SIZE))  # and it goes on


def test_what_is_freed_is_free(device: CudaDevice) -> None:
    before = device.memory().free_bytes
    for _ in range(100):
        device.free(device.alloc(64 * SIZE))
    assert before - device.memory().free_bytes < 128 * SIZE
