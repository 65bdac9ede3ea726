"""What clients need that draw a head themselves: files of its bundle."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path

from services.face.engines.base import AvatarInfo
from services.face.engines.head.bundle import ABOUT, BACKGROUND, MODEL, About, read_about
from visavis.serving.errors import InvalidInputError, UnknownNameError


class HeadFile(Enum):
    """Which of them, by what it is made of."""

    MODEL = MODEL
    """glTF 2.0 binary."""
    SCENE = ABOUT
    """JSON: how the portrait shows the model."""
    BACKGROUND = BACKGROUND
    """PNG."""


@dataclass(frozen=True, slots=True)
class HeadContent:
    """A file as clients load it."""

    content: bytes
    sha256: str


def read_head(avatar: AvatarInfo, file: HeadFile) -> HeadContent:
    """A file of the head that the engine says the avatar is. Blocks.

    Raises UnknownNameError where it is none, InvalidInputError where its bundle is damaged.
    """
    if avatar.head is None:
        raise UnknownNameError(
            f"head: the avatar {avatar.name!r} is a photograph and has none; "
            "`head` of /v1/avatars tells which have"
        )
    path = avatar.head / file.value
    try:
        return _read(path, file, path.stat().st_mtime_ns)
    except OSError as error:
        raise InvalidInputError(f"head bundle {path.parent} is damaged: {error}") from error


@lru_cache(maxsize=32)
def _read(path: Path, file: HeadFile, _changed_ns: int) -> HeadContent:
    content = path.read_bytes()
    if file is HeadFile.SCENE:
        content = json.dumps(_scene(read_about(content))).encode()
    return HeadContent(content, hashlib.sha256(content).hexdigest())


def _scene(about: About) -> dict[str, object]:
    framing, light = about.framing, about.light
    return {
        "title": about.title,
        "licence": about.licence,
        "framing": {
            "position": framing.position,
            "target": framing.target,
            "vertical_fov_deg": round(math.degrees(framing.vertical_fov_rad), 6),
        },
        "light": asdict(light),
        "neck": None if about.neck is None else about.neck.tolist(),
    }
