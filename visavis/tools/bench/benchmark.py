"""What every benchmark command takes, how it meets the gateway and how it hands out its figures."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from visavis.client import GatewayClient
from visavis.tools.bench.figures.report import Row, models_of, report
from visavis.tools.bench.figures.tables import Steps, counts_table, figures_table
from visavis.tools.bench.visitor.visitor import Transport as Carrier
from visavis.tools.charts import draw_spread
from visavis.tools.cli.running_gateway import running_gateway
from visavis.tools.output import check_output, write_json, write_output
from visavis.tools.shown import output_console

T = TypeVar("T")

Url: TypeAlias = Annotated[
    str, typer.Option(help="Gateway to measure. If none answers there, a stack is started.")
]
Profile: TypeAlias = Annotated[
    str, typer.Option(help="Weights of a stack that is started, and of the question set's voice.")
]
Config: TypeAlias = Annotated[
    Path | None, typer.Option(help="TOML file for a stack that is started, as for `visavis up`.")
]
Clips: TypeAlias = Annotated[
    Path | None,
    typer.Option(help="Folder of WAVs (texts as .txt beside them). Default: our question set."),
]
Language: TypeAlias = Annotated[
    str, typer.Option(help="Only clips of this language (en, zh); of clips without a label: it.")
]
Count: TypeAlias = Annotated[
    int, typer.Option(min=0, help="So many clips, spread over all of them; 0: all.")
]
Json: TypeAlias = Annotated[Path | None, typer.Option("--json", help="Write all figures here.")]
Picture: TypeAlias = Annotated[Path | None, typer.Option(help="Draw the figures into this SVG.")]

TransportOption: TypeAlias = Annotated[
    Carrier,
    typer.Option(
        help="webrtc: as the page, packets timed as they come in; websocket: live mp4, whose "
        "coder holds sound back by 20 to 60 ms, with the pictures' arrival."
    ),
]

DEFAULT_URL = "http://127.0.0.1:8080"


@dataclass
class Benchmark:
    """One run of a benchmark: the gateway that it measures, and where its figures go.

    Raises InvalidInputError at once where they could not be written.
    """

    name: str
    json_path: Path | None
    picture: Path | None = None
    url: str = DEFAULT_URL
    api_key: str = ""
    profile: str = "default"
    config: Path | None = None
    flags: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """More flags of a stack that is started, by process."""
    replicas: Mapping[str, int] = field(default_factory=dict)
    """How many there are to be of a process in a stack that is started, where not one."""
    console: Console = field(default_factory=partial(output_console, highlight=False))
    services: list[dict[str, Any]] = field(default_factory=list)
    """What the gateway tells of each replica, once `measure` has been called."""

    def __post_init__(self) -> None:
        check_output(self.json_path, ".json")
        check_output(self.picture, ".svg")

    def measure(
        self, total: int, begins: str, work: Callable[[GatewayClient, Steps], Awaitable[T]]
    ) -> T:
        """What `work` makes of the gateway in `total` steps; it starts where none answers."""

        async def run() -> T:
            gateway = running_gateway(
                self.url,
                self.api_key,
                self.profile,
                self.console,
                command="bench",
                config=self.config,
                flags=self.flags,
                replicas=self.replicas,
            )
            async with gateway as client:
                self.services = (await client.call("GET", "/v1/services")).json()["services"]
                with Steps(self.console, total, begins) as steps:
                    return await work(client, steps)

        return asyncio.run(run())

    def hand_out(
        self,
        title: str,
        rows: Sequence[Row],
        *,
        counts: Mapping[str, float],
        turns: Sequence[Mapping[str, Any]],
        settings: Mapping[str, Any],
        notes: Sequence[str] = (),
        groups: Mapping[str, Any] | None = None,
    ) -> None:
        """Print the figures and write what was asked for; arguments as for `report`."""
        self.console.print(figures_table(title, rows) if rows else Text(title))
        self.console.print(counts_table(counts))
        for note in notes:
            self.console.print(Text(f"Note: {note}", "yellow"))
        told = {"counts": counts, "turns": turns, "settings": settings, "notes": notes}
        if self.write_json(rows, **told, groups=groups):
            self.console.print(Text(f"Figures: {self.json_path}"))
        if self.picture is not None:
            write_output(self.picture, draw_spread(title, rows))
            self.console.print(Text(f"Picture: {self.picture}"))

    def write_json(self, rows: Sequence[Row], **result: Any) -> bool:
        """Write the report where one was asked for; whether it was. result: as for `report`."""
        if self.json_path is None:
            return False
        figures = report(self.name, rows, models=models_of(self.services), **result)
        write_json(self.json_path, figures)
        return True
