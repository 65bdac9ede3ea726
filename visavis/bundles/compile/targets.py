"""Which compiler, and which GPU it compiles for."""

from __future__ import annotations

import importlib
import importlib.util
import platform
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from visavis.engine.tensorrt.bindings.device import DeviceInfo
from visavis.engine.tensorrt.bindings.selection import (
    check_device_name,
    find_device,
    list_devices,
    open_binding,
    open_device,
)
from visavis.serving.errors import PlanError

FLAVOURS: dict[str, tuple[str, str]] = {
    "rtx": ("tensorrt_rtx", "tensorrt-rtx-cu13"),
    "tensorrt": ("tensorrt", "tensorrt-cu13"),
}
"""Name on the command line -> (module, package that brings it)."""

_SM = re.compile(r"sm_?(\d{1,2})(\d)", re.IGNORECASE)


@dataclass(frozen=True)
class Target:
    """What a plan is compiled for."""

    name: str
    """Part of the cache key: `portable`, `sm_89` or a GPU's name with its capability."""
    capabilities: tuple[str, ...] = ()
    """Members of TensorRT-RTX's ComputeCapability; empty: every GPU that it knows."""
    device: str | None = None
    """The GPU to work on, `cuda:N`; None: none is needed."""

    def current(self) -> AbstractContextManager[None]:
        """Make the GPU the calling thread's own: the compiler works on the current one."""
        return nullcontext() if self.device is None else open_device(self.device).current()


PORTABLE = Target("portable")
"""Any GPU that TensorRT-RTX knows; it finishes the kernels when the plan is first run there."""


def default_flavour() -> str:
    """`tensorrt` where its module is installed, else `rtx`."""
    module = FLAVOURS["tensorrt"][0]
    return "tensorrt" if importlib.util.find_spec(module) is not None else "rtx"


def load_flavour(name: str) -> Any:
    """The module of the flavour `rtx` or `tensorrt`. PlanError with the package that brings it."""
    if name not in FLAVOURS:
        raise PlanError(f"flavour: {name!r} is none of {', '.join(FLAVOURS)}")
    module, package = FLAVOURS[name]
    try:
        return importlib.import_module(module)
    except (ImportError, OSError) as error:
        # OSError: the bindings are there, the libraries behind them are not.
        raise PlanError(
            f"flavour {name}: {module} cannot be used ({error}); install {package}"
        ) from error


def flavour_of(trt: Any) -> str:
    """Name and version of the compiler, as it stands in cache keys, and the processor it is built
    for unless that is x86-64: plans hold what runs there as well, and machines may share a folder.
    """
    machine = platform.machine().lower()
    built_for = "" if machine in ("x86_64", "amd64") else f" {machine}"
    return f"{trt.__name__} {trt.__version__}{built_for}"


def is_rtx(trt: Any) -> bool:
    """TensorRT-RTX compiles ahead of time for classes of GPUs and keeps no timings."""
    return hasattr(trt, "ComputeCapability")


def resolve_target(
    trt: Any,
    *,
    device: str | None = None,
    target: str | None = None,
    devices: Callable[[], Sequence[DeviceInfo]] | None = None,
) -> Target:
    """The Target of `--device cuda:N` or `--target sm_NN`; neither: the most that works.

    TensorRT-RTX needs no GPU: without either it compiles for all. TensorRT compiles on the GPU
    that it compiles for: without either it takes the first. `devices` lists the machine's GPUs
    (by default CUDA does). Raises PlanError or NoDeviceError or UnknownDeviceError with what
    there is.
    """
    if device is not None and target is not None:
        raise PlanError("give either a device or a target: a device is a target of its own")
    if is_rtx(trt) and device is None:
        return PORTABLE if target is None else _of_capability(trt, target)
    wanted_sm = None if target is None else _capability(target)
    if device == "cpu":
        raise PlanError("device: TensorRT compiles for a GPU: cuda:N, or flavour rtx with a target")
    if device is not None:
        check_device_name(device)
    found = (devices or _cuda_devices)()
    if wanted_sm is None:
        return _of_device(trt, find_device(device or "cuda:0", found))
    for info in found:
        if info.sm == wanted_sm:
            return _of_device(trt, info)
    raise PlanError(
        f"target {target}: TensorRT compiles only on such a GPU, and here is "
        f"{', '.join(map(str, found))}; compile on a machine that has one, or with flavour rtx"
    )


def _cuda_devices() -> Sequence[DeviceInfo]:
    return list_devices(open_binding())


def _of_device(trt: Any, info: DeviceInfo) -> Target:
    capabilities = ("CURRENT",) if is_rtx(trt) else ()
    if is_rtx(trt):
        # Else each network is compiled, for minutes, and its plan refused when it is loaded.
        _known_to_rtx(trt, info.sm, f"device {info}")
    name = f"{info.name} sm_{info.sm[0]}{info.sm[1]}"
    return Target(name, capabilities, f"cuda:{info.index}")


def _of_capability(trt: Any, target: str) -> Target:
    name = _known_to_rtx(trt, _capability(target), f"target {target}")
    return Target(name.lower().replace("sm", "sm_"), (name,))


def _known_to_rtx(trt: Any, sm: tuple[int, int], asked: str) -> str:
    """The member of ComputeCapability for `sm`. Raises PlanError: it knows no H100, for one."""
    name = "SM{}{}".format(*sm)
    known = [known for known in trt.ComputeCapability.__members__ if known.startswith("SM")]
    if name not in known:
        raise PlanError(
            f"{asked}: TensorRT-RTX compiles for "
            f"{', '.join(known.lower().replace('sm', 'sm_') for known in known)}; "
            "for another use flavour tensorrt (the package tensorrt-cu13) "
            "on a machine with such a GPU"
        )
    return name


def _capability(target: str) -> tuple[int, int]:
    if (match := _SM.fullmatch(target)) is None:
        raise PlanError(f"target: {target!r} is not of the form sm_89")
    return int(match[1]), int(match[2])
