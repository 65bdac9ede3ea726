"""The `visavis` command: one module per command, mounted here."""

from __future__ import annotations

import sys

import typer
from rich.console import Console
from rich.text import Text

from visavis.cli.ask import ask
from visavis.cli.avatar import avatar_app
from visavis.cli.bench import bench_app
from visavis.cli.bundle import bundle_app
from visavis.cli.cache import cache_app
from visavis.cli.doctor import doctor
from visavis.cli.engine import engine_app
from visavis.cli.models import models_app
from visavis.cli.script import script
from visavis.cli.timeline import timeline
from visavis.cli.up import up
from visavis.errors import VisavisError

app = typer.Typer(
    name="visavis",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="A real-time digital human: speak or type to a face, and it answers "
    "with voice and lips in step. Start with `visavis up`.",
)
app.command()(up)
app.command()(ask)
app.command()(script)
app.command()(timeline)
app.add_typer(avatar_app, name="avatar")
app.add_typer(cache_app, name="cache")
app.add_typer(models_app, name="models")
app.add_typer(engine_app, name="engine")
app.add_typer(bench_app, name="bench")
app.add_typer(bundle_app, name="bundle")
app.command()(doctor)


def main() -> None:
    """Run the command; an error that we know ends in one line and status 1."""
    try:
        app()
    except VisavisError as error:
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        console.print("[red]visavis:[/red]", Text(str(error)))
        sys.exit(1)
