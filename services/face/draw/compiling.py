"""How the loops that draw are compiled, and when compiled ones are too old.

What one compiled function calls is built into it. Its cache on disk is kept by its own file and by
what it encloses: so a function that calls those of other modules encloses a digest of them
(`source_digest`), and what only such functions call is kept nowhere by itself.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numba

# Nothing is divided by zero that is looked at afterwards, so nobody has to look for it.
_compiled = partial(numba.njit, nogil=True, fastmath=True, error_model="numpy")


def compiled(drawing: Callable[..., Any]) -> Any:
    """Decorator of what Python calls. It is kept on disk, beside its source or else in the user's
    cache; where neither can be written in, it is compiled anew in each process.
    """
    try:
        return _compiled(cache=True)(drawing)
    except RuntimeError:  # Numba's "no locator available"
        return _compiled(drawing)


# What reads the arguments of Python takes long to compile, and compiled code does without it.
inner = partial(_compiled, no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""Decorator of what compiled code alone calls."""
inlined = partial(inner, forceinline=True)
"""The same of what is small: LLVM builds it in, so it is analysed once and not at each call."""


def is_kept(drawing: Any, *modules: ModuleType) -> bool:
    """Whether a compiled function, which calls those of other modules, is in its cache on disk,
    and none of them was changed since.
    """
    if drawing.stats.cache_path is None:
        return False
    own = Path(inspect.getfile(drawing.py_func))
    sources = [own, *(Path(module.__file__ or "") for module in modules)]
    changed_s = max(source.stat().st_mtime for source in sources)
    found = Path(drawing.stats.cache_path).glob(f"{own.stem}.*.nbi")
    return any(index.stat().st_mtime > changed_s for index in found)


def source_digest(*modules: ModuleType) -> int:
    """Of their source."""
    found = hashlib.blake2b(digest_size=7)
    for module in modules:
        found.update(Path(module.__file__ or "").read_bytes())
    return int.from_bytes(found.digest(), "little")
