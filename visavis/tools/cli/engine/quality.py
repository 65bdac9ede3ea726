"""`visavis engine quality`: what lower precision costs, measured."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from visavis.bundles.compile.plans.findings import Finding, findings_path, keep_findings
from visavis.bundles.store import load_manifest
from visavis.bundles.store.catalogue import pullable_catalog
from visavis.bundles.store.recipe import Precision
from visavis.serving.errors import ModelStoreError, PlanError
from visavis.tools.shown import Table, output_console

_CLIPS = Path(__file__).parents[4] / "tests" / "clips"


class LowerPrecision(StrEnum):
    """What `--precision` takes."""

    FP16 = "fp16"
    INT8 = "int8"


Clips = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        file_okay=False,
        help="Folder of recordings NAME.wav with NAME.txt, other languages than English in folders "
        "of their code; else the source tree's tests/clips.",
    ),
]


def quality(
    bundle: Annotated[
        list[str] | None,
        typer.Argument(metavar="BUNDLE", help="Only these; else all that are pulled."),
    ] = None,
    precision: Annotated[
        list[LowerPrecision] | None, typer.Option(help="Only this precision; else both.")
    ] = None,
    clips: Clips = None,
    model_dir: Annotated[
        Path | None, typer.Option("--model-dir", help="Folder of the bundles, not the cache.")
    ] = None,
    plan_dir: Annotated[
        Path | None, typer.Option("--plan-dir", help="Folder of the plans, not the cache.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(help="Keep the figures in this file too.", dir_okay=False)
    ] = None,
) -> None:
    """Measure FP16 and INT8 against FP32, on the CPU: recognisers by their word errors, voices by
    mel-cepstral distortion, the face by its visemes.

    The figures are kept beside the plans, and `visavis engine build` refuses what failed. Exit
    status 1 if something did.

    Examples: visavis engine quality

    visavis engine quality hibari-en --precision int8
    """
    # Quantising needs packages that no other command wants.
    try:
        from visavis.tools.precision.gates import Gates
    except ImportError as error:
        raise PlanError(f"{error.name} is not installed: pip install -e '.[onnx]'") from error

    console = output_console()
    if clips is None and _CLIPS.is_dir():
        clips = _CLIPS
    absent: list[str] = []
    found: list[Finding] = []
    with console.status("Starting …") as status:
        gates = Gates(model_dir, clips, lambda what: status.update(f"Measuring: {what} …"))
        for name in bundle or [n for n in pullable_catalog().names if load_manifest(n).plans]:
            try:
                for finding in gates.measure(name, _chosen(precision)):
                    found.append(finding)
                    keep_findings(findings_path(plan_dir), [finding])
            except ModelStoreError as error:
                if bundle:
                    raise
                absent.append(str(error))
    if record is not None:
        keep_findings(record, found)
    _show(console, found, absent)
    if not found or not all(finding.passed for finding in found):
        raise typer.Exit(1)


def _chosen(precision: list[LowerPrecision] | None) -> tuple[Precision, ...]:
    return tuple(item.value for item in precision or LowerPrecision)


def _show(console: Console, found: list[Finding], absent: list[str]) -> None:
    """absent: why bundles that nobody named were left out."""
    console.print(findings_table(found))
    for reason in absent:
        console.print(Text(f"not measured: {reason}", "yellow"), soft_wrap=True)
    passed = sum(finding.passed for finding in found)
    console.print(f"{passed} passed, {len(found) - passed} failed", highlight=False)


def findings_table(findings: list[Finding]) -> Table:
    """One line for each gate."""
    table = Table("bundle", "precision", "measure")
    for heading in ("FP32", "lower", "worse by", "limit"):
        table.add_column(heading, justify="right")
    table.add_column("")
    table.add_column("on")
    for finding in findings:
        plans = ", ".join(finding.graphs)
        table.add_row(
            Text(finding.bundle),
            Text(f"{finding.precision} {plans}" if finding.precision == "int8" else "fp16"),
            finding.measure,
            "" if finding.reference is None else f"{finding.reference:.2f}",
            f"{finding.value:.2f}",
            f"{finding.worse_by:+.2f}",
            f"{finding.limit:.1f}",
            Text("passed", "green") if finding.passed else Text("refused", "red"),
            finding.sample,
        )
    return table
