"""A network for the double of TensorRT that ONNX Runtime computes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import onnx

from tests.engine_tensorrt.recorded_trt import DataType, Network
from visavis.bundles.compile.graphs import float_graph
from visavis.bundles.store.recipe import PlanRecipe
from visavis.engine.onnxruntime import OnnxRuntimeEngine

_TYPES = {
    np.dtype(np.float32): DataType.FLOAT,
    np.dtype(np.int64): DataType.INT64,
    np.dtype(np.bool_): DataType.BOOL,
}
Shape = tuple[int, ...]


def network_of(folder: Path, recipe: PlanRecipe, workplace: Path) -> Network:
    """The float graph of `recipe`, with its profiles, as the double takes it."""
    path = workplace / f"{recipe.name}.onnx"
    onnx.save(float_graph(folder, recipe), path)
    engine = OnnxRuntimeEngine(path, device="cpu", threads=1)
    engine.load()

    @cache
    def output_shapes(named: tuple[tuple[str, Shape], ...]) -> dict[str, Shape]:
        zeros = {name: np.zeros(shape, engine.inputs[name].dtype) for name, shape in named}
        return {name: value.shape for name, value in engine.infer(zeros).items()}

    def described(specs: Mapping[str, object]) -> dict[str, tuple[DataType, Shape]]:
        return {
            spec.name: (_TYPES[spec.dtype], tuple(-1 if n is None else n for n in spec.shape))
            for spec in specs.values()  # type: ignore[attr-defined]
        }

    return Network(
        engine.infer,
        described(engine.inputs),
        described(engine.outputs),
        [
            {name: (r.min, r.opt, r.max) for name, r in profile.shapes.items()}
            for profile in recipe.profiles
        ],
        lambda shapes: output_shapes(tuple(shapes.items())),
    )
