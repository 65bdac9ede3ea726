"""A head bundle: the files of a head that is nobody's, read and checked.

    head.toml       who it is, under which licence, camera and light of the portrait
    head.glb        the head: see `gltf`
    background.png  what stands behind it
    portrait.png    the head at rest before it, as it was rendered

`services/face/heads/README.md` tells what is in each of them.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.avatar.making.decoding import image_size
from services.face.avatar.packing import packed_names, read_packed
from services.face.draw.blendshapes import ARKIT_NAMES
from services.face.engines.head.gltf.file import rewritten
from services.face.engines.head.gltf.parts import Part, read_glb
from visavis.serving.errors import InvalidInputError

ABOUT, MODEL, BACKGROUND, PORTRAIT = "head.toml", "head.glb", "background.png", "portrait.png"
FILES = (ABOUT, MODEL, BACKGROUND, PORTRAIT)
"""All that a bundle holds."""
LARGEST_MODEL_BYTES, LARGEST_PICTURE = 8_000_000, 2048
_LARGEST_ABOUT_BYTES = 100_000
_FEWEST_SHAPES = 20
"""Of the 52, that a face can be moved by,"""
_NEEDED = "jawOpen"
"""with this one among them."""


@dataclass(frozen=True)
class Lamp:
    """Something that shines on the head."""

    direction: tuple[float, float, float]
    """Unit vector from the head to it."""
    strength: float
    """What a white surface that is turned to it shines with, 1 being white."""
    angle: float
    """Radians from its middle to its edge, as the head sees it."""
    colour: tuple[float, float, float] = (1.0, 1.0, 1.0)


@dataclass(frozen=True)
class Light:
    """What the head is lit by."""

    lamps: tuple[Lamp, ...]
    ambient: float
    baked: bool
    """Whether it is in the textures already: then only what turning changes is added."""


@dataclass(frozen=True)
class Framing:
    """The camera of the portrait: metres, +Y up, +Z from the head towards it."""

    position: tuple[float, float, float]
    target: tuple[float, float, float]
    vertical_fov_rad: float


@dataclass(frozen=True)
class About:
    """What a bundle says of itself; all that a list of avatars needs."""

    title: str
    licence: str
    framing: Framing
    light: Light
    neck: NDArray[np.float64] | None
    """[3] what the head turns about; None: where the neck of such a head is."""


@dataclass(frozen=True)
class HeadBundle:
    """A head, read from its bundle."""

    about: About
    parts: Sequence[Part]
    left_out: Sequence[str]
    """What of head.glb is not drawn, each as a whole sentence."""
    background: NDArray[np.uint8]
    """[side, side, 3] RGB."""
    portrait: NDArray[np.uint8]
    """[side, side, 3] RGB."""


# Of the studio in which the portraits are rendered: direction, strength, angle.
_STUDIO = (
    Lamp((-0.453, 0.471, 0.757), 0.96, 0.27),
    Lamp((0.706, 0.051, 0.706), 0.23, 0.39),
    Lamp((0.0, -0.695, 0.719), 0.16, 0.31),
    Lamp((0.588, 0.477, -0.653), 0.43, 0.19),
    Lamp((-0.618, 0.364, -0.687), 0.35, 0.2),
)


def read_bundle(files: Mapping[str, bytes]) -> HeadBundle:
    """The head of its files, by name. Raises InvalidInputError, which says what is wrong."""
    if missing := [name for name in FILES if name not in files]:
        raise InvalidInputError(
            f"the head bundle lacks {', '.join(missing)}: it is {', '.join(FILES)} in one zip, or "
            f"{ABOUT} and {MODEL} alone"
        )
    if len(files[MODEL]) > LARGEST_MODEL_BYTES:
        raise InvalidInputError(
            f"{MODEL} has {len(files[MODEL]) / 1e6:.1f} MB, "
            f"allowed are {LARGEST_MODEL_BYTES / 1e6:.0f} MB: {rewritten('sparse')} and "
            f"{rewritten('webp')} make it smaller"
        )
    about, model = read_about(files[ABOUT]), read_glb(files[MODEL])
    shapes = {name for part in model.parts for name in part.targets} & set(ARKIT_NAMES)
    if len(shapes) < _FEWEST_SHAPES or _NEEDED not in shapes:
        without = "" if _NEEDED in shapes else f", and no {_NEEDED}"
        raise InvalidInputError(
            f"{MODEL} has {len(shapes)} of the {len(ARKIT_NAMES)} ARKit shapes as named morph "
            f"targets that move anything{without}: {_FEWEST_SHAPES} are the least that a face can "
            "be moved by, so let its maker export them (a figure of VRM: “perfect sync”)"
        )
    background, portrait = read_picture(files, BACKGROUND), read_picture(files, PORTRAIT)
    return HeadBundle(about, model.parts, model.left_out, background, portrait)


def unpack_bundle(packed: bytes) -> dict[str, bytes]:
    """Files of a zip, which may be in one folder. Raises InvalidInputError."""
    try:
        inside = packed_names(packed)
        folder = next((n[: -len(ABOUT)] for n in inside if n.rpartition("/")[2] == ABOUT), "")
        wanted = {folder + name: name for name in FILES}
        files = read_packed(packed, wanted)
    except ValueError as error:
        raise InvalidInputError(f"the head bundle cannot be read: {error}") from error
    return {wanted[name]: content for name, content in files.items()}


def read_about(content: bytes) -> About:
    """What head.toml says. Raises InvalidInputError naming the field."""
    if len(content) > _LARGEST_ABOUT_BYTES:
        raise InvalidInputError(f"{ABOUT} has more than {_LARGEST_ABOUT_BYTES} bytes")
    try:
        told = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{ABOUT} is no TOML: {error}") from error
    light, neck = _table(told, "light"), _table(told, "neck")
    return About(
        title=str(told.get("title") or told.get("name") or "head"),
        licence=_licence(told),
        framing=_framing(_table(told, "framing")),
        light=Light(_lamps(light), _number(light, "ambient", 0.06, 0, 1), _baked(light)),
        neck=np.array(_vector(neck, "pivot")) if "pivot" in neck else None,
    )


def _licence(told: dict[str, Any]) -> str:
    licence = told.get("licence", "")
    if isinstance(licence, dict):
        licence = licence.get("name", "")
    if not isinstance(licence, str) or not licence:
        raise InvalidInputError(f"{ABOUT}: licence: nothing says under which the head may be used")
    return licence


def _framing(told: dict[str, Any]) -> Framing:
    found = Framing(
        _vector(told, "position"),
        _vector(told, "target"),
        math.radians(_number(told, "vertical_fov_deg", None, 2, 90)),
    )
    if math.dist(found.position, found.target) < 0.1:
        raise InvalidInputError(f"{ABOUT}: framing: the camera is at what it looks at")
    return found


def _lamps(told: dict[str, Any]) -> tuple[Lamp, ...]:
    lamps = told.get("lamps", ())
    if not isinstance(lamps, list | tuple) or len(lamps) > 16:
        raise InvalidInputError(f"{ABOUT}: light.lamps: must be a list of at most 16")
    found = []
    for lamp in lamps:
        if not isinstance(lamp, dict):
            raise InvalidInputError(f"{ABOUT}: light.lamps: each must be a table")
        x, y, z = _vector(lamp, "direction")
        length = math.hypot(x, y, z) or 1.0
        strength = _number(lamp, "strength", None, 0, 100)
        angle = _number(lamp, "angle_deg", 15.0, 0, 90)
        colour = _vector(lamp, "colour") if "colour" in lamp else (1.0, 1.0, 1.0)
        away = (x / length, y / length, z / length)
        found.append(Lamp(away, strength, math.radians(angle), colour))
    return tuple(found) or _STUDIO


def _baked(told: dict[str, Any]) -> bool:
    baked = told.get("baked", True)
    if not isinstance(baked, bool):
        raise InvalidInputError(f"{ABOUT}: light.baked: {baked!r} is neither true nor false")
    return baked


def _table(told: dict[str, Any], name: str) -> dict[str, Any]:
    found = told.get(name, {})
    if not isinstance(found, dict):
        raise InvalidInputError(f"{ABOUT}: {name}: must be a table")
    return found


def _vector(told: dict[str, Any], name: str) -> tuple[float, float, float]:
    found = told.get(name)
    if not isinstance(found, list) or len(found) != 3 or not all(map(_is_number, found)):
        raise InvalidInputError(f"{ABOUT}: {name}: must be three numbers, not {found!r}")
    return float(found[0]), float(found[1]), float(found[2])


def _number(
    told: dict[str, Any], name: str, default: float | None, least: float, most: float
) -> float:
    found: Any = told.get(name, default)
    if not _is_number(found) or not least <= found <= most:
        raise InvalidInputError(f"{ABOUT}: {name}: must be {least:g} to {most:g}, not {found!r}")
    return float(found)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e4


def read_picture(files: Mapping[str, bytes], name: str) -> NDArray[np.uint8]:
    """One of a bundle's pictures, [side, side, 3] RGB. Raises InvalidInputError."""
    size = image_size(files[name])
    if size is None or size[0] != size[1] or not 256 <= size[0] <= LARGEST_PICTURE:
        raise InvalidInputError(
            f"{name} must be a square picture with sides of 256 to {LARGEST_PICTURE} pixels"
        )
    pixels = cv2.imdecode(np.frombuffer(files[name], np.uint8), cv2.IMREAD_COLOR)
    if pixels is None:
        raise InvalidInputError(f"{name} is damaged: it cannot be decoded")
    return np.ascontiguousarray(pixels[..., ::-1], np.uint8)
