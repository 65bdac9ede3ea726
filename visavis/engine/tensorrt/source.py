"""Where an engine's plan comes from: a `.plan` file, or whoever compiles its model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from visavis.engine.tensorrt.bindings.device import DeviceInfo
from visavis.serving.errors import EngineLoadError


class PlanSource(Protocol):
    """Gives one serialised plan."""

    @property
    def name(self) -> str:
        """What messages and metrics call the plan."""
        ...

    def read(self, trt: Any, device: DeviceInfo) -> bytes:
        """The plan for this module and device. Raises EngineLoadError."""
        ...


@dataclass(frozen=True)
class PlanFile:
    """A plan that somebody compiled; TensorRT itself refuses one of another version or GPU."""

    path: Path

    @property
    def name(self) -> str:
        """The file's."""
        return self.path.name

    def read(self, trt: Any, device: DeviceInfo) -> bytes:
        """The file's content. Raises EngineLoadError."""
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise EngineLoadError(f"{self.path}: cannot be read: {error.strerror}") from error


PlanFinder = Callable[[Path], Mapping[str, PlanSource]]
"""The compiled plans of a model by name, several where it is compiled in parts.

Raises EngineLoadError where nothing says how to compile it.
"""


def sources_of(model: Path, plans: PlanFinder | None) -> Mapping[str, PlanSource]:
    """The plans of `model`: itself where it is one, else those that `plans` finds.

    Raises EngineLoadError where there are none.
    """
    if not model.is_file():
        raise EngineLoadError(f"{model}: no such model; run `visavis models pull`")
    if model.suffix == ".plan":
        return {"": PlanFile(model)}
    if plans is None:
        raise EngineLoadError(f"{model.name}: not compiled, and nothing here compiles it")
    return plans(model)
