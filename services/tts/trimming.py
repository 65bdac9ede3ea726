"""Blocks without the silence in which a voice begins and ends, and without what is not theirs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.tts.joining import cut_out
from services.tts.letters_en import SpokenPart
from services.tts.sound import (
    HOP_SAMPLES,
    MEL_MARGIN_SAMPLES,
    Block,
    Span,
    cut_spans,
    log_mel_padded,
    place_spans,
    spoken_hops,
    start_at_once,
)
from services.tts.word_ends import place_words


def trimmed(
    voice: NDArray[np.float32],
    spans: list[Span],
    word_ends_hops: Sequence[int],
    part: SpokenPart,
) -> Block | None:
    """The block of what `part` is to say, between the silences at its ends; None in silence.

    voice: [hops * 300], of all letters of `part`, also those that are only there to go before or
    behind; spans: of all of it; word_ends_hops: where each of its spoken words ends in it.
    """
    first, end = spoken_hops(voice)
    if part.first:
        first = word_ends_hops[part.first - 1]
    else:
        voice, first = start_at_once(voice, first)
    if part.goes_on:
        end = word_ends_hops[part.stop - 1]
    if first >= end:
        return None
    lead, heard, tail = cut_out(voice, first, end, opens=part.first > 0, goes_on=part.goes_on)
    margin = MEL_MARGIN_SAMPLES
    before = voice[: first * HOP_SAMPLES] if part.first else voice[:0]
    behind = voice[end * HOP_SAMPLES :] if part.goes_on else voice[:0]
    around = [np.pad(before, (margin, 0))[-margin:], heard, np.pad(behind, (0, margin))[:margin]]
    kept = cut_spans(spans, first, end)
    ends = [min(max(hops, first + 1), end) for hops in word_ends_hops[part.first : part.stop]]
    words = place_words(part.owners, ends, first, end)
    mel = log_mel_padded(np.concatenate(around))
    return Block(heard, mel, place_spans(kept, 0, end - first), words, lead, tail)
