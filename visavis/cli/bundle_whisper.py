"""`visavis bundle make whisper`."""

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


def whisper(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="Folder of transformers (config.json, model.safetensors, tokenizer.json) or of "
            "CTranslate2 (model.bin, tokenizer.json), or a .pt file of OpenAI.",
        ),
    ],
    name: Name,
    licence: Licence,
    tokenizer: Annotated[
        Path | None,
        typer.Option(help="tokenizer.json, where none lies beside the weights."),
    ] = None,
    exact: Annotated[
        bool,
        typer.Option(help="Compute on float32 on the CPU too: slower, three times the memory."),
    ] = False,
    licence_note: LicenceNote = "",
    summary: Summary = "",
    model_dir: ModelDir = None,
    replace: Replace = False,
) -> None:
    """A recogniser out of any Whisper: every size, distilled, turbo, fine-tuned, English only.

    Hear with it: `python -m services.asr --recognisers NAME`, or for the whole stack
    `VISAVIS_ASR_RECOGNISERS=NAME visavis up`. It takes the languages that it knows; the
    recognisers of the profile keep the others.

    Example: `visavis bundle make whisper ~/whisper-small-de --name whisper-small-de --licence MIT`
    """

    def make(say: Callable[[str], None]) -> Path:
        from visavis.makers.bundle import BundleOrder
        from visavis.makers.whisper import make_whisper

        order = BundleOrder(
            name, licence, licence_note, summary, model_dir=model_dir, replace=replace
        )
        return make_whisper(order, source, tokenizer=tokenizer, exact=exact, say=say)

    make_and_show(name, model_dir, make)
