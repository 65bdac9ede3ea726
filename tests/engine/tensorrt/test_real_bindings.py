"""Our calls held against the real bindings, which are here although no GPU is.

Nothing runs on a device: signatures are compared, and cuda-python's own checks of
arguments are passed before the missing driver is noticed.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cuda.bindings import runtime

from tests import bindings_dump
from tests.bindings_dump import Offer
from tests.bundles.compile.compiling import rtx
from tests.engine.tensorrt import recorded_compiler, recorded_trt
from tests.engine.tensorrt.machine.cuda.bindings import runtime as double
from tests.gpus import why_no_gpu
from tests.real_tensorrt import MODULE, RealTensorrt
from visavis.bundles.compile import builder_api
from visavis.bundles.compile.build_progress import BuildWatch, make_monitor
from visavis.engine.tensorrt.bindings import trt_api
from visavis.engine.tensorrt.bindings.cuda_python import CudaPython, CudaPythonDevice
from visavis.engine.tensorrt.bindings.device import CudaError, DeviceInfo, PinnedMemory
from visavis.engine.tensorrt.bindings.messages import shared_logger
from visavis.engine.tensorrt.bindings.selection import NoDeviceError, open_device
from visavis.engine.tensorrt.plan import Plan
from visavis.serving.errors import EngineLoadError

_SOURCES = Path(trt_api.__file__).parents[3]
_UNWATCHED = BuildWatch(None, None)
# Only where TensorRT-RTX was asked for; see is_rtx.
_RTX_ONLY = {"ComputeCapability"}


@pytest.fixture(scope="module", params=["tensorrt_rtx", "tensorrt 11"])
def offer(request: pytest.FixtureRequest, tensorrt_11: RealTensorrt) -> Offer:
    """What the module of one of the two flavours offers."""
    if request.param == "tensorrt_rtx":
        return bindings_dump.offer_of(rtx())
    return tensorrt_11.offer()


def test_what_our_pages_describe_is_there_with_those_parameters(offer: Offer) -> None:
    """The type checker holds our calls against the pages."""
    wrong = []
    for protocol, real in (*trt_api.PROTOCOLS.items(), *builder_api.PROTOCOLS.items()):
        for name in {*vars(protocol), *protocol.__annotations__}:
            if name.startswith("_"):
                continue
            if protocol in builder_api.RTX_ONLY and "ComputeCapability" not in offer:
                assert name not in offer[real], "TensorRT has it now too: one code path less"
            elif not _fits(protocol, name, offer[real].get(name)):
                wrong.append(f"{real}.{name}: {offer[real].get(name)}")
    assert wrong == []


def _fits(protocol: type, name: str, theirs: Any) -> bool:
    ours = getattr(protocol, name, None)
    if not inspect.isfunction(ours) or not isinstance(theirs, list):
        return theirs == "property" and not inspect.isfunction(ours)
    names = list(inspect.signature(ours).parameters)[1:]
    # What follows must have a default, which we cannot see; the compiler of RTX runs in our tests.
    whole = protocol in trt_api.PROTOCOLS
    return any(names == (each if whole else each[: len(names)]) for each in theirs)


@pytest.mark.parametrize(
    ("base", "called"),
    [("ILogger", ("log",)), ("IProgressMonitor", ("phase_start", "step_complete", "phase_finish"))],
)
def test_our_callbacks_have_the_parameters_that_tensorrt_passes(
    offer: Offer, base: str, called: tuple[str, ...]
) -> None:
    trt = rtx()
    ours = {"ILogger": shared_logger(trt), "IProgressMonitor": make_monitor(trt, _UNWATCHED)}[base]
    for name in called:
        assert list(inspect.signature(getattr(ours, name)).parameters) in offer[base][name]


@cache
def names_under_trt() -> set[tuple[str, ...]]:
    """("MemoryPoolType", "WORKSPACE") and the like: all that our code takes out of the module."""
    sources = (path.read_text() for path in _SOURCES.rglob("*.py"))
    return {chain for source in sources if "trt" in source for chain in _names_under_trt(source)}


def _names_under_trt(source: str) -> Iterator[tuple[str, ...]]:
    tree = ast.parse(source)
    inner = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            if chain := _chain(node):
                yield chain


def _chain(node: ast.expr) -> tuple[str, ...]:
    """Names behind `trt`, `x.trt` or `x._trt`; empty for what does not begin so."""
    names: list[str] = []
    while isinstance(node, ast.Attribute) and node.attr not in ("trt", "_trt"):
        names.append(node.attr)
        node = node.value
    begins = isinstance(node, ast.Attribute) or (isinstance(node, ast.Name) and node.id == "trt")
    return tuple(reversed(names)) if begins else ()


def test_everything_that_we_take_out_of_the_module_is_in_it(offer: Offer) -> None:
    used = {chain for chain in names_under_trt() if not chain[-1].startswith("__")}
    assert {("Runtime",), ("MemoryPoolType", "WORKSPACE"), ("TensorIOMode", "INPUT")} <= used
    if "ComputeCapability" not in offer:
        used = {chain for chain in used if chain[0] not in _RTX_ONLY}
    assert [
        ".".join(chain)
        for chain in sorted(used)
        if chain[0] not in offer or any(name not in offer[chain[0]] for name in chain[1:2])
    ] == []


def test_the_members_of_enumerations_that_we_use_are_there(offer: Offer) -> None:
    for kind in (
        *(recorded_trt.TensorIOMode, recorded_trt.TensorLocation, recorded_trt.EngineStat),
        recorded_trt.ExecutionContextAllocationStrategy,
    ):
        assert set(kind.__members__) <= set(offer[kind.__name__])
    types = {"FLOAT", "HALF", "BF16", "INT8", "UINT8", "INT32", "INT64", "BOOL"}
    assert types <= set(offer["DataType"])


_DERIVED = """
import sys
from importlib import import_module
from visavis.engine.tensorrt.buffers import TensorBuffer, output_allocator
from visavis.bundles.compile.build_progress import BuildWatch, make_monitor
from visavis.engine.tensorrt.bindings.messages import collecting, shared_logger

