"""What every `visavis bundle make …` takes, and what it shows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from visavis.bundles.store import load_manifest
from visavis.bundles.store.manifest import BundleManifest
from visavis.serving.errors import ModelStoreError

Name = Annotated[
    str,
    typer.Option("--name", "-n", help="Name of the bundle: a-z, 0-9, '.' and '-'."),
]
Licence = Annotated[
    str,
    typer.Option(
        "--licence",
        "-l",
        help="Terms of these weights: an SPDX name such as MIT, or your words. "
        "`visavis models licences` and the page show it.",
    ),
]
LicenceNote = Annotated[
    str, typer.Option(help="What the short name does not say: corpus terms, whom to credit.")
]
Summary = Annotated[str, typer.Option(help="One line about the model, instead of our own.")]
ModelDir = Annotated[
    Path | None, typer.Option(help="Folder of the bundles, instead of the user's cache.")
]
Replace = Annotated[
    bool, typer.Option("--replace", help="Take the place of a bundle of this name made earlier.")
]


def make_and_show(
    name: str, model_dir: Path | None, make: Callable[[Callable[[str], None]], Path]
) -> None:
    """Run a maker with a line about what it does; then show what was made, and what comes next."""
    console = Console()
    try:
        with console.status(f"Making {name} …") as status:
            folder = make(lambda line: status.update(Text(f"{name}: {line} …")))
    except ImportError as error:
        raise ModelStoreError(
            f"making bundles needs a package that is not installed ({error}); "
            'run `pip install "visavis[onnx]"`'
        ) from error
    manifest = load_manifest(name, model_dir)
    _show_files(console, manifest)
    console.print(Text(f"Made {folder}"), soft_wrap=True)
    if manifest.plans:
        console.print(
            Text(
                f"`visavis engine check --bundle {name}` compiles it for a GPU; no GPU is needed "
                "for that."
            )
        )


def _show_files(console: Console, manifest: BundleManifest) -> None:
    table = Table(title=f"{manifest.name}: {manifest.summary}", title_justify="left")
    table.add_column("file", no_wrap=True)
    table.add_column("MB", justify="right")
    table.add_column("sha256", overflow="ellipsis", no_wrap=True)
    assert manifest.made is not None  # it was made a moment ago
    for file in manifest.made.files:
        table.add_row(file.path, f"{file.size_bytes / 1e6:,.1f}", file.sha256)
    console.print(table)
