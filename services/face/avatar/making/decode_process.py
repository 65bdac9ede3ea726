"""The process that decodes one uploaded picture, so that it can be ended at any moment.

Reads the picture from stdin and writes its pixels to stdout in NumPy's own format. Exit status 1:
it cannot be decoded. Imports nothing of ours: it starts for every upload.
"""

from __future__ import annotations

import resource
import sys
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

MEMORY_BYTES = 4 << 30
_ROWS = 64
"""At a time, so that a large picture takes no more memory than it must."""


def main(flags: int, cpu_s: int) -> int:
    """`flags` of cv2.imdecode. Ended by the kernel after `cpu_s` of work, whatever its parent
    does.
    """
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    cv2.setNumThreads(1)
    content = np.frombuffer(sys.stdin.buffer.read(), np.uint8)
    try:
        pixels = cv2.imdecode(content, flags)
    except (cv2.error, MemoryError):
        return 1
    if pixels is None:
        return 1
    if flags == cv2.IMREAD_COLOR and content[:2].tobytes() != b"\xff\xd8":  # JPEG has none
        pixels = _without_what_was_erased(pixels, cv2.imdecode(content, cv2.IMREAD_UNCHANGED))
    np.lib.format.write_array(sys.stdout.buffer, np.ascontiguousarray(pixels), allow_pickle=False)
    return 0


def _without_what_was_erased(pixels: NDArray[Any], as_is: NDArray[Any] | None) -> NDArray[Any]:
    """`pixels` [H, W, 3] uint8 before white where the file, `as_is`, is transparent: editors often
    leave there what somebody took out.
    """
    if as_is is None or as_is.ndim != 3 or as_is.shape[2] != 4:
        return pixels
    opaque = 65_535 if as_is.dtype == np.uint16 else 255
    if as_is.shape[:2] != pixels.shape[:2] or as_is[..., 3].min() == opaque:
        return pixels
    for top in range(0, len(pixels), _ROWS):
        rows = pixels[top : top + _ROWS]
        hidden = 1 - as_is[top : top + _ROWS, :, 3:].astype(np.float32) / opaque
        rows[:] = np.rint(rows + (255 - rows) * hidden)
    return pixels


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
