"""In which order the pictures of idle life come: the face that draws them once and the gateway that
plays them from memory count alike. Pure.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
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

    Each comes once among every `count` blocks, in an order of their own, and no sooner again than
    half of `count` blocks after it began.
    """
    group, place = divmod(block, count)
    return _order(group, count)[place]


@lru_cache(maxsize=1024)
def _order(group: int, count: int) -> tuple[int, ...]:
    """Every second one is drawn freely, and those in between until they fit both neighbours: an
    order does not depend on all that were before it."""
    if group % 2 == 0:
        return _drawn(group, 0, count)
    before, after = _drawn(group - 1, 0, count), _drawn(group + 1, 0, count)
    orders = (_drawn(group, attempt, count) for attempt in itertools.count())
    return next(order for order in orders if _fits(order, before, after))


def _fits(order: Sequence[int], before: Sequence[int], after: Sequence[int]) -> bool:
    reach = len(order) // 2
    places = ((place, before.index(each), after.index(each)) for place, each in enumerate(order))
    return all(last - reach <= place <= following + reach for place, last, following in places)


def _drawn(group: int, attempt: int, count: int) -> tuple[int, ...]:
    def lot(segment: int) -> bytes:
        return hashlib.blake2b(f"{group} {attempt} {segment}".encode(), digest_size=8).digest()

    return tuple(sorted(range(count), key=lot))
