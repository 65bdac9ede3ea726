"""`visavis bundle`: make bundles out of weights of one's own, list and remove them."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from visavis.cli.bundle_hifigan import hifigan
from visavis.cli.bundle_options import ModelDir
from visavis.cli.bundle_piper import piper
from visavis.cli.bundle_tha3 import tha3
from visavis.cli.bundle_wav2lip import wav2lip
from visavis.cli.bundle_whisper import whisper

bundle_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Weights of your own: turn a model file into a bundle that the services, "
    "`visavis models` and `visavis engine` find by its name. docs/own-weights.md tells more.",
)
make_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="markdown",
    help="Make a bundle: one command for each kind of model. Each reads and checks its input, "
    "rebuilds it as ONNX and writes it with digests, licence and the shapes to compile; "
    "PyTorch is not needed, and nothing in a file is executed.",
)
bundle_app.add_typer(make_app, name="make")
make_app.command()(whisper)
make_app.command()(hifigan)
make_app.command()(piper)
make_app.command()(wav2lip)
make_app.command()(tha3)


@bundle_app.command("list")
def list_made(model_dir: ModelDir = None) -> None:
    """Show the bundles that were made on this machine."""
    from visavis.makers.bundle import made_bundles

    table = Table("bundle", "kind", "what it is", "licence", "MB", box=None)
    bundles = made_bundles(model_dir)
    for manifest in bundles:
        kind = manifest.made.maker if manifest.made is not None else ""
        size = f"{manifest.size_bytes / 1e6:,.0f}"
        table.add_row(manifest.name, kind, Text(manifest.summary), Text(manifest.licence), size)
    if bundles:
        Console().print(table)
    else:
        Console().print("None was made yet. `visavis bundle make --help` tells how.")


@bundle_app.command()
def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As `visavis bundle list` shows it.")],
    model_dir: ModelDir = None,
) -> None:
    """Delete a bundle that was made on this machine; pulled ones stay."""
    from visavis.makers.bundle import remove_bundle

    folder = remove_bundle(name, model_dir)
    Console().print(Text(f"Removed {folder}"), soft_wrap=True)
