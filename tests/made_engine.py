"""Networks without weights: each says what goes in and what comes out, and a test what it does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

import numpy as np
from numpy.typing import DTypeLike

from visavis.engine import Engine, TensorSpec

Shape = tuple[int | None, ...]


class MadeEngine(Engine):
    """Its tensors are float32 unless `kinds` says otherwise; `_infer` is its own."""

    backend = "fake"
    takes: ClassVar[Mapping[str, Shape]]
    gives: ClassVar[Mapping[str, Shape]] = MappingProxyType({})
    kinds: ClassVar[Mapping[str, DTypeLike]] = MappingProxyType({})

    def __init__(self) -> None:
        super().__init__(Path("made.onnx"), device="cpu", threads=1)

    def _load(self) -> tuple[dict[str, TensorSpec], dict[str, TensorSpec]]:
        return self._specified(self.takes), self._specified(self.gives)

    def _close(self) -> None:
        pass

    def _specified(self, shapes: Mapping[str, Shape]) -> dict[str, TensorSpec]:
        return {
            name: TensorSpec(name, np.dtype(self.kinds.get(name, np.float32)), shape)
            for name, shape in shapes.items()
        }
