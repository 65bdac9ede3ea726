"""Run a graph that is in memory on ONNX Runtime, on the CPU."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import onnx
from numpy.typing import NDArray

from visavis.engine import open_engine

Tensors = dict[str, NDArray[Any]]


def run_float(model: onnx.ModelProto, inputs: Iterable[Tensors]) -> Iterator[Tensors]:
    """Outputs of `model` for each of `inputs`. Raises EngineError where it does not run."""
    with tempfile.TemporaryDirectory(prefix="visavis-graph-") as folder:
        path = Path(folder) / "graph.onnx"
        onnx.save(model, path)
        with open_engine(path) as engine:
            for tensors in inputs:
                wanted = {name: value for name, value in tensors.items() if name in engine.inputs}
                yield engine.infer(wanted)
