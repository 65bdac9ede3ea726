"""Drawn characters: what is asked of a picture, and where the pictures are kept."""

from __future__ import annotations

import logging
import threading
import tomllib
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.avatar.avatar import read_or_make
from services.face.avatar.consent import Consent
from services.face.avatar.making.decoding import Pixels
from services.face.avatar.packing import (
    Deleted,
    FileVersion,
    file_version,
    forget_aside,
    pack,
    set_aside,
    unpacked,
)
from services.face.avatar.store import check_new, is_name, no_avatar, not_kept, noted
from services.face.engines.base import AvatarInfo
from services.face.engines.tha3.network import SIZE, Picture
from visavis.serving.errors import InvalidInputError
from visavis.whole_file import placed_whole
from visavis.wire.subjects import CHARACTERS

log = logging.getLogger(__name__)

DEFAULT_CHARACTER = "default"
_SUFFIXES = (".toml", ".jpg", ".png")
"""Of a character's files: what was stated of whom it shows, if anything was; its portrait; and last
the picture, which is what counts.
"""
_SHARED = ".shared"
"""Of the file that has its digest in the bucket that all replicas share."""
UPLOADED_LICENCE = "as uploaded"
_KEPT_LOADED = 16
"""Loaded pictures kept for the next session; each takes a megabyte."""
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
    """A drawn character: a picture that fulfils what is asked of one."""

    name: str
    licence: str
    builtin: bool
    rgba: NDArray[np.uint8]
    """[512, 512, 4]"""
    consent: Consent | None = None
    """Of somebody whose likeness the drawing is."""

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


