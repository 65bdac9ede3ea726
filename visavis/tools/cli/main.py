"""The `visavis` command: one module per command, found here by its name."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from importlib.metadata import version
from io import TextIOWrapper
from typing import Annotated, Any, Final, cast

import typer
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from visavis.client.errors import GatewayError, NoGatewayError
from visavis.serving.errors import VisavisError
from visavis.serving.lifetime.open_files import allow_many
from visavis.tools.cli.leaving import INTERRUPTED, leaving_at_once

_BENCHMARKS = {
    "questions": "visavis.tools.bench.questions:questions",
    "latency": "visavis.tools.bench.latency:latency",
    "load": "visavis.tools.bench.load.command:load",
    "simulate": "visavis.tools.bench.simulate.command:simulate",
    "barge-in": "visavis.tools.bench.barge_in:barge_in",
    "partials": "visavis.tools.bench.partials:partials",
    "turns": "visavis.tools.bench.turns:turns",
    "sync": "visavis.tools.bench.sync:sync",
    "quality": "visavis.tools.bench.quality:quality",
    "face": "visavis.tools.bench.face:face",
    "drawing": "visavis.tools.bench.drawing:drawing",
    "room": "visavis.tools.bench.room.command:room",
}
_COMMANDS = {
    "up": "visavis.tools.cli.up:up",
    "restart": "visavis.tools.cli.up:restart",
    "keys": "visavis.tools.cli.up:keys",
    "ask": "visavis.tools.cli.ask:ask",
    "script": "visavis.tools.cli.script:script",
    "timeline": "visavis.tools.cli.timeline:timeline",
    "plan": "visavis.tools.plan.command:plan",
    "doctor": "visavis.tools.cli.doctor:doctor",
    "avatar": "visavis.tools.cli.avatar:avatar_app",
    "live": "visavis.tools.live:live_app",
    "cache": "visavis.tools.cli.cache:cache_app",
    "models": "visavis.tools.cli.models:models_app",
    "engine": "visavis.tools.cli.engine.commands:engine_app",
    "bench": "visavis.tools.cli.main:bench_app",
    "bundle": "visavis.tools.cli.bundle:bundle_app",
}
_MARKUP: Final = "markdown"
_PANELS_FROM = 100
"""Columns of a terminal: in fewer, the panels of a command's help cut off the names of options."""
_KEY_REFUSED = ("unauthenticated", "invalid_api_key")


class _Imported(Mapping[str, Any]):
    """Commands by name, each imported when it is asked for: all of them take a second longer."""

    def __init__(self, places: Mapping[str, str]) -> None:
        """places: name to "module:function", or "module:app" of several."""
        self._places = places

    def __getitem__(self, name: str) -> Any:
        module, _, attribute = self._places[name].partition(":")
        with leaving_at_once():
            found = getattr(import_module(module), attribute)
        holder = typer.Typer(rich_markup_mode=_MARKUP)
        if isinstance(found, typer.Typer):
            holder.add_typer(found, name=name)
        else:
            holder.command(name)(found)
        command = typer.main.get_group(holder).commands[name]
        if shutil.get_terminal_size().columns < _PANELS_FROM:
            _have_plain_help(command)
        return command

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _have_plain_help(command: Any) -> None:
    """A command, or each of a group's: the group's own, a list of them, has room anywhere."""
    if isinstance(command, TyperGroup):
        for one in command.commands.values():
            _have_plain_help(one)
    else:
        command.rich_markup_mode = None


def _group_of(places: Mapping[str, str]) -> type[TyperGroup]:
    class Group(TyperGroup):
        def __init__(self, **settings: Any) -> None:
            super().__init__(**settings)
            # Typer reads them only, once they are there.
            self.commands = cast(MutableMapping[str, Any], _Imported(places))

    return Group


bench_app = typer.Typer(
    cls=_group_of(_BENCHMARKS),
    no_args_is_help=True,
    help="Measure a running stack through its public API, as a visitor meets it. Without one, "
    "a stack is started. Definitions: docs/benchmarks.md.",
)
app = typer.Typer(
    cls=_group_of(_COMMANDS),
    no_args_is_help=True,
    rich_markup_mode=_MARKUP,
    pretty_exceptions_enable=False,
)


def _tell_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"visavis {version('visavis')}")
        raise typer.Exit


@app.callback()
def visavis(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_tell_version, is_eager=True, help="Tell the version."),
    ] = False,
) -> None:
    """A real-time digital human: speak or type to a face, and it answers with voice and lips in
    step. Start with `visavis up`.
    """


def main() -> None:
    """Run the command; an error that we know ends in one line and status 1, Ctrl-C in 130."""
    if os.path.expanduser("~") == "~":  # a user that the system does not know, as containers have
        os.environ["HOME"] = "/"  # where such a user cannot write, which is told by what tries
    if isinstance(sys.stdout, TextIOWrapper):  # an answer may hold what the terminal cannot show
        sys.stdout.reconfigure(errors="backslashreplace")
    allow_many()
    if threading.current_thread() is threading.main_thread():
        # A supervisor ends it so, and it tidies up as it does for Ctrl-C.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        app()
    except KeyboardInterrupt:  # before the command has begun
        sys.exit(INTERRUPTED)
    except VisavisError as error:
        told = str(error)
        if isinstance(error, NoGatewayError):
            told += "; start one with `visavis up`, or name another with --url"
        elif isinstance(error, GatewayError) and error.code in _KEY_REFUSED:
            # How HTTP and WebSockets carry it is for those who write clients.
            told = f"{told.partition(': send it as')[0]}: give it with --api-key or, better, in "
            told += "VISAVIS_GATEWAY_API_KEY"
        elif isinstance(error, GatewayError) and error.code == "at_capacity":
            told = told.partition(", or ask for a place")[0]  # as no command does
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        console.print("[red]visavis:[/red]", Text(told))
        sys.exit(1)
