"""Our calls held against the real bindings, which are here although no GPU is.

Nothing runs on a device: signatures are compared, and cuda-python's own checks of
arguments are passed before the missing driver is noticed.
"""

from __future__ import annotations

import inspect
import re
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.engine_tensorrt import recorded_trt
from tests.gpus import why_no_gpu
from visavis.engine.tensorrt import trt_api
from visavis.engine.tensorrt.cuda_python import CudaPython, CudaPythonDevice
from visavis.engine.tensorrt.device import CudaError, DeviceInfo, PinnedMemory
from visavis.engine.tensorrt.plan import Plan
from visavis.engine.tensorrt.selection import NoDeviceError, open_device
from visavis.errors import EngineLoadError

PROTOCOLS = {
    trt_api.ExecutionContext: "IExecutionContext",
    trt_api.CudaEngine: "ICudaEngine",
    trt_api.Runtime: "Runtime",
}
METHODS = [
    pytest.param(protocol, name, real, id=f"{real}.{name}")
    for protocol, real in PROTOCOLS.items()
    for name, member in vars(protocol).items()
    if inspect.isfunction(member) and not name.startswith("_")
]


@pytest.fixture(scope="module", params=trt_api.MODULES)
def trt(request: pytest.FixtureRequest) -> ModuleType:
    return pytest.importorskip(request.param)


def overloads(doc: str, name: str) -> list[list[str]]:
    """Names of the parameters of each overload, as pybind11 writes them down."""
    found = []
    for line in doc.splitlines():
        if match := re.match(rf"\s*(?:\d+\. )?{name}\((.*)\) -> ", line):
            plain = re.sub(r"\[[^\]]*\]|<[^>]*>", "", match[1])
            found.append([part.split(":")[0].strip() for part in plain.split(",")][1:])
    return found


@pytest.mark.parametrize(("protocol", "name", "real"), METHODS)
def test_the_methods_that_we_call_are_there_with_those_parameters(
    trt: ModuleType, protocol: type, name: str, real: str
) -> None:
    ours = list(inspect.signature(getattr(protocol, name)).parameters)[1:]
    theirs = overloads(getattr(getattr(trt, real), name).__doc__, name)
    assert ours in theirs, f"{name}({', '.join(ours)}) is none of {theirs}"


def test_the_properties_and_types_that_we_use_are_there(trt: ModuleType) -> None:
    for name in ("num_io_tensors", "num_optimization_profiles"):
        assert isinstance(inspect.getattr_static(trt.ICudaEngine, name), property)
    double = recorded_trt
    for kind in ("TensorIOMode", "TensorLocation", "EngineStat"):
        assert set(getattr(double, kind).__members__) <= set(getattr(trt, kind).__members__)
    strategies = set(double.ExecutionContextAllocationStrategy.__members__)
    assert strategies <= set(trt.ExecutionContextAllocationStrategy.__members__)
    types = {"FLOAT", "HALF", "INT8", "UINT8", "INT32", "INT64", "BOOL"}
    assert types <= set(trt.DataType.__members__)


def test_an_allocator_of_ours_is_one_of_theirs(trt: ModuleType) -> None:
    from visavis.engine.tensorrt.buffers import TensorBuffer, output_allocator

    allocator = output_allocator(trt, TensorBuffer.__new__(TensorBuffer))
    assert isinstance(allocator, trt.IOutputAllocator)
    allocator.notify_shape("y", trt.Dims([2, 3]))
    assert allocator.shape == (2, 3)


def test_the_double_has_no_method_that_tensorrt_lacks(trt: ModuleType) -> None:
    for ours, theirs in (
        (recorded_trt.ExecutionContext, trt.IExecutionContext),
        (recorded_trt.CudaEngine, trt.ICudaEngine),
        (recorded_trt.Runtime, trt.Runtime),
    ):
        methods = {n for n, m in vars(ours).items() if inspect.isfunction(m) and n[0] != "_"}
        assert methods <= set(dir(theirs))


@pytest.mark.skipif(not why_no_gpu(), reason="there is a GPU, so nothing is missing")
def test_the_real_module_says_why_it_does_not_load_a_plan() -> None:
    trt = pytest.importorskip("tensorrt_rtx")
    with pytest.raises(EngineLoadError, match=r"x\.plan: tensorrt_rtx 1\..*MAGIC_TAG"):
        Plan(trt, b"junk" * 100, "x.plan")


ADDRESS = 0x1000
PINNED = PinnedMemory(ADDRESS, np.zeros(16, np.uint8))
CALLS: dict[str, tuple[Any, ...]] = {
    "alloc": (16,),
    "free": (ADDRESS,),
    "alloc_pinned": (16,),
    "free_pinned": (PINNED,),
    "copy_to_device": (ADDRESS, PINNED, 16, 1),
    "copy_to_host": (PINNED, ADDRESS, 16, 1),
    "copy_on_device": (ADDRESS, ADDRESS, 16, 1),
    "clear": (ADDRESS, 16, 1),
    "create_stream": (),
    "destroy_stream": (1,),
    "synchronize": (1,),
    "create_event": (),
    "destroy_event": (1,),
    "record": (1, 1),
    "elapsed_s": (1, 1),
    "begin_capture": (1,),
    "end_capture": (1,),
    "launch_graph": (1, 1),
    "destroy_graph": (1,),
    "memory": (),
}


@pytest.mark.skipif(not why_no_gpu(), reason="with a GPU these calls would do something")
@pytest.mark.parametrize("call", CALLS)
def test_cuda_python_takes_our_arguments_and_its_status_is_checked(call: str) -> None:
    device = CudaPythonDevice(DeviceInfo(0, "", "", (0, 0), 0))
    with pytest.raises(CudaError, match=r"^cuda\w+: cudaError\w+ \(.+\)$"):
        getattr(device, call)(*CALLS[call])


@pytest.mark.skipif(not why_no_gpu(), reason="there is a GPU")
def test_without_a_driver_there_is_no_device_and_that_is_said() -> None:
    with pytest.raises(NoDeviceError, match=r"no usable CUDA device.*cudaError"):
        open_device("cuda:0", CudaPython())
