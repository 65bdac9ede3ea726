"""Blocks without the silence in which a voice begins and ends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.tts.sound import (
    HOP_SAMPLES,
    Block,
    Span,
    cut_spans,
    fade,
    log_mel,
    place_spans,
    spoken_hops,
)
from services.tts.word_ends import place_words


def trimmed(
    voice: NDArray[np.float32],
    spans: list[Span],
    word_ends_hops: Sequence[int],
    owners: Sequence[int | None],
) -> Block | None:
    """The block between the silences at both ends of `voice` [hops * 300]; None in silence.

    spans: of the whole voice; word_ends_hops: where each spoken word ends in it; owners: see
    last_spoken_words.
    """
    first, end = spoken_hops(voice)
    if first == end:
        return None
    heard = fade(voice[first * HOP_SAMPLES : end * HOP_SAMPLES])
    kept = cut_spans(spans, first, end)
    ends = [min(max(hops, first + 1), end) for hops in word_ends_hops]
    words = place_words(owners, ends, first, end)
    return Block(heard, log_mel(heard), place_spans(kept, 0, end - first), words)
