"""`visavis bundle make piper`."""

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


def piper(
    network: Annotated[
        Path, typer.Argument(metavar="VOICE", help="The voice's .onnx file, as Piper exports it.")
    ],
    name: Name,
    licence: Licence,
    config: Annotated[
        Path | None, typer.Option(help="The voice's .json, where it is not VOICE.json.")
    ] = None,
    speaker: Annotated[
        str, typer.Option(help="Name or number of one speaker, where the voice has several.")
    ] = "",
    licence_note: LicenceNote = "",
    summary: Summary = "",
    model_dir: ModelDir = None,
    replace: Replace = False,
) -> None:
    """A voice out of one of Piper's (VITS). English ones can be spoken with at once.

    Speak with it: `python -m services.tts --voices NAME`, or for the whole stack
    `VISAVIS_TTS_VOICES=NAME visavis up`, and choose it on the page. Its phonemes come from the
    English voice's front end, not from espeak, whose licence is the GPL; voices of other languages
    are made, verified and compiled, but nothing here writes their phonemes.

    Example: `visavis bundle make piper en_US-joe-medium.onnx --name joe --licence CC0-1.0`
    """

    def make(say: Callable[[str], None]) -> Path:
        from visavis.makers.bundle import BundleOrder
        from visavis.makers.piper import make_piper

        order = BundleOrder(
            name, licence, licence_note, summary, model_dir=model_dir, replace=replace
        )
        return make_piper(order, network, config=config, speaker=speaker, say=say)

    make_and_show(name, model_dir, make)
