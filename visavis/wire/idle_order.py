"""In which order the pictures of idle life come: the face that draws them once and the gateway that
plays them from memory count alike. Pure.
"""

from __future__ import annotations

import hashlib
from enum import IntEnum
from functools import lru_cache


class Listening(IntEnum):
    """What a loop of a face that listens shows of each of its frames, one after the other."""

    BEGINS = 0
    """The second in which it begins to, from rest."""
    GOES_ON = 1
    NODS = 2
    """A second that has a nod."""


LISTENING_PART_S = 1
"""How long the first and the last of them are shown, from a key frame on."""


def times_drawn(*, listening: bool) -> int:
    """How many pictures a loop has of each frame."""
    return len(Listening) if listening else 1


def segment_of(block: int, count: int) -> int:
    """Which of `count` segments the block-th one is that is seen, both from 0.

    Each comes once among every `count` blocks, in an order of their own, and never twice in a row.
    """
    group, place = divmod(block, count)
    return _order(group, count)[place]


@lru_cache(maxsize=1024)
def _order(group: int, count: int) -> tuple[int, ...]:
    found = _shuffled(group, count)
    if count > 2 and found[0] == _shuffled(group - 1, count)[-1]:
        found[0], found[1] = found[1], found[0]
    return tuple(found)


def _shuffled(group: int, count: int) -> list[int]:
    def lot(segment: int) -> bytes:
        return hashlib.blake2b(f"{group} {segment}".encode(), digest_size=8).digest()

    return sorted(range(count), key=lot)
