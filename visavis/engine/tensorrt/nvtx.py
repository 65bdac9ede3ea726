"""Named ranges for Nsight Systems, where the `nvtx` package is installed; nothing elsewhere.

See a running service's queue, copies and inference on one timeline:

    nsys profile -t cuda,nvtx -o tts python -m services.tts --device cuda:0
"""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager, nullcontext
from typing import Any


def _import() -> Any | None:
    try:
        return importlib.import_module("nvtx")
    except ImportError:
        return None


_nvtx = _import()
_nothing = nullcontext()


def span(name: str) -> AbstractContextManager[Any]:
    """The work inside, as a range of this thread."""
    if _nvtx is None:
        return _nothing
    range_: AbstractContextManager[Any] = _nvtx.annotate(name, domain="visavis")
    return range_


def start(name: str) -> Any:
    """Begin a range that another thread may `end`: waiting in a queue."""
    return _nvtx.start_range(name, domain="visavis") if _nvtx is not None else None


def end(range_: Any) -> None:
    if _nvtx is not None and range_ is not None:
        _nvtx.end_range(range_)
