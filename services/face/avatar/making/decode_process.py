"""The process that decodes one uploaded picture, so that it can be ended at any moment.

Reads the picture from stdin and writes its pixels to stdout in NumPy's own format. Exit status 1:
it cannot be decoded. Imports next to nothing of ours: it starts for every upload.
"""

from __future__ import annotations

import sys
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.limits import take_no_more

MEMORY_BYTES = 4 << 30
_ROWS = 64
"""At a time, so that a large picture takes no more memory than it must."""


def main(flags: int, cpu_s: int) -> int:
    """`flags` of cv2.imdecode. Ended by the kernel after `cpu_s` of work, whatever its parent
    does.
    """
    take_no_more(cpu_s, MEMORY_BYTES)
    cv2.setNumThreads(1)
    content = np.frombuffer(sys.stdin.buffer.read(), np.uint8)
    try:
        pixels = cv2.imdecode(content, flags)
    except (cv2.error, MemoryError):
        return 1
    if pixels is None:
        return 1
    if flags == cv2.IMREAD_COLOR and content[:2].tobytes() != b"\xff\xd8":  # JPEG has none
        as_is = cv2.imdecode(content, cv2.IMREAD_UNCHANGED)
        if as_is is not None and _has_erased(as_is):
            lying = cv2.imdecode(content, cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION)
            assert lying is not None  # it was decoded a moment ago
            pixels = _without_what_was_erased(pixels, _turned(as_is, lying, pixels))
    np.lib.format.write_array(sys.stdout.buffer, np.ascontiguousarray(pixels), allow_pickle=False)
    return 0


def _has_erased(as_is: NDArray[Any]) -> bool:
    transparent = as_is.ndim == 3 and as_is.shape[2] == 4
    return transparent and bool(as_is[..., 3].min() < _opaque(as_is))


def _opaque(as_is: NDArray[Any]) -> int:
    return 65_535 if as_is.dtype == np.uint16 else 255


def _turned(as_is: NDArray[Any], lying: NDArray[Any], upright: NDArray[Any]) -> NDArray[Any]:
    """`as_is` [H, W, 4] turned as EXIF data made `upright` of `lying`: read with its transparency,
    a picture is not turned.
    """
    for quarters in range(4):
        for mirror in (1, -1):
            if np.array_equal(np.rot90(lying[:, ::mirror], quarters), upright):
                return np.rot90(as_is[:, ::mirror], quarters)
    raise cv2.error("turned in no way that there is")


def _without_what_was_erased(pixels: NDArray[Any], as_is: NDArray[Any]) -> NDArray[Any]:
    """`pixels` [H, W, 3] uint8 before white where the file, `as_is`, is transparent: editors often
    leave there what somebody took out.
    """
    opaque = _opaque(as_is)
    for top in range(0, len(pixels), _ROWS):
        rows = pixels[top : top + _ROWS]
        hidden = 1 - as_is[top : top + _ROWS, :, 3:].astype(np.float32) / opaque
        rows[:] = np.rint(rows + (255 - rows) * hidden)
    return pixels


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
