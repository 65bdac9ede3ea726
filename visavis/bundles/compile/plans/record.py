"""What is known of a compiled plan, and the sidecar file that keeps it beside the plan.

The sidecar says what it was compiled from, for what, and its digest. Nothing here needs onnx or a
compiler.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from visavis.bundles.store.recipe import Precision, ProfileSpec

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


@dataclass(frozen=True)
class PlanKey:
    """All that decides what the compiler writes."""

    compiler: str
    """Flavour and version, for example `tensorrt_rtx 1.7.1.116`."""
    target: str
    """`portable`, `sm_89`, or a GPU's name with its capability."""
    onnx_sha256: str
    profiles_sha256: str
    workspace_bytes: int | None
    revision: int = COMPILER_REVISION

    @property
    def digest(self) -> str:
        """24 hexadecimal digits that stand for the key in file names."""
        told = "\n".join(f"{name}={value}" for name, value in asdict(self).items())
        return hashlib.sha256(told.encode()).hexdigest()[:24]


def profiles_digest(profiles: tuple[ProfileSpec, ...]) -> str:
    """sha256 of the profiles; their order counts, because a plan knows them by number."""
    told = "\n".join(profile.model_dump_json() for profile in profiles)
    return hashlib.sha256(told.encode()).hexdigest()


class PlanRecord(BaseModel):
    """What stands in the sidecar. Written last: a plan without one is not complete."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal[1] = 1
    bundle: str
    plan: str
    precision: Precision
    key: PlanKey
    source_sha256: str
    """Of the bundle's files, the recipe and the code that makes the graph."""
    plan_sha256: str
    size_bytes: int
    profiles: tuple[ProfileSpec, ...]
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    layers: dict[str, int]
    """`KIND DTYPE` -> how many, before fusion."""
    memory: PlanMemory
    build_s: float
    built_at: datetime
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the files without their suffix."""
        return f"{self.plan}.{self.precision}.{self.key.digest}"


def read_record(path: Path) -> PlanRecord | str:
    """The sidecar at `path`, or what is wrong with it."""
    try:
        return PlanRecord.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return "its sidecar is missing"
    except OSError as error:
        return f"its sidecar cannot be read: {error.strerror}"
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"]) or "its text"
        return f"its sidecar is of another version or damaged ({where})"
