"""Random numbers by number, and smooth noise over them: nothing is carried from frame to frame."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

_DRAWS_PER_BLOCK = 64


class Draws:
    """Streams of random numbers under one seed, any of which can be had at once."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._block = lru_cache(maxsize=64)(self._draw_block)

    def at(self, channel: int, index: int) -> float:
        """The index-th number of a channel, uniform in 0..1. The index may be negative."""
        block, place = divmod(index, _DRAWS_PER_BLOCK)
        return self._block(channel, block)[place]

    def _draw_block(self, channel: int, block: int) -> list[float]:
        """Philox is a generator with a counter, so it can start at any block."""
        key = self._seed % 2**64 + (channel << 64)
        bits = np.random.Philox(key=key, counter=(block % 2**64) << 128)
        numbers: list[float] = np.random.Generator(bits).random(_DRAWS_PER_BLOCK).tolist()
        return numbers


def spline(knots: list[float], mix: float) -> float:
    """A cubic B-spline over four knots in -1..1, `mix` of the way from the second to the third;
    stretched so that it comes close to the ends of that range.
    """
    a, b, c, d = knots
    return 1.5 * (
        a * (1 - mix) ** 3 / 6
        + b * (3 * mix**3 - 6 * mix**2 + 4) / 6
        + c * (-3 * mix**3 + 3 * mix**2 + 3 * mix + 1) / 6
        + d * mix**3 / 6
    )
