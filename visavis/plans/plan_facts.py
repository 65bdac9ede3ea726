"""What is known of a compiled network. Nothing here needs onnx or a compiler."""

from __future__ import annotations

from dataclasses import dataclass

COMPILER_REVISION = 1
"""Raise it when the same graph would now be compiled otherwise: cached plans are then stale."""


@dataclass(frozen=True)
class TensorInfo:
    """One input or output of the network; -1 is a free dimension."""

    name: str
    dtype: str
    """FLOAT, HALF, INT64, …: TensorRT's name."""
    shape: tuple[int, ...]
    holds_shape: bool = False
    """Its values decide the shape of others; its range in a profile is of values then."""


@dataclass(frozen=True)
class LayerInfo:
    """One layer before the compiler fuses it with its neighbours."""

    name: str
    kind: str
    dtype: str
    """Type of its first output; "" where it has none."""


@dataclass(frozen=True)
class PlanMemory:
    """What the compiler expects a plan to take on the GPU, as far as it says so."""

    weights_bytes: int = 0
    activation_bytes: int = 0
    """Of the hungriest profile, per execution context."""
    scratch_bytes: int = 0
