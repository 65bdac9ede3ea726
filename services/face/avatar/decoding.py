"""Uploaded pictures are decoded in a process of their own: within bounds, and no longer than
somebody waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import math
import os
import sys
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.avatar.portrait import image_size, jpeg_scans
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
        """The picture's pixels. InvalidInputError for anything but a fair-sized JPEG, PNG or WebP.

        Cancelled, it ends the work at once.
        """
        check_picture(content)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "services.face.avatar.decode_process",
            str(int(reading)),
            str(math.ceil(self.limit_s)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            # A pool of threads would be address space that the picture cannot have.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
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
    """InvalidInputError, from the markers alone, for what is no picture or costs too much."""
    if len(content) > MAX_IMAGE_BYTES:
        raise InvalidInputError(
            f"the picture has {len(content) / 1e6:.1f} MB, "
            f"allowed are {MAX_IMAGE_BYTES / 1e6:.0f} MB"
        )
    declared = image_size(content)
    if declared is None:
        raise InvalidInputError("not a picture: JPEG, PNG and WebP are read")
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
