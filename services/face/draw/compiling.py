"""How the loops that draw are compiled, and where their machine code is kept.

In the user's cache, `<cache>/visavis/drawing`, or in the folder that NUMBA_CACHE_DIR names: by a
digest of what the code was made of and for, so that every checkout and every environment finds it,
and none takes another one's for its own.

What one compiled function calls is built into it: so a function that calls those of other modules
encloses a digest of them (`source_digest`), and what only such functions call is kept nowhere by
itself.
"""

from __future__ import annotations

import atexit
import hashlib
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import llvmlite
import numba
from llvmlite import binding

from visavis.bundles.store.catalogue import cache_root

log = logging.getLogger(__name__)

_UNUSED_S = 30 * 86_400
_config: Any = numba.config  # made as it is imported: no checker sees what is in it

# Nothing is divided by zero that is looked at afterwards, so nobody has to look for it.
_compiled = partial(numba.njit, nogil=True, fastmath=True, error_model="numpy")


def compiled(drawing: Callable[..., Any]) -> Any:
    """Decorator of what Python calls."""
    return _compiled(cache=True)(drawing)


# What reads the arguments of Python takes long to compile, and compiled code does without it.
inner = partial(_compiled, no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""Decorator of what compiled code alone calls."""
inlined = partial(inner, forceinline=True)
"""The same of what is small: LLVM builds it in, so it is analysed once and not at each call."""


def is_kept(drawing: Any) -> bool:
    """Whether the machine code of a compiled function is on disk."""
    name = drawing.py_func.__name__
    return any(Path(drawing.stats.cache_path).glob(f"*{name}-*.nbi"))


def source_digest(*modules: ModuleType) -> int:
    """Of their source."""
    found = hashlib.blake2b(digest_size=7)
    for module in modules:
        found.update(Path(module.__file__ or "").read_bytes())
    return int.from_bytes(found.digest(), "little")


class Kept:
    """Where the machine code of one function is kept. Numba asks it, as one of its locators."""

    def __init__(self, function: FunctionType, file: str) -> None:
        source, enclosed = Path(file), [cell.cell_contents for cell in function.__closure__ or ()]
        made_of = f"{_machine()} {enclosed} ".encode() + source.read_bytes()
        self._digest = hashlib.sha256(made_of).hexdigest()[:16]
        self._name, self._folder = source.stem, _root() / f"{source.stem}.{self._digest}"
        with suppress(OSError):
            os.utime(self._folder)  # it is used

    @classmethod
    def from_function(cls, function: FunctionType, file: str) -> Kept:
        return cls(function, file)

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return self._digest

    def get_disambiguator(self) -> str:
        return ""

    def ensure_cache_path(self) -> None:
        """Called before something is kept here: what nobody has used for a month goes."""
        self._folder.mkdir(parents=True, exist_ok=True)
        for other in self._folder.parent.glob(f"{self._name}.*"):
            with suppress(OSError):  # another process may do the same
                if other.stat().st_mtime < time.time() - _UNUSED_S:
                    shutil.rmtree(other)


# For whatever Numba keeps in this process: all of it is ours.
_config.CACHE_LOCATOR_CLASSES = f"{__name__}.{Kept.__name__}"


@cache
def _machine() -> str:
    """What else machine code depends on: this file, what compiles, and the processor."""
    how = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    versions = f"{numba.__version__} {llvmlite.__version__} {sys.version}"
    features = binding.get_host_cpu_features().flatten()
    return (
        f"{how} {versions} {binding.get_process_triple()} {binding.get_host_cpu_name()} {features}"
    )


@cache
def _root() -> Path:
    """The folder of all of it, or one of this process alone where that cannot be written."""
    root = Path(_config.CACHE_DIR or cache_root() / "visavis" / "drawing")
    try:
        root.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=root).close()
        return root
    except OSError as error:
        log.warning("what draws is compiled at each start, which takes half a minute: %s", error)
        alone = tempfile.TemporaryDirectory(prefix="visavis-drawing-")
        atexit.register(alone.cleanup)
        return Path(alone.name)
