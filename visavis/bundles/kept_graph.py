"""Keeps what ONNX Runtime has made of a network for this processor: made once, loaded ever after.

`<cache>/visavis/plans/<bundle>/<network>.<processor>.<key>.<sha256>.ort`. To write a graph anew and
to optimise it takes a third to two thirds of a recogniser's or a voice's start, and memory that is
not given back. The key stands for the bundle's files, for the code that writes graphs and for ONNX
Runtime; the digest is of the file, which is compared before it is loaded.
"""

from __future__ import annotations

import hashlib
import logging
import platform
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from visavis.bundles.compile.plans.cache import PlanCache, require_room
from visavis.bundles.compile.plans.freshness import tree_digest
from visavis.bundles.store.installed import RECORD_NAME, FileRecord, recorded_sha256

log = logging.getLogger(__name__)

T = TypeVar("T")

_DIGITS = 16
_CODE = ("bundles", "engine")


class KeptGraph:
    """The optimised graph of one network on the CPU."""

    def __init__(
        self, model: Path, written_by: str = "", *, plans: PlanCache | None = None
    ) -> None:
        """model: of a bundle; what was not pulled is not kept. written_by: the function that writes
        what is loaded instead of it.
        """
        self._model = model
        self._written_by = written_by
        self._plans = plans or PlanCache()

    def opened(self, load: Callable[[Path], T], make: Callable[[Path | None], T]) -> T:
        """The result of `load` of the kept graph, or of `make`, which writes it to a path; without
        one where it cannot be kept, which is told in the log: a start never fails for this. Blocks.
        """
        if recorded_sha256(self._model) is None:
            return make(None)
        folder = self._plans.folder / self._model.parent.name
        wanted = f"{self._model.stem}.{_processor()}.{self._key()}"
        try:
            if (found := _whole(folder, wanted)) is not None:
                return load(found)
            with self._plans.locked(f"{folder.name}.{self._model.stem}.graph"):
                if (found := _whole(folder, wanted)) is not None:  # another process has made it
                    return load(found)
                return self._made(folder, wanted, make)
        except Exception as error:  # of ONNX Runtime, too, which has types of its own
            log.warning("%s is optimised at each start, which takes longer: %s", folder.name, error)
            return make(None)

    def _made(self, folder: Path, wanted: str, make: Callable[[Path | None], T]) -> T:
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = folder / f".{wanted}"
        # An optimised graph has seldom more bytes than the published one.
        require_room(folder, "an optimised graph may", 2 * self._model.stat().st_size)
        try:
            made = make(unfinished)
            for other in folder.glob(f"{self._model.stem}.{_processor()}.*.ort"):
                other.unlink(missing_ok=True)
            unfinished.replace(folder / f"{wanted}.{_digest(unfinished)}.ort")
        finally:
            unfinished.unlink(missing_ok=True)
        return made

    def _key(self) -> str:
        told = hashlib.sha256(self._written_by.encode())
        told.update((self._model.parent / RECORD_NAME).read_bytes())
        told.update(_code().encode())
        return told.hexdigest()[:_DIGITS]


def _whole(folder: Path, wanted: str) -> Path | None:
    """The file that is what was written. All of it is read: it is about to be loaded anyway."""
    with suppress(OSError):
        for path in folder.glob(f"{wanted}.*.ort"):
            if path.suffixes[-2] == f".{_digest(path)}":
                return path
            log.warning("%s is damaged: it is made anew", path)
    return None


def _digest(path: Path) -> str:
    return FileRecord.of(path).sha256[:_DIGITS]


@cache
def _code() -> str:
    """Of what writes graphs and has them optimised."""
    here = Path(__file__).parents[1]
    packages = [f"{package} {version(package)}" for package in ("onnx", "onnxruntime")]
    return " ".join([*packages, *(tree_digest(here / name, "*.py") for name in _CODE)])


@cache
def _processor() -> str:
    """What ONNX Runtime chooses by: the instructions that there are."""
    told = f"{platform.machine()} {platform.processor()}"
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").split("\n"):
            if line.lower().startswith(("flags", "features")):
                told += line
                break
    return hashlib.sha256(told.encode()).hexdigest()[:8]
