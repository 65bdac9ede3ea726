"""Portraits tried on: python -m tests.tools.bench.portrait_sheet SHEET.png PICTURE …

Makes an avatar of each picture as an upload would, draws it in the mouth shapes of speech and puts
them side by side, each 512 pixels as drawn and cropped to the face, so that somebody can look at
them. A picture that is refused is told with the reason. Of each face a line is printed:

- `raise`: how far the corners of the mouth lie above its middle, in thousandths of the distance of
  the eyes, in the photograph, at rest and in "ah", as MediaPipe's landmark networks see it;
- `chin`, `cheeks`: Pearson's correlation of what they see of the chin and of the jaw's outline on
  both sides with the jaw that is commanded, over a sweep of it;
- `shut`: of closures of p, b and m after vowels, the share that is seen as shut;
- `stirred`: of the pixels outside of the face, above the mouth or further below than the chin ever
  comes, so many thousandths change by more than 12 of 255 in the pose in which most do.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.avatar import topology
from services.face.avatar.avatar import Avatar
from services.face.avatar.making.maker import make_avatar
from services.face.avatar.making.portrait import PortraitStudio
from services.face.draw.pose import FacePose
from services.face.draw.renderer import Renderer
from tests.browser.tape import FaceGauge
from visavis.bundles.store import bundle_path
from visavis.serving.errors import InvalidInputError

POSES = {
    "rest": FacePose(),
    "ah": FacePose(jaw_open=0.5, mouth_wide=0.14),
    "oo": FacePose(jaw_open=0.16, pucker=0.88),
    "ee": FacePose(jaw_open=0.17, mouth_wide=0.58, tongue_up=0.1),
    "f": FacePose(jaw_open=0.03, mouth_wide=0.06, lower_lip_under_teeth=1.0),
    "m": FacePose(jaw_open=0.02, lips_closed=1.0),
    "th": FacePose(jaw_open=0.15, mouth_wide=0.12, tongue_up=1.0, tongue_out=1.0),
    "corners down": FacePose(smile=-0.6),
    "smile": FacePose(smile=0.7),
    "wide": FacePose(jaw_open=1.0),
}
_SWEEP = [
    FacePose(jaw_open=jaw, mouth_wide=wide, pucker=pucker)
    for jaw in np.linspace(0, 0.8, 9).tolist()
    for wide, pucker in ((0.0, 0.0), (0.3, 0.0), (0.0, 0.4))
]
_CLOSURES = [
    replace(
        pose,
        lips_closed=1.0,
        jaw_open=0.15 * pose.jaw_open,
        mouth_wide=0.6 * pose.mouth_wide,
        pucker=0.6 * pose.pucker,
    )
    for pose in (POSES["ah"], POSES["oo"], POSES["ee"])
]
"""As `services.face.lips.visemes` has them amid a vowel."""
_SHUT_SHARE = 0.15
_STIRS = 12
_JAW_SIDES = (172, 136, 150, 397, 365, 379)
_ROOM = 0.16
"""Around the face in a crop, in its heights."""


def along_head(gauge: FaceGauge, rgb: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Landmarks along the head's own axes, [468, 2] in distances of the eyes' outer corners: right,
    and down from between them.
    """
    points = gauge.landmarks(rgb)
    right, left = points[topology.RIGHT_EYE_OUTER], points[topology.LEFT_EYE_OUTER]
    across = (left - right) / np.linalg.norm(left - right)
    axes = np.stack([across, (-across[1], across[0])], axis=1)
    return np.asarray((points - (left + right) / 2) @ axes / np.linalg.norm(left - right))


def corner_raise(local: NDArray[np.float64]) -> float:
    """How far the corners of the mouth lie above the middle of the lips, thousandths."""
    middle = local[[0, 17, 13, 14], 1].mean()
    corners = local[[topology.RIGHT_MOUTH_CORNER, topology.LEFT_MOUTH_CORNER], 1].mean()
    return float(1000 * (middle - corners))


def measured(avatar: Avatar, gauge: FaceGauge) -> dict[str, object]:
    """The figures of one face; see the module."""
    renderer = Renderer(avatar)

    def drawn(pose: FacePose) -> NDArray[np.uint8]:
        return renderer.draw(pose)[..., :3].copy()

    pictures = {name: drawn(pose) for name, pose in POSES.items()}
    seen = {name: along_head(gauge, picture) for name, picture in pictures.items()}
    swept = [along_head(gauge, drawn(pose)) for pose in _SWEEP]
    jaw = [pose.jaw_open for pose in _SWEEP]
    chin = [local[topology.CHIN, 1] for local in swept]
    sides = [local[list(_JAW_SIDES), 1].mean() for local in swept]
    gaps = [_gap(local) for local in swept]
    shut = [_gap(along_head(gauge, drawn(pose))) for pose in _CLOSURES]
    limit = _gap(seen["rest"]) + _SHUT_SHARE * (max(gaps) - _gap(seen["rest"]))
    outside = _outside(avatar)
    rest = pictures["rest"].astype(int)
    changed = [
        (np.abs(picture.astype(int) - rest).max(axis=2)[outside] > _STIRS).mean()
        for picture in pictures.values()
    ]
    return {
        "raise": {
            "photograph": round(corner_raise(along_head(gauge, avatar.portrait))),
            "rest": round(corner_raise(seen["rest"])),
            "ah": round(corner_raise(seen["ah"])),
        },
        "chin": round(float(np.corrcoef(jaw, chin)[0, 1]), 3),
        "cheeks": round(float(np.corrcoef(jaw, sides)[0, 1]), 3),
        "shut": round(float(np.mean(np.array(shut) <= limit)), 3),
        "stirred": round(1000 * float(max(changed)), 2),
    }


