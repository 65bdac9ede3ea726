"""Which compiler and which GPU: what is chosen, and what is refused with what there is."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tests.bundles.compile import small_graphs
from tests.bundles.compile.compiling import rtx
from tests.bundles.compile.small_graphs import USUAL
from visavis.bundles.compile.compiler import compile_plan
from visavis.bundles.compile.targets import (
    PORTABLE,
    Target,
    flavour_of,
    is_rtx,
    load_flavour,
    resolve_target,
)
from visavis.engine.tensorrt.bindings.device import DeviceInfo
from visavis.engine.tensorrt.bindings.selection import NoDeviceError, UnknownDeviceError
from visavis.serving.errors import PlanError

ADA = DeviceInfo(0, "NVIDIA L4", "GPU-0000", (8, 9), 24 * 2**30)
HOPPER = DeviceInfo(1, "NVIDIA H200", "GPU-0001", (9, 0), 140 * 2**30)


def both() -> list[DeviceInfo]:
    return [ADA, HOPPER]


def never() -> list[DeviceInfo]:
    raise AssertionError("nobody needs to look for a GPU here")


def nothing() -> list[DeviceInfo]:
    raise NoDeviceError("device: this machine has no CUDA device")


@pytest.fixture(scope="module")
def real_rtx() -> Any:
    return rtx()


@pytest.fixture(scope="module")
def without_capabilities(real_rtx: Any) -> Any:
    """The real module less what TensorRT has not: our code takes its other path."""
    offered = {name: value for name, value in vars(real_rtx).items() if name[:2] != "__"}
    del offered["ComputeCapability"]
    return SimpleNamespace(**offered, __name__="tensorrt", __version__="11.4.0")


def test_rtx_compiles_for_every_gpu_or_for_one_kind_without_one(real_rtx: Any) -> None:
    assert resolve_target(real_rtx, devices=never) == PORTABLE
    for written in ("sm_89", "SM89"):
        assert resolve_target(real_rtx, target=written, devices=never) == Target("sm_89", ("SM89",))
    assert resolve_target(real_rtx, target="sm_120", devices=never).capabilities == ("SM120",)


def test_rtx_compiles_for_the_gpu_that_is_named(real_rtx: Any) -> None:
    for named in ("cuda:0", "cuda:GPU-0000"):
        chosen = resolve_target(real_rtx, device=named, devices=both)
        assert chosen == Target("NVIDIA L4 sm_89", ("CURRENT",), "cuda:0")


def test_rtx_refuses_gpus_that_it_does_not_run_on_before_it_compiles(real_rtx: Any) -> None:
    for choice in ({"device": "cuda:1"}, {"target": "sm_90"}):
        with pytest.raises(PlanError, match=r"sm_90.*RTX compiles for sm_75.*tensorrt-cu13"):
            resolve_target(real_rtx, devices=both, **choice)


def test_a_plan_is_of_a_compiler_and_of_the_processor_that_it_is_built_for(
    without_capabilities: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Grace Hopper and an H100 have GPUs of one kind."""
    for machine, told in (("x86_64", "tensorrt 11.4.0"), ("aarch64", "tensorrt 11.4.0 aarch64")):
        monkeypatch.setattr("platform.machine", lambda machine=machine: machine)
        assert flavour_of(without_capabilities) == told


def test_tensorrt_compiles_on_the_gpu_that_it_compiles_for(without_capabilities: Any) -> None:
    trt = without_capabilities
    assert not is_rtx(trt)
    assert resolve_target(trt, devices=both) == Target("NVIDIA L4 sm_89", (), "cuda:0")
    hopper = Target("NVIDIA H200 sm_90", (), "cuda:1")
    assert resolve_target(trt, target="sm_90", devices=both) == hopper
    assert resolve_target(trt, device="cuda:1", devices=both) == hopper


@pytest.mark.parametrize(
    ("choice", "kind", "told"),
    [
        ({"target": "sm_120"}, PlanError, r"here is .*L4.*H200.*flavour rtx"),
        ({"target": "ada"}, PlanError, "not of the form sm_89"),
        ({"device": "cuda:2"}, UnknownDeviceError, r"no 'cuda:2'.*L4.*H200"),
        ({"device": "cpu"}, PlanError, "compiles for a GPU"),
        ({"device": "one"}, UnknownDeviceError, "none of cpu, cuda:N"),
        ({"device": "cuda:0", "target": "sm_89"}, PlanError, "either a device or a target"),
    ],
)
def test_what_is_not_there_is_refused(
    without_capabilities: Any, choice: dict[str, str], kind: type[Exception], told: str
) -> None:
    with pytest.raises(kind, match=told):
        resolve_target(without_capabilities, devices=both, **choice)


def test_without_a_gpu_tensorrt_cannot_compile(without_capabilities: Any) -> None:
    for choice in ({}, {"device": "cuda:0"}, {"target": "sm_90"}):
        with pytest.raises(NoDeviceError):
            resolve_target(without_capabilities, devices=nothing, **choice)


def test_a_flavour_that_is_unknown_or_not_installed_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(PlanError, match="'trt' is none of rtx, tensorrt"):
        load_flavour("trt")
    monkeypatch.setitem(sys.modules, "tensorrt", None)
    with pytest.raises(PlanError, match="install tensorrt-cu13"):
        load_flavour("tensorrt")


@pytest.mark.filterwarnings("ignore:Use Deprecated in TensorRT-RTX:DeprecationWarning")
@pytest.mark.parametrize("before", [None, b"damaged"])
def test_timings_are_asked_for_and_given_back(
    without_capabilities: Any, before: bytes | None
) -> None:
    # TensorRT-RTX still has the calls of a timing cache; only their effect is gone.
    made = compile_plan(without_capabilities, small_graphs.linear(), [USUAL], timing_cache=before)
    assert made.timing_cache
    again = compile_plan(
        without_capabilities, small_graphs.linear(), [USUAL], timing_cache=made.timing_cache
    )
    assert again.content


def test_rtx_keeps_no_timings(real_rtx: Any) -> None:
    assert compile_plan(real_rtx, small_graphs.linear(), [USUAL]).timing_cache is None
