"""`visavis bench`: what a visitor's waiting, interrupting and watching is like, in figures."""

from __future__ import annotations

import typer

from visavis.cli.bench_latency import latency
from visavis.cli.bench_questions import questions

bench_app = typer.Typer(
    no_args_is_help=True,
    help="Measure a running stack through its public API, as a visitor meets it. Without one, "
    "a stack is started. Definitions: docs/benchmarks.md.",
)
bench_app.command()(questions)
bench_app.command()(latency)
