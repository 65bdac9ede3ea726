"""Pictures for tests, made of a photograph (astronaut/), and avatars made of them once."""

from __future__ import annotations

import struct
import zlib
from functools import cache
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

import services.face
from services.face.avatar.avatar import Avatar, load_avatar
from services.face.draw.pose import FacePose
from services.face.draw.renderer import Renderer

DEFAULT_FOLDER = Path(services.face.__file__).parent / "avatars" / "default"


@cache
def astronaut() -> Avatar:
    """Made of a photograph: what users bring, and harder to draw than the shipped rendered face."""
    return load_avatar(Path(__file__).parent / "astronaut")


@cache
def rendered() -> Avatar:
    """The one that ships as the default: lips shut."""
    return load_avatar(DEFAULT_FOLDER)


def picture_of(renderer: Renderer, pose: FacePose) -> NDArray[np.uint8]:
    """RGB [size, size, 3] of a pose, as the service draws it; the caller's own."""
    return renderer.draw(pose)[..., :3].copy()


def portrait() -> NDArray[np.uint8]:
    """RGB [512, 512, 3] of a face from the front."""
    return astronaut().portrait


def encoded(rgb: NDArray[np.uint8], suffix: str = ".png") -> bytes:
    ok, content = cv2.imencode(suffix, rgb[..., ::-1])
    assert ok
    return content.tobytes()


def scaled(rgb: NDArray[np.uint8], factor: float) -> NDArray[np.uint8]:
    """Smaller, amid grey of the old size."""
    small = cv2.resize(rgb, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA)
    out = np.full_like(rgb, 128)
    out[: small.shape[0], : small.shape[1]] = small
    return out


def png_of_declared_size(width: int, height: int) -> bytes:
    """A PNG of a few bytes that claims to be large."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 1000)), (b"IEND", b"")]
    chunks = [
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def png_to_be_turned(bgr: NDArray[np.uint8], orientation: int) -> bytes:
    """A PNG of `bgr` [H, W, 3 or 4] with EXIF data that say how to turn it (1 to 8)."""
    _, encoded_png = cv2.imencode(".png", bgr)
    content = encoded_png.tobytes()
    exif = b"MM\0*" + struct.pack(">IH", 8, 1)
    exif += struct.pack(">HHIHH", 0x0112, 3, 1, orientation, 0) + b"\0\0\0\0"
    chunk = struct.pack(">I", len(exif)) + b"eXIf" + exif
    chunk += struct.pack(">I", zlib.crc32(b"eXIf" + exif))
    return content[:33] + chunk + content[33:]  # behind IHDR


def jpeg_lying_on_its_side(rgb: NDArray[np.uint8]) -> bytes:
    """A JPEG whose pixels are turned a quarter left and whose EXIF says to turn them back."""
    content = encoded(np.ascontiguousarray(np.rot90(rgb)), ".jpg")
    tag = struct.pack(">HHIHH", 0x0112, 3, 1, 6, 0)
    exif = b"Exif\0\0MM\0*" + struct.pack(">IH", 8, 1) + tag + b"\0\0\0\0"
    return content[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + content[2:]


def jpeg_of_scans(rgb: NDArray[np.uint8], scans: int) -> bytes:
    """A progressive JPEG whose last scan comes again and again, so that there are so many."""
    _, content = cv2.imencode(".jpg", rgb[..., ::-1], [cv2.IMWRITE_JPEG_PROGRESSIVE, 1])
    whole = content.tobytes()
    body, end = whole[:-2], whole[-2:]
    there = body.count(b"\xff\xda")
    return body + (scans - there) * body[body.rindex(b"\xff\xda") :] + end