trt = import_module(sys.argv[1])
allocator = output_allocator(trt, TensorBuffer.__new__(TensorBuffer))
assert isinstance(allocator, trt.IOutputAllocator)
allocator.notify_shape("y", trt.Dims([2, 3]))
assert allocator.shape == (2, 3), allocator.shape
with collecting(trt) as said:
    shared_logger(trt).log(trt.ILogger.ERROR, "oh")
assert isinstance(shared_logger(trt), trt.ILogger) and said.errors == ["oh"]
monitor = make_monitor(trt, BuildWatch(None, lambda: True))
assert isinstance(monitor, trt.IProgressMonitor)
monitor.phase_start("parsing", None, 2)
assert monitor.step_complete("parsing", 0) is False
print("derived")
"""


@pytest.mark.parametrize("module", ["tensorrt_rtx", MODULE])
def test_what_we_derive_from_their_classes_is_one_of_them(
    module: str, tensorrt_11: RealTensorrt
) -> None:
    rtx()
    assert tensorrt_11.run("-c", _DERIVED, module) == "derived\n"


def test_the_double_has_no_method_that_tensorrt_lacks(offer: Offer) -> None:
    for ours, theirs in (
        (recorded_trt.ExecutionContext, "IExecutionContext"),
        (recorded_trt.CudaEngine, "ICudaEngine"),
        (recorded_trt.Runtime, "Runtime"),
        (recorded_compiler.Builder, "Builder"),
        (recorded_compiler.IBuilderConfig, "IBuilderConfig"),
        (recorded_compiler.INetworkDefinition, "INetworkDefinition"),
        (recorded_compiler.IOptimizationProfile, "IOptimizationProfile"),
        (recorded_compiler.OnnxParser, "OnnxParser"),
        (recorded_compiler.ParserError, "ParserError"),
    ):
        methods = {n for n, m in vars(ours).items() if inspect.isfunction(m) and n[0] != "_"}
        assert methods <= set(offer[theirs])


def test_the_double_of_cuda_python_has_no_name_that_the_real_one_lacks() -> None:
    ours = {name for name in vars(double) if name.startswith("cuda")}
    assert ours <= set(vars(runtime))
    for kind in (double.cudaError_t, double.cudaMemcpyKind, double.cudaStreamCaptureMode):
        real = getattr(runtime, kind.__name__)
        assert {name: member.value for name, member in kind.__members__.items()} == {
            name: getattr(real, name).value for name in kind.__members__
        }


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
