"""Engines: one network on one device behind one interface.

Backends are imported only when asked for, so that a host without a GPU never imports TensorRT.

`base`: what every engine is: named tensors in, named tensors out.
`batching`: how many requests share a run, by what runs were measured to take.
`queueing`: which request goes next, and which go along.
`rows`: networks that several share run by run.
`in_hand`: what a lane works on, for an engine that computes elsewhere.
`lane`: one thread in front of engine work: callers ask and await.
`onnxruntime`: the backend for a CPU, and the second best on a GPU.
`parts`: a network that is run in parts.
`eight_bit_products`: what ONNX Runtime is told so that 8-bit products are exact everywhere.
`ladder`: steps down in plain sight when a place is lost.
`tensorrt`: compiled plans on a GPU.
`triton`: networks on a server that several processes share.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Protocol

from visavis.engine.base import (
    DeviceTensor,
    Engine,
    EngineOptions,
    EngineState,
    Resident,
    Tensors,
    TensorSpec,
    TritonOptions,
    host_array,
    joined_state,
    on_host,
)
from visavis.engine.batching import RunCurve
from visavis.engine.lane import EngineLane, SharedRuns
from visavis.engine.queueing import Urgency
from visavis.serving.errors import EngineLoadError


class Backend(Protocol):
    """Makes an engine, not yet loaded."""

    def __call__(
        self, model: Path, *, device: str, threads: int, options: EngineOptions
    ) -> Engine: ...


def _auto(model: Path, *, device: str, threads: int, options: EngineOptions) -> Engine:
    from visavis.engine.ladder import open_ladder

    return open_ladder(model, device=device, threads=threads, options=options)


def _onnxruntime(model: Path, *, device: str, threads: int, options: EngineOptions) -> Engine:
    from visavis.engine.onnxruntime import open_onnxruntime

    return open_onnxruntime(model, device=device, threads=threads, options=options)


def _tensorrt(
    backend: str, model: Path, *, device: str, threads: int, options: EngineOptions
) -> Engine:
    from visavis.engine.tensorrt.compiled import CompiledEngine

    return CompiledEngine(model, device=device, backend=backend, options=options)


def _triton(model: Path, *, device: str, threads: int, options: EngineOptions) -> Engine:
    from visavis.engine.triton.engine import TritonEngine

    if options.triton is None:
        raise EngineLoadError("backend triton: nothing says which server, and which model of it")
    return TritonEngine(model, options.triton)


BACKENDS: dict[str, Backend] = {
    "auto": _auto,
    "onnxruntime": _onnxruntime,
    "tensorrt": partial(_tensorrt, "tensorrt"),
    "tensorrt_rtx": partial(_tensorrt, "tensorrt_rtx"),
    "triton": _triton,
}
"""auto: TensorRT, then ONNX Runtime on the GPU, then on the CPU; see `ladder.py`."""

GPU_BACKENDS = ("tensorrt", "tensorrt_rtx")


def open_engine(
    model: Path,
    *,
    backend: str = "auto",
    device: str = "cpu",
    threads: int = 1,
    options: EngineOptions | None = None,
) -> Engine:
    """Engine for `model`, not yet loaded: call `load()` or use it as a context manager.

    Raises EngineLoadError for a backend that does not exist or is not installed, or a
    device that is not there.
    """
    if backend not in BACKENDS:
        raise EngineLoadError(f"backend: {backend!r} is none of {', '.join(BACKENDS)}")
    try:
        return BACKENDS[backend](
            model, device=device, threads=threads, options=options or EngineOptions()
        )
    except ImportError as error:
        raise EngineLoadError(f"backend {backend}: {error.name} is not installed") from error


__all__ = [
    "BACKENDS",
    "GPU_BACKENDS",
    "DeviceTensor",
    "Engine",
    "EngineLane",
    "EngineOptions",
    "EngineState",
    "Resident",
    "RunCurve",
    "SharedRuns",
    "TensorSpec",
    "Tensors",
    "TritonOptions",
    "Urgency",
    "host_array",
    "joined_state",
    "on_host",
    "open_engine",
]
