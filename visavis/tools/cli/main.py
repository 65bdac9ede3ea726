"""The `visavis` command: one module per command, mounted here."""

from __future__ import annotations

import sys
from io import TextIOWrapper

import typer
from rich.console import Console
from rich.text import Text

from visavis.client.errors import NoGatewayError
from visavis.serving.errors import VisavisError
from visavis.tools.bench.barge_in import barge_in
from visavis.tools.bench.drawing import drawing
from visavis.tools.bench.face import face
from visavis.tools.bench.latency import latency
from visavis.tools.bench.load.command import load
from visavis.tools.bench.partials import partials
from visavis.tools.bench.quality import quality
from visavis.tools.bench.questions import questions
from visavis.tools.bench.room.command import room
from visavis.tools.bench.simulate.command import simulate
from visavis.tools.bench.sync import sync
from visavis.tools.bench.turns import turns
from visavis.tools.cli.ask import ask
from visavis.tools.cli.avatar import avatar_app
from visavis.tools.cli.bundle import bundle_app
from visavis.tools.cli.cache import cache_app
from visavis.tools.cli.doctor import doctor
from visavis.tools.cli.engine.commands import engine_app
from visavis.tools.cli.models import models_app
from visavis.tools.cli.script import script
from visavis.tools.cli.timeline import timeline
from visavis.tools.cli.up import keys, restart, up
from visavis.tools.live import live_app
from visavis.tools.plan.command import plan

bench_app = typer.Typer(
    no_args_is_help=True,
    help="Measure a running stack through its public API, as a visitor meets it. Without one, "
    "a stack is started. Definitions: docs/benchmarks.md.",
)
bench_app.command()(questions)
bench_app.command()(latency)
bench_app.command()(load)
bench_app.command()(simulate)
bench_app.command("barge-in")(barge_in)
bench_app.command()(partials)
bench_app.command()(turns)
bench_app.command()(sync)
bench_app.command()(quality)
bench_app.command()(face)
bench_app.command()(drawing)
bench_app.command()(room)

app = typer.Typer(
    name="visavis",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    help="A real-time digital human: speak or type to a face, and it answers "
    "with voice and lips in step. Start with `visavis up`.",
)
app.command()(up)
app.command()(restart)
app.command()(keys)
app.command()(ask)
app.command()(script)
app.command()(timeline)
app.command()(plan)
app.add_typer(avatar_app, name="avatar")
app.add_typer(live_app, name="live")
app.add_typer(cache_app, name="cache")
app.add_typer(models_app, name="models")
app.add_typer(engine_app, name="engine")
app.add_typer(bench_app, name="bench")
app.add_typer(bundle_app, name="bundle")
app.command()(doctor)


def main() -> None:
    """Run the command; an error that we know ends in one line and status 1."""
    if isinstance(sys.stdout, TextIOWrapper):  # an answer may hold what the terminal cannot show
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        app()
    except VisavisError as error:
        told = str(error)
        if isinstance(error, NoGatewayError):
            told += "; start one with `visavis up`, or name another with --url"
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        console.print("[red]visavis:[/red]", Text(told))
        sys.exit(1)
