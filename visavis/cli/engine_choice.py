"""What the options of `visavis engine` say."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from visavis.plans.recipe import Precision


@dataclass(frozen=True)
class EngineChoice:
    """Options that the commands share; empty or None: the default."""

    plans: tuple[str, ...] = ()
    precisions: tuple[Precision, ...] = ()
    device: str | None = None
    target: str | None = None
    workspace_bytes: int | None = None
    flavour: str | None = None
    model_dir: Path | None = None
    plan_dir: Path | None = None
