"""The process that decodes one uploaded picture, so that it can be ended at any moment.

Reads the picture from stdin and writes its pixels to stdout in NumPy's own format. Exit status 1:
it cannot be decoded. Imports nothing of ours: it starts for every upload.
"""

from __future__ import annotations

import resource
import sys

import cv2
import numpy as np

MEMORY_BYTES = 4 << 30


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
    np.lib.format.write_array(sys.stdout.buffer, np.ascontiguousarray(pixels), allow_pickle=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
