"""`visavis bench`: what a visitor's waiting, interrupting and watching is like, in figures."""

from __future__ import annotations

import typer

from visavis.tools.bench.barge_in import barge_in
from visavis.tools.bench.face import face
from visavis.tools.bench.latency import latency
from visavis.tools.bench.partials import partials
from visavis.tools.bench.quality import quality
from visavis.tools.bench.questions import questions
from visavis.tools.bench.sync import sync
from visavis.tools.bench.turns import turns

bench_app = typer.Typer(
    no_args_is_help=True,
    help="Measure a running stack through its public API, as a visitor meets it. Without one, "
    "a stack is started. Definitions: docs/benchmarks.md.",
)
bench_app.command()(questions)
bench_app.command()(latency)
bench_app.command("barge-in")(barge_in)
bench_app.command()(partials)
bench_app.command()(turns)
bench_app.command()(sync)
bench_app.command()(quality)
bench_app.command()(face)
