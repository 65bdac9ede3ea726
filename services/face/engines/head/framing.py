"""A head that comes without a portrait, as makers of avatars write it: it is given a camera, the
light of a studio, a wall behind it, and the portrait that these show.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.draw.pose import FacePose
from services.face.engines.head.bundle import ABOUT, BACKGROUND, MODEL, PORTRAIT, read_bundle
from services.face.engines.head.gltf.parts import read_glb
from services.face.engines.head.light import LIGHT_SIDE
from services.face.engines.head.model import eyes_of, model_of
from services.face.engines.head.renderer import HeadRenderer

_SIDE = 512
"""Pixels of the pictures that are made."""
# As the page shows a file of a visitor's own, in distances between the eyes.
_SHOWN, _MIDDLE, _BEHIND = 7.0, -0.5, -1.1
_FIELD_DEG = 15.0
_LIGHT = "[light]\nbaked = false\nambient = 0.12\n"
_WALL = (188, 190, 193), (132, 137, 143)
"""RGB behind the head, and in the corners."""


def framed(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of a bundle; where it has no portrait, with a camera, light and wall for those that
    it lacks, and the wall alone as its portrait. Raises InvalidInputError.
    """
    whole = dict(files)
    if PORTRAIT in files or not {ABOUT, MODEL} <= files.keys():
        return whole
    try:
        about = files[ABOUT].decode()
        told = tomllib.loads(about)
    except (ValueError, RecursionError):
        return whole  # read_about says what is wrong with it
    if "framing" not in told:
        about += _framing(files[MODEL])
    if "light" not in told:
        about += f"\n{_LIGHT}"
    whole[ABOUT] = about.encode()
    whole.setdefault(BACKGROUND, _png(_wall()))
    whole[PORTRAIT] = whole[BACKGROUND]
    return whole


def portrayed(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of a bundle that was read without fault, with the portrait that it may lack."""
    whole = framed(files)
    if PORTRAIT not in files:
        model = model_of(read_bundle(whole), _SIDE)
        # Whoever renders a portrait says how much light there is: here, so much that what is white
        # and looks at the viewer is white.
        light, middle = model.light.copy(), LIGHT_SIDE // 2
        light[:2] /= np.maximum(light[:2, middle : middle + 1, middle : middle + 1], 1)
        drawer = HeadRenderer(model._replace(light=light))
        whole[PORTRAIT] = _png(drawer.draw(FacePose())[..., :3])
    return whole


def _framing(model: bytes) -> str:
    parts = read_glb(model).parts
    balls = np.array([parts[k].positions[some].mean(axis=0) for k, some in eyes_of(parts)])
    right, left = (balls[some].mean(axis=0) for some in (balls[:, 0] < 0, balls[:, 0] >= 0))
    apart = float(np.linalg.norm(left - right))
    x, y, z = ((left + right) / 2 + np.array([0.0, _MIDDLE, _BEHIND]) * apart).tolist()
    away = _SHOWN * apart / 2 / math.tan(math.radians(_FIELD_DEG) / 2)
    return (
        f"\n[framing]\nposition = [{x:.5f}, {y:.5f}, {z + away:.5f}]\n"
        f"target = [{x:.5f}, {y:.5f}, {z:.5f}]\nvertical_fov_deg = {_FIELD_DEG}\n"
    )


def _wall() -> NDArray[np.uint8]:
    line = np.linspace(-1, 1, _SIDE)
    edge = np.clip(np.hypot(line, line[:, None]) / math.sqrt(2), 0, 1)[..., None] ** 2
    near, far = np.array(_WALL, np.float64)
    return np.asarray(np.rint(near + (far - near) * edge), np.uint8)


def _png(rgb: NDArray[np.uint8]) -> bytes:
    return cv2.imencode(".png", np.ascontiguousarray(rgb[..., ::-1]))[1].tobytes()
