"""`visavis doctor`: what is installed, what is here, what is wrong and how to mend it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from visavis.bundles.store.catalogue import default_catalog, default_model_dir
from visavis.serving.errors import ModelStoreError
from visavis.tools.cli.doctor_checks import (
    Finding,
    Level,
    check_disk,
    check_engines,
    check_gpus,
    check_machine,
    check_memory,
    check_nats,
    check_packages,
    check_port,
    check_weights,
)
from visavis.tools.shown import Table, output_console

_COLOURS = {Level.OK: "green", Level.NOTE: "yellow", Level.WRONG: "red"}


def examine(profile: str, model_dir: Path | None, host: str, port: int) -> Iterator[Finding]:
    """Every finding, in the order of the report; ModelStoreError if there is no such profile."""
    catalog = default_catalog(model_dir)
    folder = default_model_dir(model_dir)
    catalog.profile(profile)
    yield from check_machine()
    yield from check_memory(catalog, folder, profile)
    yield from check_gpus()
    yield from check_packages()
    yield from check_engines()
    yield from check_nats()
    yield from check_disk(catalog, folder, profile)
    yield from check_weights(catalog, folder, profile)
    yield from check_port(host, port)


def doctor(
    profile: Annotated[
        str, typer.Option("--profile", "-p", help="Set of weights that is to run.")
    ] = "default",
    model_dir: Annotated[
        Path | None, typer.Option(help="Folder of the bundles, instead of the user's cache.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address of the page.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page.")] = 8080,
) -> None:
    """Say what is installed, which devices and weights are here, and what is wrong.

    Ends with status 1 if something that is needed is missing; every such line comes
    with the command that mends it.
    """
    console = output_console()
    try:
        with console.status("Looking …"):
            findings = list(examine(profile, model_dir, host, port))
    except ModelStoreError as error:
        Console(stderr=True).print(Text.assemble(("visavis: ", "red"), str(error)), soft_wrap=True)
        raise typer.Exit(1) from error
    table = Table()
    table.add_column("what", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("found", overflow="fold")
    for item in findings:
        table.add_row(
            Text(item.what), Text(item.level.value, _COLOURS[item.level]), Text(item.detail)
        )
    console.print(table)
    _advise(console, findings)
    if any(item.level is Level.WRONG for item in findings):
        raise typer.Exit(1)


def _advise(console: Console, findings: list[Finding]) -> None:
    """What to do, one line per finding that has a remedy."""
    mending = [item for item in findings if item.remedy and item.level is not Level.OK]
    if not mending:
        console.print("[green]All is well.[/green] Start with `visavis up`.")
        return
    for item in mending:
        line = Text.assemble((item.what, _COLOURS[item.level]), f": {item.remedy}")
        console.print(line, soft_wrap=True)
