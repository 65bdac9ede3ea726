"""`visavis engine triton-repository` and `triton-bench`: networks of bundles on a Triton server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from visavis.bundles.store import bundle_path, load_manifest
from visavis.bundles.store.catalogue import default_catalog
from visavis.bundles.store.manifest import BundleManifest
from visavis.bundles.triton.networks import network_name, shared_graphs
from visavis.bundles.triton.repository import ServingChoice, Written, write_network
from visavis.engine import TritonOptions
from visavis.serving.errors import InvalidInputError, ModelStoreError, UnknownNameError
from visavis.tools.cli.engine.output import megabytes
from visavis.tools.shown import Table, output_console

_PATIENCE_S = 30.0


class PlatformName(StrEnum):
    """What `--platform` takes."""

    ONNXRUNTIME = "onnxruntime"
    PYTHON = "python"
    TENSORRT = "tensorrt"


class PlanPrecision(StrEnum):
    """What `--precision` takes."""

    FP32 = "fp32"
    FP16 = "fp16"
    INT8 = "int8"


def triton_repository(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Where the repository is written.")
    ],
    bundle: Annotated[
        list[str] | None,
        typer.Argument(metavar="BUNDLE", help="Only these; else all that are here."),
    ] = None,
    network: Annotated[
        list[str] | None,
        typer.Option(
            metavar="BUNDLE.FILE",
            help="Exactly these networks; else those that are worth the way. Name the same ones in "
            "the services' setting triton_networks.",
        ),
    ] = None,
    platform: Annotated[
        PlatformName,
        typer.Option(
            help="Triton's backend. python: ONNX Runtime in it, for servers without a backend of "
            "that name; tensorrt: plans that `visavis engine build --flavour tensorrt` made."
        ),
    ] = PlatformName.ONNXRUNTIME,
    device: Annotated[str, typer.Option(help="cpu or cuda:N, as the server counts them.")] = "cpu",
    instances: Annotated[
        int, typer.Option(min=1, help="Copies of each network that run side by side.")
    ] = 1,
    threads: Annotated[int, typer.Option(min=1, help="Threads of each copy on a CPU.")] = 1,
    wait_us: Annotated[
        int,
        typer.Option(min=0, help="How long a request may wait for company in its batch, µs."),
    ] = 1000,
    precision: Annotated[
        PlanPrecision, typer.Option(help="Of plans, for --platform tensorrt.")
    ] = PlanPrecision.FP16,
    model_dir: Annotated[
        Path | None, typer.Option("--model-dir", help="Folder of the bundles, not the cache.")
    ] = None,
) -> None:
    """Write a model repository for a Triton server, whose batcher several services then share.

    Services find it by `--backend triton --triton-url HOST:8001`. docs/triton.md tells more.

    Example: visavis engine triton-repository /srv/models --device cuda:0
    """
    choice = ServingChoice(
        platform=platform.value,
        device=device,
        instances=instances,
        threads=threads,
        wait_us=wait_us,
        precision=precision.value,
    )
    console = output_console()
    try:
        written = [
            write_network(folder, model, manifest, choice)
            for manifest, model in _chosen(bundle or [], network or [], model_dir)
        ]
    except OSError as error:
        raise InvalidInputError(f"{folder}: cannot be written: {error.strerror}") from error
    if not written:
        raise ModelStoreError("no bundle is here of which a network is worth a Triton server")
    console.print(_table(written, folder))


def triton_bench(
    network: Annotated[str, typer.Argument(metavar="BUNDLE.FILE", help="What the server has.")],
    url: Annotated[str, typer.Option(help="The server's gRPC.")] = "127.0.0.1:8001",
    processes: Annotated[int, typer.Option(min=1, help="Processes that share it.")] = 2,
    askers: Annotated[
        int, typer.Option(min=1, help="Requests that each process has under way.")
    ] = 4,
    seconds: Annotated[float, typer.Option(min=0.1, help="How long each engine is asked.")] = 5.0,
    model_dir: Annotated[
        Path | None, typer.Option("--model-dir", help="Folder of the bundles, not the cache.")
    ] = None,
) -> None:
    """Measure a network on a Triton server that processes share, beside ONNX Runtime in each.

    Shows the server's own count of batches, and by how much the outputs differ. Run it where
    nobody else asks the server.

    Example: visavis engine triton-bench smart-turn.smart-turn --processes 2
    """
    from visavis.tools.triton_bench import Load, largest_difference, measure, usual_shapes

    [(manifest, model)] = _chosen([], [network], model_dir)
    recipe = next((plan for plan in manifest.plans if plan.graph == model.name), None)
    if recipe is None:
        raise UnknownNameError(f"network: no recipe tells the shapes of {network}")
    asked = TritonOptions(url, network, at_once=askers, timeout_s=_PATIENCE_S)
    load = Load(model, usual_shapes(recipe), processes, askers, seconds, asked)
    difference = largest_difference(load)
    table = Table("engine", title=f"{network}, {processes} processes")
    for heading in ("rows/s", "median ms", "95 % ms", "client CPU ms/row"):
        table.add_column(heading, justify="right")
    table.add_column("batches (size: runs)")
    for row in (measure(load), measure(replace(load, triton=None))):
        figures = (row.rows_per_s, row.median_ms, row.p95_ms, row.client_cpu_ms)
        batches = ", ".join(f"{size}: {runs}" for size, runs in row.batches.items())
        table.add_row(row.engine, *(f"{figure:,.1f}" for figure in figures), batches)
    console = output_console()
    console.print(table)
    console.print(f"largest difference from ONNX Runtime: {difference:.3g}", highlight=False)


def _chosen(
    bundles: list[str], networks: list[str], model_dir: Path | None
) -> Iterator[tuple[BundleManifest, Path]]:
    """Raises UnknownNameError where a network that was named is not there."""
    left = set(networks)
    for name in bundles or default_catalog(model_dir).names:
        try:
            manifest = load_manifest(name, model_dir)
            place = bundle_path(name, model_dir)
        except ModelStoreError:
            if bundles:
                raise
            continue
        graphs = shared_graphs(manifest)
        files = sorted(place.glob("*.onnx")) if networks else [place / g for g in graphs]
        for model in files:
            if not networks or network_name(model) in left:
                left.discard(network_name(model))
                yield manifest, model
    if left:
        raise UnknownNameError(f"network: no bundle that is here has {', '.join(sorted(left))}")


def _table(written: list[Written], folder: Path) -> Table:
    table = Table("network", title=f"Written to {folder}")
    table.add_column("largest batch", justify="right")
    table.add_column("MB", justify="right")
    for network in written:
        largest = str(network.largest_batch) if network.largest_batch else "none: each runs alone"
        table.add_row(Text(network.name), largest, megabytes(network.size_bytes))
    return table