def read_character(pixels: Pixels) -> NDArray[np.uint8]:
    """RGBA [512, 512, 4] uint8 of a decoded picture. Raises InvalidInputError, which says why."""
    height, width = pixels.shape[:2]
    if width != height or width < _SMALLEST:
        raise InvalidInputError(
            f"the picture has {width} x {height} pixels: it must be square, {_SMALLEST} or more"
        )
    if pixels.dtype == np.uint16:  # a PNG of 16 bits, as painting programs write it
        pixels = np.rint(pixels / 257).astype(np.uint8)
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
    """Keeps characters: pictures in a folder, by name, and the bundle's own. Thread-safe.

    It is a shelf: those of users can be kept alike with those of other replicas.
    """

    bucket = CHARACTERS

    def __init__(self, folder: Path, own: Path, licence: str, *, most: int = 100) -> None:
        """`folder`: of at most `most` uploaded pictures, made when first needed; `own`: the
        default character, under `licence`.
        """
        self._folder = folder
        self._deleted = Deleted(folder)
        self._own = own
        self._licence = licence
        self._most = most
        self._lock = threading.Lock()
        self._loaded: OrderedDict[str, tuple[FileVersion | None, Character]] = OrderedDict()
        """Another process may put another picture there."""
        self._own_portrait = b""

    def names(self) -> list[str]:
        """The bundle's own first."""
        return [DEFAULT_CHARACTER, *self._uploaded()]

    def infos(self) -> list[AvatarInfo]:
        """In the order of `names`; no picture is read."""
        return [
            AvatarInfo(
                name,
                SIZE,
                name == DEFAULT_CHARACTER,
                self._licence_of(name),
                self._consent_of(name),
            )
            for name in self.names()
        ]

    def portrait(self, name: str, draw: Callable[[Character], bytes]) -> bytes:
        """JPEG as `draw` makes it, once. UnknownNameError lists what exists."""
        if not self._is_there(name):
            raise no_avatar(name, self.names())
        if name == DEFAULT_CHARACTER:
            self._own_portrait = self._own_portrait or draw(self.load(name))
            return self._own_portrait
        return read_or_make(self._folder / f"{name}.jpg", lambda: draw(self.load(name)))

    def load(self, name: str) -> Character:
        """ "" for the default. UnknownNameError lists what exists."""
        name = name or DEFAULT_CHARACTER
        with self._lock:
            if not self._is_there(name):
                raise no_avatar(name, self.names())
            builtin = name == DEFAULT_CHARACTER
            file = self._own if builtin else self._file(name, ".png")
            version = file_version(file)
            known, character = self._loaded.get(name, (None, None))
            if character is None or known != version:
                character = Character(name, self._licence_of(name), builtin, _read(file))
                self._loaded[name] = version, character
            self._loaded.move_to_end(name)
            while len(self._loaded) > _KEPT_LOADED:
                self._loaded.popitem(last=False)
            return character

    def check_new(self, name: str) -> None:
        """Raises InvalidInputError, AlreadyExistsError, AtCapacityError."""
        check_new(name, self.names(), len(self._uploaded()), self._most)

    def keep(self, character: Character, portrait: bytes) -> AvatarInfo:
        """Adds a new one with its `portrait`, a JPEG. Raises as `check_new` does, and
        AtCapacityError where it cannot be written.
        """
        name = character.name
        _, content = cv2.imencode(".png", character.rgba[..., [2, 1, 0, 3]])
        files = {".jpg": portrait, ".png": content.tobytes()}
        if character.consent is not None:
            files[".toml"] = character.consent.written().encode()
        with self._lock:
            self.check_new(name)
            try:
                self._write(name, files)
            except OSError as error:
                raise not_kept(name, error) from error
        consent = character.consent
        return AvatarInfo(name, SIZE, character.builtin, character.licence, consent)

    def delete(self, name: str) -> None:
        """Forgets an uploaded picture, and what was set aside of its name.

        Raises InvalidInputError for the one of the bundle, UnknownNameError for one that is not
        there.
        """
        if name == DEFAULT_CHARACTER:
            raise InvalidInputError(f"avatar {name!r} belongs to the bundle and stays")
        with self._lock:
            if not self._is_there(name):
                raise no_avatar(name, self.names())
            self._deleted.note(name, noted(self._file(name, _SHARED)))
            self._remove(name)

    # As a shelf

    def kept(self) -> dict[str, str]:
        return {name: noted(self._file(name, _SHARED)) for name in self._uploaded()}

    def pack(self, name: str) -> bytes:
        return pack({suffix: self._file(name, suffix) for suffix in _SUFFIXES})

    def take(self, name: str, packed: bytes, digest: str) -> None:
        files = unpacked(packed, _SUFFIXES)
        if not is_name(name) or name == DEFAULT_CHARACTER:
            raise ValueError(f"{name!r} is no name for a character of a user")
        with self._lock:
            if not noted(self._file(name, _SHARED)):
                for suffix in _SUFFIXES:
                    set_aside(self._file(name, suffix))
            self._write(name, files)
            self._file(name, _SHARED).write_text(digest)
            self._loaded.pop(name, None)

    def note(self, name: str, digest: str) -> None:
        self._file(name, _SHARED).write_text(digest)

    def drop(self, name: str) -> None:
        with self._lock:
            self._remove(name)

    def deleted(self) -> dict[str, str]:
        return self._deleted.all()

    def settle(self, name: str) -> None:
        self._deleted.settle(name)

    def buried(self) -> tuple[str, ...]:
        return ()  # nobody's likeness, and one of the same digest may be there

    def bury(self, digests: Collection[str]) -> None:
        """Nothing; see `buried`."""

    def _remove(self, name: str) -> None:
        self._loaded.pop(name, None)
        for suffix in (*reversed(_SUFFIXES), _SHARED):
            self._file(name, suffix).unlink(missing_ok=True)
            forget_aside(self._file(name, suffix))

    def _write(self, name: str, files: Mapping[str, bytes]) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        for suffix in _SUFFIXES:
            if suffix in files:
                with placed_whole(self._file(name, suffix), prefix=".new-") as file:
                    file.write(files[suffix])
            else:  # of another one that had the name
                self._file(name, suffix).unlink(missing_ok=True)

    def _is_there(self, name: str) -> bool:
        own = name == DEFAULT_CHARACTER
        return own or (is_name(name) and self._file(name, ".png").is_file())

    def _file(self, name: str, suffix: str) -> Path:
        return self._folder / f"{name}{suffix}"

    def _uploaded(self) -> list[str]:
        found = sorted(path.stem for path in self._folder.glob("*.png"))
        return [name for name in found if name != DEFAULT_CHARACTER and is_name(name)]

    def _licence_of(self, name: str) -> str:
        return self._licence if name == DEFAULT_CHARACTER else UPLOADED_LICENCE

    def _consent_of(self, name: str) -> Consent | None:
        try:
            told = tomllib.loads(self._file(name, ".toml").read_text(encoding="utf-8"))
            return Consent.read(told["consent"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("what was stated of %r cannot be read: %r", name, error)
            return None


def _read(path: Path) -> NDArray[np.uint8]:
    """A picture that was accepted once."""
    pixels = cv2.imdecode(np.frombuffer(path.read_bytes(), np.uint8), cv2.IMREAD_UNCHANGED)
    if pixels is None:
        raise InvalidInputError(f"{path} is damaged: put another picture there")
    return read_character(pixels)


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
