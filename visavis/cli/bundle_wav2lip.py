"""`visavis bundle make wav2lip`."""

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


def wav2lip(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="CHECKPOINT",
            help="The generator's .pth as it was published or trained, or its tensors as "
            ".safetensors or .npz. Nothing in it is executed.",
        ),
    ],
    name: Name,
    licence: Licence,
    licence_note: LicenceNote = "",
    summary: Summary = "",
    model_dir: ModelDir = None,
    replace: Replace = False,
) -> None:
    """Mouths painted from the voice: any checkpoint of Wav2Lip's generator at 96 x 96.

    Show a face with it: `python -m services.face --engine wav2lip --engine-bundle NAME`, or for
    the whole stack `VISAVIS_FACE_ENGINE=wav2lip VISAVIS_FACE_ENGINE_BUNDLE=NAME visavis up`.

    Example: `visavis bundle make wav2lip wav2lip_gan.pth --name my-mouths --licence proprietary`
    """

    def make(say: Callable[[str], None]) -> Path:
        from visavis.makers.bundle import BundleOrder
        from visavis.makers.wav2lip import make_wav2lip

        order = BundleOrder(
            name, licence, licence_note, summary, model_dir=model_dir, replace=replace
        )
        return make_wav2lip(order, source, say=say)

    make_and_show(name, model_dir, make)
