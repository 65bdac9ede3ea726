"""The graph of each of the product's plans in 32 bits, made once for all tests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx

from visavis.bundles.compile.float_graphs import float_graph
from visavis.bundles.store import recipes_of


class FloatGraphs:
    """Files of a folder: some take seconds to make, and together they are too large for memory."""

    def __init__(self, folder: Path, bundle: Callable[[str], Path]) -> None:
        self._folder, self._bundle = folder, bundle

    def path(self, name: str, plan: str) -> Path:
        """Of the graph of a plan of the bundle `name`; skips the test if it is not pulled."""
        bundle = self._bundle(name)
        path = self._folder / f"{name}.{plan}.onnx"
        if not path.exists():
            (recipe,) = (recipe for recipe in recipes_of(name) if recipe.name == plan)
            onnx.save(float_graph(bundle, recipe), path)
        return path

    def load(self, name: str, plan: str) -> onnx.ModelProto:
        return onnx.load(self.path(name, plan))
