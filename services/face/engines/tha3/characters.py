"""Drawn characters: what is asked of a picture, and where the pictures are kept."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.avatar.portrait import MAX_IMAGE_BYTES, MAX_IMAGE_PIXELS, image_size
from services.face.engines.tha3.network import SIZE, Picture
from visavis.serving.errors import AlreadyExistsError, InvalidInputError, UnknownNameError

DEFAULT_CHARACTER = "default"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_SMALLEST = 256
_HEAD = (slice(64, 192), slice(192, 320))
"""Rows and columns, of 512, where the networks look for the head."""
_HOW_TO = (
    "the networks want a PNG or WebP of one standing character on a transparent background, "
    "seen from the front, its head in the middle of the upper half and a quarter of the picture "
    "wide, eyes open, mouth closed"
)


@dataclass(frozen=True)
class Character:
    """A picture that fulfils what is asked of one."""

    name: str
    licence: str
    builtin: bool
    rgba: NDArray[np.uint8]
    """[512, 512, 4]"""

    def image(self) -> Picture:
        """As the networks see it."""
        colours, alpha = self.rgba[..., :3] / 255.0, self.rgba[..., 3:] / 255.0
        # IEC 61966-2-1, from sRGB to linear light.
        dark = colours <= 0.04045
        linear = np.where(dark, colours / 12.92, ((colours + 0.055) / 1.055) ** 2.4)
        # What is not seen has no colour that could bleed in.
        linear[alpha[..., 0] == 0] = 0.0
        picture = np.concatenate([linear, alpha], axis=2).transpose(2, 0, 1)
        return np.ascontiguousarray(picture * 2 - 1, np.float32)


def read_character(content: bytes) -> NDArray[np.uint8]:
    """A picture's pixels [512, 512, 4]. InvalidInputError says why it will not do."""
    if len(content) > MAX_IMAGE_BYTES:
        raise InvalidInputError(
            f"the picture has {len(content) / 1e6:.1f} MB, "
            f"allowed are {MAX_IMAGE_BYTES / 1e6:.0f} MB"
        )
    declared = image_size(content)
    if declared is None:
        raise InvalidInputError(f"not a picture: {_HOW_TO}")
    width, height = declared
    if width * height > MAX_IMAGE_PIXELS or width != height or width < _SMALLEST:
        raise InvalidInputError(
            f"the picture has {width} x {height} pixels: it must be square, {_SMALLEST} or more"
        )
    pixels = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_UNCHANGED)
    if pixels is None:
        raise InvalidInputError("the picture is damaged: it cannot be decoded")
    if pixels.ndim != 3 or pixels.shape[2] != 4 or pixels.dtype != np.uint8:
        raise InvalidInputError(f"the picture has no transparency: {_HOW_TO}")
    rgba = np.asarray(pixels[..., [2, 1, 0, 3]], np.uint8)
    if width != SIZE:
        rgba = _resized(rgba)
    alpha = rgba[..., 3] > 127
    if alpha.mean() > 0.9:
        raise InvalidInputError(f"nothing of the picture is transparent: {_HOW_TO}")
    if alpha[_HEAD].mean() < 0.5:
        raise InvalidInputError(f"no head where it must be: {_HOW_TO}")
    return np.ascontiguousarray(rgba)


class CharacterStore:
    """Pictures in a folder, by name, and the bundle's own. Thread-safe."""

    def __init__(self, folder: Path, own: Path, licence: str) -> None:
        """`folder`: of uploaded pictures, made when first needed; `own`: the default character,
        under `licence`.
        """
        self._folder = folder
        self._own = own
        self._licence = licence
        self._lock = threading.Lock()
        self._loaded: dict[str, Character] = {}

    def names(self) -> list[str]:
        """The bundle's own first."""
        found = sorted(path.stem for path in self._folder.glob("*.png"))
        return [DEFAULT_CHARACTER, *(n for n in found if n != DEFAULT_CHARACTER)]

    def load(self, name: str) -> Character:
        """ "" for the default. UnknownNameError lists what exists."""
        name = name or DEFAULT_CHARACTER
        with self._lock:
            if name not in self._loaded:
                if name not in self.names():
                    raise UnknownNameError(f"no avatar {name!r}; there are: {self._all()}")
                builtin = name == DEFAULT_CHARACTER
                path = self._own if builtin else self._folder / f"{name}.png"
                licence = self._licence if builtin else "as uploaded"
                rgba = read_character(path.read_bytes())
                self._loaded[name] = Character(name, licence, builtin, rgba)
            return self._loaded[name]

    def create(self, name: str, image: bytes) -> Character:
        """InvalidInputError tells why a name or a picture will not do."""
        if not _NAME.fullmatch(name):
            raise InvalidInputError(
                f"{name!r} is no avatar name: 1 to 64 letters, digits, _ and - are allowed"
            )
        rgba = read_character(image)
        _, content = cv2.imencode(".png", rgba[..., [2, 1, 0, 3]])
        with self._lock:
            if name in self.names():
                raise AlreadyExistsError(f"there is already an avatar {name!r}")
            self._folder.mkdir(parents=True, exist_ok=True)
            aside = self._folder / f".{name}.new"
            aside.write_bytes(content.tobytes())
            aside.rename(self._folder / f"{name}.png")
        return self.load(name)

    def delete(self, name: str) -> None:
        """Forgets an uploaded picture; sessions that wear it keep it."""
        if name == DEFAULT_CHARACTER:
            raise InvalidInputError(f"avatar {name!r} belongs to the bundle and stays")
        with self._lock:
            if name not in self.names():
                raise UnknownNameError(f"no avatar {name!r}; there are: {self._all()}")
            self._loaded.pop(name, None)
            (self._folder / f"{name}.png").unlink()

    def _all(self) -> str:
        return ", ".join(self.names())


def _resized(rgba: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """To the networks' size, colours weighted by their alpha."""
    alpha = rgba[..., 3:] / np.float32(255)
    how = cv2.INTER_AREA if len(rgba) > SIZE else cv2.INTER_CUBIC
    solid = np.concatenate([rgba[..., :3] * alpha, alpha], axis=2)
    out = np.asarray(cv2.resize(solid, (SIZE, SIZE), interpolation=how), np.float32)
    alpha = np.clip(out[..., 3:], 0, 1)
    colours = out[..., :3] / np.maximum(alpha, 1 / 255)
    whole = np.concatenate([colours, 255 * alpha], axis=2)
    return np.asarray(np.clip(np.rint(whole), 0, 255), np.uint8)
