"""Our calls against the real bindings of TensorRT-RTX and of TensorRT 11.

The type checker holds the calls against `builder_api`; here that page is held against what the
modules offer.
"""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tests import bindings_dump
from tests.bindings_dump import Offer
from tests.bundles.compile.compiling import rtx
from tests.real_tensorrt import RealTensorrt
from visavis.bundles.compile import builder_api
from visavis.bundles.compile.build_progress import BuildWatch, make_monitor
from visavis.engine.tensorrt.bindings.messages import shared_logger


@pytest.fixture(scope="module", params=["tensorrt_rtx", "tensorrt 11"])
def offer(request: pytest.FixtureRequest, tensorrt_11: RealTensorrt) -> Offer:
    if request.param == "tensorrt_rtx":
        return bindings_dump.offer_of(rtx())
    return tensorrt_11.offer()


def described() -> list[Any]:
    """(protocol, class of TensorRT, member) for everything on the page."""
    return [
        pytest.param(protocol, real, name, id=f"{real}.{name}")
        for protocol, real in builder_api.PROTOCOLS.items()
        for name in sorted({*vars(protocol), *protocol.__annotations__})
        if not name.startswith("_")
    ]


@pytest.mark.parametrize(("protocol", "real", "name"), described())
def test_what_we_call_is_there(offer: Offer, protocol: type, real: str, name: str) -> None:
    if protocol in builder_api.RTX_ONLY and "ComputeCapability" not in offer:
        assert name not in offer[real], "TensorRT has it now too: one code path less"
        return
    theirs = offer[real][name]
    ours = getattr(protocol, name, None)
    if not inspect.isfunction(ours):
        assert theirs == "property"
        return
    names = list(inspect.signature(ours).parameters)[1:]
    assert any(_takes(overload, names) for overload in theirs), f"{names} is none of {theirs}"


def _takes(overload: list[str], names: list[str]) -> bool:
    """`names` are passed by position; what follows must have a default, which we cannot see."""
    return overload[: len(names)] == names


@pytest.mark.parametrize("kind", builder_api.CONSTANTS)
def test_the_constants_that_we_use_are_there(offer: Offer, kind: str) -> None:
    assert set(builder_api.CONSTANTS[kind]) <= set(offer[kind])


@pytest.mark.parametrize("base", builder_api.DERIVED)
def test_our_callbacks_have_the_parameters_that_tensorrt_passes(offer: Offer, base: str) -> None:
    trt = rtx()
    watch = BuildWatch(None, None)
    ours = {"ILogger": shared_logger(trt), "IProgressMonitor": make_monitor(trt, watch)}[base]
    for name in builder_api.DERIVED[base]:
        own = list(inspect.signature(getattr(ours, name)).parameters)
        assert own in offer[base][name]


def test_what_strongly_typed_networks_have_no_more_is_not_used(offer: Offer) -> None:
    gone = {"FP16", "INT8", "BF16", "FP8", "OBEY_PRECISION_CONSTRAINTS"}
    assert not gone & set(offer["BuilderFlag"])
    assert "EXPLICIT_BATCH" not in offer["NetworkDefinitionCreationFlag"]
    assert "int8_calibrator" not in offer["IBuilderConfig"]
