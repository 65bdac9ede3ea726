"""Which compiler, and which GPU it compiles for."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from visavis.errors import PlanError

FlavourName = Literal["rtx", "tensorrt"]

FLAVOURS: dict[str, tuple[str, str]] = {
    "rtx": ("tensorrt_rtx", "tensorrt-rtx-cu13"),
    "tensorrt": ("tensorrt", "tensorrt-cu13"),
}
"""Name on the command line -> (module, package that brings it)."""

_SM = re.compile(r"sm_?(\d{2,3})", re.IGNORECASE)


@dataclass(frozen=True)
class Gpu:
    """One GPU of this machine."""

    index: int
    name: str
    sm: int
    """Compute capability times ten: 89 is 8.9."""


@dataclass(frozen=True)
class Target:
    """What a plan is compiled for."""

    name: str
    """Part of the cache key: `portable`, `sm_89` or a GPU's name with its capability."""
    capabilities: tuple[str, ...] = ()
    """Members of TensorRT-RTX's ComputeCapability; empty: every GPU that it knows."""
    device_index: int | None = None
    """The GPU to work on; None: none is needed."""

    def select(self) -> None:
        """Make the GPU current in this thread: the compiler works on the current one."""
        if self.device_index is not None:
            _check(_cuda_runtime().cudaSetDevice(self.device_index), f"cuda:{self.device_index}")


PORTABLE = Target("portable")
"""Any GPU that TensorRT-RTX knows; it finishes the kernels when the plan is first run there."""


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
    """Name and version of the compiler, as it stands in cache keys."""
    return f"{trt.__name__} {trt.__version__}"


def is_rtx(trt: Any) -> bool:
    """TensorRT-RTX compiles ahead of time for classes of GPUs and keeps no timings."""
    return hasattr(trt, "ComputeCapability")


def resolve_target(
    trt: Any,
    *,
    device: str | None = None,
    target: str | None = None,
    gpus: Callable[[], Sequence[Gpu]] | None = None,
) -> Target:
    """The Target of `--device cuda:N` or `--target sm_NN`; neither: the most that works.

    TensorRT-RTX needs no GPU: without either it compiles for all. TensorRT compiles on the GPU
    that it compiles for: without either it takes the first. Raises PlanError with what there is.
    """
    if device is not None and target is not None:
        raise PlanError("give either a device or a target: a device is a target of its own")
    found = list((gpus or list_gpus)()) if device is not None or not is_rtx(trt) else []
    if device is not None:
        return _of_gpu(trt, _chosen(device, found))
    if is_rtx(trt):
        return PORTABLE if target is None else _of_capability(trt, target)
    if target is None:
        return _of_gpu(trt, _chosen("cuda:0", found))
    wanted = _capability(target)
    for gpu in found:
        if gpu.sm == wanted:
            return _of_gpu(trt, gpu)
    raise PlanError(
        f"target {target}: TensorRT compiles only on such a GPU, and here {_named(found)}; "
        "go to a machine that has one, or compile with flavour rtx"
    )


def list_gpus() -> list[Gpu]:
    """The GPUs of this machine; empty where there is no driver or no binding for it."""
    try:
        runtime = _cuda_runtime()
    except PlanError:
        return []
    status, count = runtime.cudaGetDeviceCount()
    if int(status) != 0:
        return []
    gpus = []
    for index in range(count):
        status, properties = runtime.cudaGetDeviceProperties(index)
        if int(status) == 0:
            name = bytes(properties.name).split(b"\0")[0].decode(errors="replace")
            gpus.append(Gpu(index, name, properties.major * 10 + properties.minor))
    return gpus


def _of_gpu(trt: Any, gpu: Gpu) -> Target:
    capabilities = ("CURRENT",) if is_rtx(trt) else ()
    return Target(f"{gpu.name} sm_{gpu.sm}", capabilities, gpu.index)


def _of_capability(trt: Any, target: str) -> Target:
    wanted = _capability(target)
    known = [name for name in trt.ComputeCapability.__members__ if name.startswith("SM")]
    if f"SM{wanted}" not in known:
        raise PlanError(
            f"target {target}: TensorRT-RTX compiles for "
            f"{', '.join(name.lower().replace('sm', 'sm_') for name in known)}; "
            "for another use flavour tensorrt on a machine with such a GPU"
        )
    return Target(f"sm_{wanted}", (f"SM{wanted}",))


def _capability(target: str) -> int:
    if (match := _SM.fullmatch(target)) is None:
        raise PlanError(f"target: {target!r} is not of the form sm_89")
    return int(match[1])


def _chosen(device: str, gpus: Sequence[Gpu]) -> Gpu:
    kind, _, index = device.partition(":")
    if kind != "cuda" or not (index or "0").isdigit():
        raise PlanError(f"device: {device!r} is not of the form cuda:N")
    for gpu in gpus:
        if gpu.index == int(index or "0"):
            return gpu
    raise PlanError(f"device {device}: here {_named(gpus)}")


def _named(gpus: Sequence[Gpu]) -> str:
    if not gpus:
        return "is no GPU that CUDA can use"
    return "are " + ", ".join(f"cuda:{gpu.index} ({gpu.name}, sm_{gpu.sm})" for gpu in gpus)


def _cuda_runtime() -> Any:
    try:
        return importlib.import_module("cuda.bindings.runtime")
    except (ImportError, OSError) as error:
        raise PlanError(f"cuda-python cannot be used ({error}); install visavis[gpu]") from error


def _check(result: tuple[Any, ...], what: str) -> None:
    if int(result[0]) != 0:
        raise PlanError(f"{what}: CUDA says {result[0]}")
