"""Uploaded pictures are decoded in a process of their own: within bounds, and no longer than
somebody waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import math
import re
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.limits import environ
from visavis.serving.errors import InvalidInputError

log = logging.getLogger(__name__)

Pixels = NDArray[Any]
"""As cv2.imdecode gives them: [H, W], [H, W, 3] BGR or [H, W, 4] BGRA."""

MAX_IMAGE_BYTES = 20_000_000
MAX_IMAGE_PIXELS = 50_000_000
MAX_SCANS = 64
"""Of a progressive JPEG; the usual encoders write ten."""
_WALL_FACTOR = 4
"""Of a busy machine: so much longer than its work may the process take."""

_JPEG_START_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_STANDALONE = frozenset(range(0xD0, 0xDA)) | {0x01}
_JPEG_START_OF_SCAN, _JPEG_END = 0xDA, 0xD9
# Within a scan 0xFF is followed by 0 or by a restart marker; anything else ends the scan.
_JPEG_AFTER_SCAN = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")


class Reading(IntEnum):
    """What of a picture is wanted."""

    COLOUR = int(cv2.IMREAD_COLOR)
    """BGR, turned upright as its EXIF data says."""
    AS_IS = int(cv2.IMREAD_UNCHANGED)
    """With its transparency."""


@dataclass(frozen=True, slots=True)
class Decoder:
    """Decodes pictures, each for at most `limit_s` seconds of a processor's time."""

    limit_s: float

    async def decode(self, content: bytes, reading: Reading) -> Pixels:
        """The picture: COLOUR [H, W, 3] uint8 BGR, AS_IS with the shape and dtype of the file.

        Raises InvalidInputError for anything but a fair-sized JPEG, PNG or WebP. Cancelled, it ends
        the work at once.
        """
        check_picture(content)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "services.face.avatar.making.decode_process",
            str(int(reading)),
            str(math.ceil(self.limit_s)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env=environ(),
        )
        try:
            async with asyncio.timeout(_WALL_FACTOR * self.limit_s):
                pixels, _ = await process.communicate(content)
        except TimeoutError:
            pixels = b""
        finally:
            await _end(process)
        if process.returncode == 0:
            return _array(pixels)
        if process.returncode == 1:
            raise InvalidInputError("the picture is damaged: it cannot be decoded")
        log.warning("decoding a picture ended with status %s", process.returncode)
        raise InvalidInputError(
            f"the picture takes more than {self.limit_s:g} s or too much memory to decode: "
            "save it anew as a plain JPEG"
        )


def check_picture(content: bytes) -> None:
    """From the markers alone. Raises InvalidInputError for what is no picture or costs too much."""
    if len(content) > MAX_IMAGE_BYTES:
        raise InvalidInputError(
            f"the picture has {len(content) / 1e6:.1f} MB, "
            f"allowed are {MAX_IMAGE_BYTES / 1e6:.0f} MB"
        )
    declared = image_size(content)
    if declared is None:
        raise InvalidInputError(
            "not a picture: JPEG, PNG and WebP are read, so save it as one of them"
        )
    width, height = declared
    if width * height > MAX_IMAGE_PIXELS:
        raise InvalidInputError(
            f"the picture has {width} x {height} pixels, "
            f"allowed are {MAX_IMAGE_PIXELS / 1e6:.0f} megapixels"
        )
    scans = jpeg_scans(content)
    if scans > MAX_SCANS:
        raise InvalidInputError(
            f"the picture is a JPEG of {scans} scans, allowed are {MAX_SCANS}: "
            "save it anew as a plain JPEG"
        )


def image_size(content: bytes) -> tuple[int, int] | None:
    """(width, height) in pixels that a JPEG, PNG or WebP declares; None for anything else or a cut
    header.
    """
    try:
        if content.startswith(b"\x89PNG\r\n\x1a\n") and content[12:16] == b"IHDR":
            width, height = struct.unpack_from(">II", content, 16)
            return width, height
        if content.startswith(b"\xff\xd8"):
            return _jpeg_size(content)
        if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
            return _webp_size(content)
    except (struct.error, IndexError):
        return None
    return None


def jpeg_scans(content: bytes) -> int:
    """How often a JPEG's decoder goes over the whole picture; 0 for any other format."""
    if not content.startswith(b"\xff\xd8"):
        return 0
    return sum(marker == _JPEG_START_OF_SCAN for marker, _ in _jpeg_segments(content))


def _jpeg_size(content: bytes) -> tuple[int, int] | None:
    """Of the start of frame, which stands before the first scan."""
    for marker, at in _jpeg_segments(content):
        if marker in _JPEG_START_OF_FRAME:
            height, width = struct.unpack_from(">HH", content, at + 5)
            return width, height
        if marker == _JPEG_START_OF_SCAN:
            break
    return None


def _jpeg_segments(content: bytes) -> Iterator[tuple[int, int]]:
    """Markers with the places of their segments, as far as there are any (ITU-T T.81, annex B)."""
    at = 2
    while at + 4 <= len(content) and content[at] == 0xFF:
        marker = content[at + 1]
        if marker == _JPEG_END:
            return
        if marker == 0xFF:
            at += 1
        elif marker in _JPEG_STANDALONE:
            at += 2
        else:
            yield marker, at
            at += 2 + max(2, struct.unpack_from(">H", content, at + 2)[0])
        if marker == _JPEG_START_OF_SCAN:
            following = _JPEG_AFTER_SCAN.search(content, at)
            at = following.start() if following else len(content)


def _webp_size(content: bytes) -> tuple[int, int] | None:
    """The three chunk kinds of the WebP container: lossy, lossless, extended."""
    kind = content[12:16]
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", content, 26)
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L":
        bits = struct.unpack_from("<I", content, 21)[0]
        return (bits & 0x3FFF) + 1, ((bits >> 14) & 0x3FFF) + 1
    if kind == b"VP8X":
        width = int.from_bytes(content[24:27], "little") + 1
        height = int.from_bytes(content[27:30], "little") + 1
        return width, height
    return None


def _array(written: bytes) -> Pixels:
    """What the process wrote, not copied."""
    file = io.BytesIO(written)
    np.lib.format.read_magic(file)
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    return np.frombuffer(written, dtype, offset=file.tell()).reshape(shape)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill it if it still runs, and wait for its end, which then takes no time."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await asyncio.shield(process.wait())
