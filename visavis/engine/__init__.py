"""Engines: one network on one device behind one interface.

Backends are imported only when asked for, so that a host without a GPU never
imports TensorRT.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from visavis.engine.base import Engine, Tensors, TensorSpec
from visavis.engine.lane import EngineLane
from visavis.errors import EngineLoadError


def _onnxruntime() -> type[Engine]:
    from visavis.engine.onnxruntime import OnnxRuntimeEngine

    return OnnxRuntimeEngine


BACKENDS: dict[str, Callable[[], type[Engine]]] = {"onnxruntime": _onnxruntime}


def open_engine(
    model: Path, *, backend: str = "onnxruntime", device: str = "cpu", threads: int = 1
) -> Engine:
    """Engine for `model`, not yet loaded: call `load()` or use it as a context manager.

    Raises EngineLoadError for a backend that does not exist or is not installed.
    """
    if backend not in BACKENDS:
        raise EngineLoadError(f"backend: {backend!r} is none of {', '.join(BACKENDS)}")
    try:
        engine_class = BACKENDS[backend]()
    except ImportError as error:
        raise EngineLoadError(f"backend {backend}: {error.name} is not installed") from error
    return engine_class(model, device=device, threads=threads)


__all__ = ["BACKENDS", "Engine", "EngineLane", "TensorSpec", "Tensors", "open_engine"]
