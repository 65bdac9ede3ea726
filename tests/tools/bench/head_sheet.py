"""Heads looked at: python -m tests.tools.bench.head_sheet SHEET.jpg [BUNDLE …]

Draws heads with the engine that visitors see, at rest, in five visemes, with three emotions, turned
both ways and with eyes shut, and puts them side by side, so that somebody can look at them. Of each
head a line is printed: how alike the picture at rest is to the portrait that Blender rendered.

- `skin`: structural similarity (Wang et al. 2004: grey, Gaussian of 1.5 pixels), mean over pixels
  that show skin, the lips among it;
- `head`: over all that is not background, so hair, eyes and clothes as well;
- `picture`: over the whole of it, most of which is the same background;
- `skin_off`: mean difference of the skin's colours, of 255.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.draw.pose import FacePose
from services.face.engines.head.model import Model
from services.face.engines.head.renderer import HeadRenderer, thread_work
from services.face.engines.head.store import BUILTIN_FOLDER, HeadStore
from services.face.life.expressions import express, offsets_of
from tests.tools.bench.portrait_sheet import POSES as MOUTHS

RGB = NDArray[np.uint8]

_TURN = np.deg2rad(20)
_COLUMNS = 6
_FIXED = (0.01 * 255) ** 2, (0.03 * 255) ** 2
_COVERED = 128 << 24
"""What alpha says of a pixel that shows hair."""
_MOSTLY_HEAD = 8
"""Of 255: the background beneath a head differs from the portrait by more."""


def _felt(style: str) -> FacePose:
    return FacePose.from_vector(express(FacePose().vector(), offsets_of(style)))


POSES = {
    **{name: MOUTHS[name] for name in ("rest", "ah", "oo", "ee", "f", "th")},
    "happy": _felt("happy"),
    "sad": _felt("sad"),
    "surprised": _felt("surprised"),
    "turned left": FacePose(yaw=-_TURN),
    "turned right": FacePose(yaw=_TURN),
    "blinking": FacePose(blink_left=1.0, blink_right=1.0),
}


def ssim(one: RGB, other: RGB) -> NDArray[np.float64]:
    """Of each pixel of two RGB pictures of one size, [h, w], 1 where they are the same."""
    x, y = (cv2.cvtColor(side, cv2.COLOR_RGB2GRAY).astype(np.float64) for side in (one, other))

    def mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(cv2.GaussianBlur(values, (11, 11), 1.5))

    mx, my = mean(x), mean(y)
    spread = mean(x * x) - mx * mx + mean(y * y) - my * my
    together = mean(x * y) - mx * my
    light, rest = _FIXED
    alike = (2 * mx * my + light) * (2 * together + rest)
    return alike / ((mx * mx + my * my + light) * (spread + rest))


def sized(picture: RGB, size: int) -> RGB:
    """Made as large as that."""
    how = cv2.INTER_AREA if len(picture) > size else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(picture, (size, size), interpolation=how), np.uint8)


def skin_of(model: Model) -> NDArray[np.bool_]:
    """Pixels that show skin in what this thread drew last, [size, size]."""
    work = thread_work(model)
    shown = work.triangles()
    hair = work.clear.reshape(shown.shape) >= _COVERED
    return np.asarray((shown >= 0) & (shown < model.skin) & ~hair)


def alike(drawn: RGB, skin: NDArray[np.bool_], portrait: RGB, background: RGB) -> dict[str, float]:
    """The figures of one head; see the module. All of them [size, size, …]."""
    found = ssim(drawn, portrait)
    differs = np.abs(portrait.astype(int) - background).max(axis=-1) > _MOSTLY_HEAD
    head = cv2.morphologyEx(differs.astype(np.uint8), cv2.MORPH_CLOSE, np.ones((9, 9))) > 0
    return {
        "skin": round(float(found[skin].mean()), 3),
        "head": round(float(found[head].mean()), 3),
        "picture": round(float(found.mean()), 3),
        "skin_off": round(float(np.abs(drawn.astype(int) - portrait)[skin].mean()), 1),
    }


def picture_of(folder: Path, name: str) -> RGB:
    """A PNG of a bundle."""
    pixels = cv2.imread(str(folder / name))
    if pixels is None:
        raise SystemExit(f"{folder / name} is no picture")
    return np.ascontiguousarray(pixels[..., ::-1], np.uint8)


def tell(folder: Path, size: int) -> list[RGB]:
    """Prints the figures of a head; all its poses, each [size, size, 3]."""
    store = HeadStore(folder.parent, size=size, builtin=folder.parent)
    model = store.load(folder.name).model
    renderer = HeadRenderer(model)
    at_rest, skin = renderer.draw(FacePose())[..., :3].copy(), skin_of(model)
    portrait, behind = (picture_of(folder, f"{name}.png") for name in ("portrait", "background"))
    figures = alike(at_rest, skin, sized(portrait, size), sized(behind, size))
    print(json.dumps({"name": folder.name, "size": size, **figures}))  # noqa: T201
    return [renderer.draw(pose)[..., :3].copy() for pose in POSES.values()]


def labelled(picture: RGB, told: str, side: int) -> RGB:
    """A cell of the sheet."""
    cell = sized(picture, side)
    for colour, by in (((0, 0, 0), 1), ((255, 255, 255), 0)):
        cv2.putText(cell, told, (6 + by, side - 8 + by), cv2.FONT_HERSHEY_SIMPLEX, 0.5, colour)
    return cell


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sheet", type=Path)
    parser.add_argument("bundles", type=Path, nargs="*", help="default: those that ship")
    parser.add_argument("--size", type=int, default=512, help="as drawn, pixels")
    parser.add_argument("--side", type=int, default=256, help="in the sheet, pixels")
    options = parser.parse_args()
    folders = options.bundles or sorted(toml.parent for toml in BUILTIN_FOLDER.glob("*/head.toml"))
    rows: list[RGB] = []
    for folder in folders:
        cells = [
            labelled(picture, f"{folder.name}, {pose}", options.side)
            for pose, picture in zip(POSES, tell(folder.resolve(), options.size), strict=True)
        ]
        rows += [np.hstack(cells[k : k + _COLUMNS]) for k in range(0, len(cells), _COLUMNS)]
    cv2.imwrite(str(options.sheet), np.vstack(rows)[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 85])


if __name__ == "__main__":
    main()
