"""What decoders share: a cache of keys and values, a draft that is checked in one step, a guard
against loops.
"""

from collections.abc import Sequence

import numpy as np

from visavis.engine import Engine, Resident

Cache = dict[str, Resident]
"""Keys and values of the tokens so far, by the decoder's input: [1, heads, N, width] float32."""

# Small speech recognisers repeat themselves on music, noise and cut-off speech. People repeat
# words too ("no, no, no"), so a loop is only what comes back more often than anybody says it.
_LONGEST_PERIOD = 24
_FEWEST_TOKENS = 12
_FEWEST_REPEATS = 4
_KEPT_REPEATS = 1


def empty_cache(decoder: Engine) -> Cache:
    """Of no tokens, for every input of the decoder that takes past ones."""
    cache: Cache = {}
    for name, spec in decoder.inputs.items():
        if name.startswith("past_"):
            _, heads, _, width = spec.shape
            assert heads and width
            cache[name] = np.zeros((1, heads, 0, width), np.float32)
    return cache


def agreed(best: Sequence[int], guess: Sequence[int]) -> int:
    """How many tokens of a guess the decoder, which has looked at all of it in one step, would
    have said itself.

    best: its likeliest token after the start and after each token of the guess.
    """
    for i, (own, guessed) in enumerate(zip(best, guess, strict=False)):
        if own != guessed:
            return i
    return len(guess)


def loop_start(tokens: Sequence[int]) -> int | None:
    """Index from which a decoder has fallen into a loop and only repeats itself, or None.

    The first round of the loop counts as speech and lies before the index.
    """
    for period in range(1, _LONGEST_PERIOD + 1):
        repeats = max(_FEWEST_REPEATS, -(-_FEWEST_TOKENS // period))
        span = period * repeats
        if span > len(tokens):
            continue
        tail = tokens[len(tokens) - span :]
        if all(tail[i] == tail[i % period] for i in range(period, span)):
            return len(tokens) - span + period * _KEPT_REPEATS
    return None
