"""Inputs in the shapes of a plan's first profile, and how far two engines' outputs are apart."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from visavis.bundles.store.recipe import PlanRecipe
from visavis.engine import TensorSpec
from visavis.tools.plan_bench import dummy_inputs

Arrays = Mapping[str, np.ndarray]


def noise(recipe: PlanRecipe, specs: Mapping[str, TensorSpec], which: str) -> dict[str, np.ndarray]:
    """For tensors like `specs`, in the shape min, opt or max of the first profile."""
    ranges = recipe.profiles[0].shapes
    shapes = {
        name: tuple(getattr(ranges[name], which))
        if name in ranges
        else tuple(size or 1 for size in spec.shape)
        for name, spec in specs.items()
    }
    return dummy_inputs(specs, shapes)


def largest_error(ours: Arrays, theirs: Arrays) -> float:
    """Largest difference of any output to `theirs`, as a share of its largest value."""
    worst = 0.0
    for name, expected in theirs.items():
        assert ours[name].shape == expected.shape
        scale = max(1e-6, float(np.abs(expected.astype(np.float64)).max()))
        apart = np.abs(ours[name].astype(np.float64) - expected.astype(np.float64)).max()
        worst = max(worst, float(apart) / scale)
    return worst