def _gap(local: NDArray[np.float64]) -> float:
    upper, lower = list(topology.UPPER_INNER_LIP[3:-3]), list(topology.LOWER_INNER_LIP[3:-3])
    return float((local[lower, 1] - local[upper, 1]).mean())


def _outside(avatar: Avatar) -> NDArray[np.bool_]:
    """Pixels that nothing said may move, [size, size]."""
    outline = avatar.mesh.source[list(topology.FACE_OVAL)]
    filled: NDArray[np.uint8] = np.zeros((avatar.size, avatar.size), np.uint8)
    cv2.fillPoly(filled, [np.round(outline).astype(np.int32)], 1)
    reach = round(0.1 * avatar.frame.eye_distance)
    face = cv2.dilate(filled, np.ones((2 * reach + 1, 2 * reach + 1), np.uint8))
    y, x = np.mgrid[: avatar.size, : avatar.size]
    local = avatar.frame.local(np.stack([x, y], axis=-1).reshape(-1, 2).astype(np.float64))
    down = local[:, 1].reshape(face.shape)
    chin = float(avatar.frame.local(avatar.mesh.source[[topology.CHIN]])[0, 1])
    return np.asarray((face == 0) & ((down < -0.12) | (down > chin + 0.6)))


def cropped(rgb: NDArray[np.uint8], avatar: Avatar, side: int) -> NDArray[np.uint8]:
    """The face of a picture of `avatar`, [side, side, 3]."""
    outline = avatar.mesh.source[list(topology.FACE_OVAL)]
    low, high = outline.min(axis=0), outline.max(axis=0)
    reach = float((high - low).max()) * (0.5 + _ROOM)
    x, y = (low + high) / 2 + (0, 0.06 * reach)
    scale = side / (2 * reach)
    affine = np.array([[scale, 0, side / 2 - scale * x], [0, scale, side / 2 - scale * y]])
    flags = cv2.INTER_AREA if scale < 1 else cv2.INTER_CUBIC
    return np.asarray(cv2.warpAffine(rgb, affine, (side, side), flags=flags), np.uint8)


def row(name: str, avatar: Avatar, side: int) -> NDArray[np.uint8]:
    """The photograph and every pose of one face, side by side, with their names."""
    renderer = Renderer(avatar)
    cells = [cropped(avatar.portrait, avatar, side)]
    cells += [cropped(renderer.draw(pose)[..., :3].copy(), avatar, side) for pose in POSES.values()]
    for cell, told in zip(cells, [name, *POSES], strict=True):
        for colour, width in (((0, 0, 0), 3), ((255, 255, 255), 1)):
            place = (6, side - 8)
            cv2.putText(cell, told, place, cv2.FONT_HERSHEY_SIMPLEX, 0.5, colour, width)
    return np.hstack(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sheet", type=Path)
    parser.add_argument("pictures", type=Path, nargs="+")
    parser.add_argument("--side", type=int, default=256, help="of a face in the sheet, pixels")
    parser.add_argument("--no-figures", action="store_true", help="draw alone")
    options = parser.parse_args()
    bundle = bundle_path("face-landmarks", None)
    studio, gauge = PortraitStudio(bundle), FaceGauge(bundle)
    rows: list[NDArray[np.uint8]] = []
    for picture in options.pictures:
        tell(picture, studio, gauge, rows, options)
    if rows:
        cv2.imwrite(str(options.sheet), np.vstack(rows)[..., ::-1])


def tell(
    picture: Path,
    studio: PortraitStudio,
    gauge: FaceGauge,
    rows: list[NDArray[np.uint8]],
    options: argparse.Namespace,
) -> None:
    """Adds the row of a picture and prints its figures, or why it is refused."""
    pixels = cv2.imread(str(picture))
    if pixels is None:
        raise SystemExit(f"{picture} is no picture")
    told: dict[str, object] = {"picture": picture.stem}
    try:
        taken = studio.take(np.ascontiguousarray(pixels[..., ::-1]))
    except InvalidInputError as error:
        print(json.dumps(told | {"refused": str(error)}))  # noqa: T201
        return
    avatar = make_avatar(taken, name=picture.stem, licence="", source_note="", created="")
    rows.append(row(picture.stem, avatar, options.side))
    if not options.no_figures:
        told |= measured(avatar, gauge)
    print(json.dumps(told))  # noqa: T201


if __name__ == "__main__":
    main()
