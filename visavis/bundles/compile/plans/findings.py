"""What lower precision was measured to cost, and whether a plan may be built after that.

Findings of this machine lie in the plan cache and hold for the graph that was measured, by its
sha256. Those that visavis brings along hold for its bundles where nothing was measured here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from visavis.bundles.compile.plans.cache import plan_dir
from visavis.bundles.store.recipe import Precision
from visavis.serving.errors import PlanError, PlanRefusedError

SHIPPED = Path(__file__).parents[1] / "precision" / "findings.json"
_NAME = "quality.json"

_log = logging.getLogger(__name__)


class Finding(BaseModel):
    """One gate, measured."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bundle: str
    precision: Precision
    graphs: dict[str, str]
    """Plan -> sha256 of its ONNX, for all that were measured together."""
    measure: str
    """What, and in which unit."""
    sample: str
    """On what."""
    reference: float | None = None
    """In 32 bits; None where the figure itself compares."""
    value: float
    limit: float
    """How much worse than the reference it may be, or the largest value."""

    @property
    def worse_by(self) -> float:
        """What is compared with the limit; negative where the lower precision was better."""
        return round(self.value - (self.reference or 0.0), 6)

    @property
    def passed(self) -> bool:
        return self.worse_by <= self.limit

    def __str__(self) -> str:
        against = "" if self.reference is None else f" against {self.reference:.2f} in FP32"
        return (
            f"{self.measure} {self.value:.2f}{against}, {self.worse_by:+.2f} where at most "
            f"{self.limit:.2f} is allowed ({self.sample})"
        )


class _Findings(BaseModel):
    model_config = ConfigDict(extra="forbid")

    findings: list[Finding] = []


def findings_path(folder: Path | None = None) -> Path:
    """Where this machine's findings are: in the folder of the plans."""
    return plan_dir(folder) / _NAME


def read_findings(path: Path) -> list[Finding]:
    """The findings in `path`; none if there is no such file or it is damaged, which is logged."""
    try:
        return _Findings.model_validate_json(path.read_bytes()).findings
    except FileNotFoundError:
        return []
    except (OSError, ValidationError) as error:
        _log.warning("findings cannot be read", extra={"path": str(path), "error": str(error)})
        return []


def keep_findings(path: Path, new: Iterable[Finding]) -> None:
    """Write `new` into `path`; they replace older ones of the same plans, measure and precision.

    Raises PlanError where that cannot be written.
    """
    kept = {_subject(finding): finding for finding in (*read_findings(path), *new)}
    content = _Findings(findings=list(kept.values())).model_dump_json(indent=2) + "\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_name(path.name + ".new")
        beside.write_text(content, "utf-8")
        beside.replace(path)
    except OSError as error:
        raise PlanError(f"{path} cannot be written: {error.strerror}") from error


def refuse_failed(
    bundle: str, plan: str, precision: Precision, onnx_sha256: str, folder: Path | None = None
) -> None:
    """Raise PlanRefusedError, with the figure, if the graph was measured and is not good enough."""
    if precision == "fp32":
        return
    here = [
        finding
        for finding in read_findings(findings_path(folder))
        if _is_about(finding, bundle, plan, precision) and finding.graphs[plan] == onnx_sha256
    ]
    known = here or [
        finding for finding in read_findings(SHIPPED) if _is_about(finding, bundle, plan, precision)
    ]
    for finding in known:
        if not finding.passed:
            raise PlanRefusedError(
                f"{bundle} {plan} is not built in {precision}: {finding}. Build it in another "
                f"precision, or measure again: visavis engine quality {bundle}"
            )


def _is_about(finding: Finding, bundle: str, plan: str, precision: Precision) -> bool:
    return finding.bundle == bundle and plan in finding.graphs and finding.precision == precision


def _subject(finding: Finding) -> tuple[str, str, tuple[str, ...], str]:
    return finding.bundle, finding.precision, tuple(sorted(finding.graphs)), finding.measure
