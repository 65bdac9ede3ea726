"""Options that the benchmarks share, and what they mean."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from visavis.tools.bench.visitor import Transport as Carrier

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
