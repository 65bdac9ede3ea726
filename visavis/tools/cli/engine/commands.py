"""`visavis engine`: compile the networks for a GPU, and see what was compiled."""

from __future__ import annotations

import importlib
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from visavis.serving.errors import PlanError
from visavis.tools.cli.engine.output import EngineChoice
from visavis.tools.cli.engine.quality import quality
from visavis.tools.cli.engine.triton import triton_bench, triton_repository

engine_app = typer.Typer(
    name="engine",
    no_args_is_help=True,
    help="Compile the networks for an NVIDIA GPU with TensorRT.\n\n"
    "Compiled networks (plans) are kept in the cache (VISAVIS_PLAN_DIR, else "
    "XDG_CACHE_HOME/visavis/plans). TensorRT-RTX compiles without a GPU; running a plan needs "
    "one.",
)


class PrecisionName(StrEnum):
    """What `--precision` takes."""

    FP32 = "fp32"
    FP16 = "fp16"
    INT8 = "int8"


class FlavourName(StrEnum):
    """What `--flavour` takes."""

    RTX = "rtx"
    TENSORRT = "tensorrt"


Bundle = Annotated[
    str, typer.Argument(metavar="BUNDLE", help="Bundle name; see `visavis models list`.")
]
Plans = Annotated[list[str] | None, typer.Option("--plan", help="Only this plan of the bundle.")]
Precisions = Annotated[
    list[PrecisionName] | None,
    typer.Option("--precision", help="Only this precision; else every one that is offered."),
]
Device = Annotated[str | None, typer.Option(help="Compile for this GPU: cuda:N.")]
Target = Annotated[str | None, typer.Option(help="Compile for GPUs of this kind, such as sm_89.")]
Workspace = Annotated[
    int | None,
    typer.Option(min=1, metavar="MB", help="Most memory that a layer may use for its work."),
]
Flavour = Annotated[
    FlavourName | None,
    typer.Option(help="Which compiler; else tensorrt where it is installed, else rtx."),
]
ModelDir = Annotated[Path | None, typer.Option(help="Folder of the bundles, not the cache.")]
PlanDir = Annotated[Path | None, typer.Option(help="Folder of the plans, not the cache.")]


@engine_app.command("build")
def build(
    bundle: Bundle,
    plan: Plans = None,
    precision: Precisions = None,
    device: Device = None,
    target: Target = None,
    workspace: Workspace = None,
    flavour: Flavour = None,
    model_dir: ModelDir = None,
    plan_dir: PlanDir = None,
    force: Annotated[
        bool, typer.Option("--force", help="Compile even what is there and fresh.")
    ] = False,
) -> None:
    """Compile the plans of a bundle and keep them. What is there and fresh costs nothing.

    Ctrl-C ends a build; what was finished before it stays.

    Examples: visavis engine build whisper-base

    visavis engine build moonshine-tiny-en --plan encoder --precision fp16 --target sm_89
    """
    choice = _choice(plan, precision, device, target, workspace, flavour, model_dir, plan_dir)
    _work("build").build(bundle, choice, force=force)


@engine_app.command("list")
def list_plans(model_dir: ModelDir = None, plan_dir: PlanDir = None) -> None:
    """Show every plan in the cache: size, build time, for which GPU, and whether it still holds.

    A stale plan was made by another version, or from what has changed since; a damaged one is not
    what was written. Neither is loaded: `visavis engine build` makes it anew.
    """
    _work("build").list_plans(EngineChoice(model_dir=model_dir, plan_dir=plan_dir))


@engine_app.command("check")
def check(
    bundle: Annotated[list[str] | None, typer.Option(help="Only this bundle.")] = None,
    plan: Plans = None,
    precision: Precisions = None,
    device: Device = None,
    target: Target = None,
    workspace: Workspace = None,
    flavour: Flavour = None,
    model_dir: ModelDir = None,
) -> None:
    """Compile every plan of every bundle in every precision and profile; load and keep none.

    Exit status 1 if something is not compiled, or a bundle that was asked for is not here.
    """
    choice = _choice(plan, precision, device, target, workspace, flavour, model_dir, None)
    _work("build").check(bundle or [], choice)


@engine_app.command("inspect")
def inspect(
    bundle: Bundle,
    plan: Plans = None,
    precision: Precisions = None,
    device: Device = None,
    target: Target = None,
    workspace: Workspace = None,
    flavour: Flavour = None,
    model_dir: ModelDir = None,
    plan_dir: PlanDir = None,
    layers: Annotated[bool, typer.Option("--layers", help="List every layer.")] = False,
) -> None:
    """Show tensors, profiles, layers, precision and memory of plans, building what is missing.

    Memory is what the compiler expects. On a GPU (`--device`, or flavour tensorrt) the plan is
    also loaded, and what TensorRT made of it is shown.
    """
    choice = _choice(plan, precision, device, target, workspace, flavour, model_dir, plan_dir)
    _work("inspect").inspect(bundle, choice, layers=layers)


@engine_app.command("bench")
def bench(
    bundle: Bundle,
    plan: Plans = None,
    precision: Precisions = None,
    device: Annotated[str, typer.Option(help="GPU to measure on: cuda:N.")] = "cuda:0",
    workspace: Workspace = None,
    flavour: Flavour = None,
    model_dir: ModelDir = None,
    plan_dir: PlanDir = None,
    batch: Annotated[
        list[int] | None, typer.Option(min=1, help="Batch size; else 1, 2, 4, 8, 16 and 32.")
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=0.05, help="How long each engine runs at each batch size.")
    ] = 1.0,
    threads: Annotated[int, typer.Option(min=1, help="Threads of ONNX Runtime.")] = 1,
    picture: Annotated[
        Path | None, typer.Option(help="Draw latency and throughput into this SVG file.")
    ] = None,
    json_path: Annotated[
        Path | None,
        typer.Option(
            "--json",
            metavar="FILE.json",
            help="Write the figures with machine and date; `visavis plan --profiles` reads them.",
        ),
    ] = None,
) -> None:
    """Measure latency and throughput of plans against the ONNX Runtime fallback, in one run.

    Without a GPU only the fallback is measured, and the table says so.
    """
    choice = _choice(plan, precision, device, None, workspace, flavour, model_dir, plan_dir)
    _work("bench").bench(
        bundle,
        choice,
        batches=batch or None,
        seconds=seconds,
        threads=threads,
        picture=picture,
        json_path=json_path,
    )


engine_app.command("quality")(quality)
engine_app.command("triton-repository")(triton_repository)
engine_app.command("triton-bench")(triton_bench)


def _choice(
    plan: list[str] | None,
    precision: list[PrecisionName] | None,
    device: str | None,
    target: str | None,
    workspace: int | None,
    flavour: FlavourName | None,
    model_dir: Path | None,
    plan_dir: Path | None,
) -> EngineChoice:
    return EngineChoice(
        plans=tuple(plan or ()),
        precisions=tuple(item.value for item in precision or ()),
        device=device,
        target=target,
        workspace_bytes=None if workspace is None else workspace * 1_000_000,
        flavour=None if flavour is None else flavour.value,
        model_dir=model_dir,
        plan_dir=plan_dir,
    )


def _work(module: str) -> Any:
    """The module that does a command's work: the other commands need no onnx."""
    try:
        return importlib.import_module(f"visavis.tools.cli.engine.{module}")
    except ImportError as error:
        raise PlanError(f"{error.name} is not installed: pip install -e '.[onnx]'") from error
