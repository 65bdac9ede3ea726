"""A stranger's bundle is read in a process of its own first, which may take so much and no more.

    python -m services.face.engines.head.checking SECONDS < bundle.zip

Exit status 1: it will not do, and the one line on stdout says why; else, each line says what of the
head is not drawn.
"""

from __future__ import annotations

import logging
import math
import subprocess
import sys

import cv2

from services.face.engines.head.bundle import read_bundle, unpack_bundle
from services.face.engines.head.framing import framed
from services.face.engines.head.model import model_of
from services.face.limits import environ, take_no_more
from visavis.serving.errors import InvalidInputError

log = logging.getLogger(__name__)

LARGEST_BYTES = 20_000_000
_MEMORY_BYTES = 4 << 30
_WALL_FACTOR = 4
"""Of a busy machine: so much longer than its work may the process take."""
_REFUSED = 1
_SIZE = 256


def check(packed: bytes, limit_s: float) -> tuple[str, ...]:
    """Reads a bundle for at most `limit_s` seconds of a processor's time. Blocks. What of the head
    is not drawn, each as a whole sentence.

    Raises InvalidInputError, which says why it will not do.
    """
    if len(packed) > LARGEST_BYTES:
        raise InvalidInputError(
            f"the head bundle has {len(packed) / 1e6:.1f} MB, "
            f"allowed are {LARGEST_BYTES / 1e6:.0f} MB"
        )
    limit = math.ceil(limit_s)
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "services.face.engines.head.checking", str(limit)],
            input=packed,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_WALL_FACTOR * limit,
            env=environ(),
            check=False,
        )
    except subprocess.TimeoutExpired:
        status, said = -1, ""
    else:
        status, said = ended.returncode, ended.stdout.decode(errors="replace").strip()
    if status == _REFUSED and said:
        raise InvalidInputError(said)
    if status:
        log.warning("reading a head bundle ended with status %s", status)
        raise InvalidInputError(
            f"the head bundle takes more than {limit_s:g} s or too much memory to read"
        )
    return tuple(said.splitlines())


def main(limit_s: int) -> int:
    """Ended by the kernel after `limit_s` of work, whatever its parent does."""
    take_no_more(limit_s, _MEMORY_BYTES)
    cv2.setNumThreads(1)
    try:
        bundle = read_bundle(framed(unpack_bundle(sys.stdin.buffer.read())))
        model_of(bundle, _SIZE)
    except InvalidInputError as error:
        sys.stdout.write(f"{error}\n")
        return _REFUSED
    sys.stdout.writelines(f"{sentence}\n" for sentence in bundle.left_out)
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
