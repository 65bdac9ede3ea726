"""Is there a GPU here, and what can be run on it? The reasons are shown where tests are skipped."""

from __future__ import annotations

from functools import cache

import onnxruntime

from visavis.bundles.compile.targets import resolve_target
from visavis.engine.tensorrt.bindings.selection import list_devices, open_binding
from visavis.engine.tensorrt.bindings.trt_api import import_trt
from visavis.serving.errors import EngineLoadError


@cache
def why_no_gpu() -> str:
    """Empty where there is one."""
    try:
        list_devices(open_binding())
    except EngineLoadError as error:
        return str(error)
    return ""


@cache
def why_no_backend(backend: str, device: str = "cuda:0") -> str:
    """Why `backend` cannot run on `device` here; empty where it can."""
    if device == "cpu":
        return ""
    if missing := why_no_gpu():
        return missing
    if backend == "onnxruntime":
        offered = onnxruntime.get_available_providers()
        return "" if "CUDAExecutionProvider" in offered else "onnxruntime without CUDA"
    if backend == "auto":
        return ""
    try:
        resolve_target(import_trt(backend), device=device)
    except EngineLoadError as error:
        return str(error)
    return ""
