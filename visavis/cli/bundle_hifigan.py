"""`visavis bundle make hifigan`."""

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


def hifigan(
    weights: Annotated[
        Path,
        typer.Argument(
            metavar="WEIGHTS",
            help="The generator: a PyTorch checkpoint (g_…, .pth, .pt), .safetensors or .npz, with "
            "weight norm or without.",
        ),
    ],
    name: Name,
    licence: Licence,
    config: Annotated[
        Path | None,
        typer.Option(help="config.json of the training, where it does not lie beside WEIGHTS."),
    ] = None,
    licence_note: LicenceNote = "",
    summary: Summary = "",
    model_dir: ModelDir = None,
    replace: Replace = False,
) -> None:
    """A vocoder out of a HiFi-GAN generator, V1, V2 or V3: mel in, sound out.

    The bundle holds vocoder.onnx and, in vocoder.json, what its mel has to be like. It is for
    acoustic models of your own: no voice of ours makes that mel.

    Example: `visavis bundle make hifigan generator_universal.pth.tar --name hifigan-universal
    --licence MIT`
    """

    def make(say: Callable[[str], None]) -> Path:
        from visavis.makers.bundle import BundleOrder
        from visavis.makers.hifigan import make_hifigan

        order = BundleOrder(
            name, licence, licence_note, summary, model_dir=model_dir, replace=replace
        )
        return make_hifigan(order, weights, config=config, say=say)

    make_and_show(name, model_dir, make)
