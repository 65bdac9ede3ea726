"""Lets a sentence that is made in several pieces sound as if it were made in one.

Both pieces are made with the words of the other one beside them and cut at the end of the same
word. The sound behind the cut of the first (its tail) fades into the second, which is moved by the
few samples that bring both into step: overlap and add by similarity, as in Verhelst and Roelands,
"An overlap-add technique based on waveform similarity (WSOLA)", ICASSP 1993.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from services.tts.sound import HOP_SAMPLES, Block, fade

MAX_SHIFT_SAMPLES = 120
"""5 ms to each side: a whole period of the deepest voice."""
_CROSS_FADE_SAMPLES = 240
TAIL_SAMPLES = _CROSS_FADE_SAMPLES + MAX_SHIFT_SAMPLES


def cut_out(
    voice: NDArray[np.float32], first_hops: int, end_hops: int, *, opens: bool, goes_on: bool
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """What is before the part between two hops of `voice` [N], the part, and what is behind it.

    opens: what is before belongs to the same sentence, said already; goes_on: it goes on behind.
    Where not, there is nothing and the part is faded.
    """
    start, stop = first_hops * HOP_SAMPLES, end_hops * HOP_SAMPLES
    part = fade(voice[start:stop], at_start=not opens, at_end=not goes_on)
    lead, tail = voice[:0], voice[:0]
    if opens:
        lead = np.pad(voice[:start], (MAX_SHIFT_SAMPLES, 0))[-MAX_SHIFT_SAMPLES:]
    if goes_on:
        tail = np.pad(voice[stop:], (0, TAIL_SAMPLES))[:TAIL_SAMPLES]
    return lead, part, tail


def joined(tail: NDArray[np.float32], block: Block) -> Block:
    """`block`, which has a lead, as it follows the sound before `tail` [TAIL_SAMPLES]."""
    behind = block.tail if len(block.tail) else np.zeros(TAIL_SAMPLES, np.float32)
    whole = np.concatenate([block.lead, block.voice, behind])
    length = min(_CROSS_FADE_SAMPLES, len(block.voice))
    start = _best_start(tail[:length], whole[: 2 * MAX_SHIFT_SAMPLES + length])
    voice = whole[start : start + len(block.voice)].copy()
    rising = (0.5 - 0.5 * np.cos(np.pi * (np.arange(length) + 0.5) / length)).astype(np.float32)
    voice[:length] = rising * voice[:length] + (1 - rising) * tail[:length]
    after = whole[start + len(block.voice) :]
    after = np.pad(after, (0, TAIL_SAMPLES))[:TAIL_SAMPLES] if len(block.tail) else block.tail
    return replace(block, voice=voice, lead=block.lead[:0], tail=after)


def let_go(tail: NDArray[np.float32]) -> NDArray[np.float32]:
    """A hop of a tail [TAIL_SAMPLES] that nothing follows."""
    return fade(tail[:HOP_SAMPLES], at_start=False)


def _best_start(tail: NDArray[np.float32], around: NDArray[np.float32]) -> int:
    """Where `around` is most like `tail`, by normalised correlation; the nearest of equals."""
    windows = np.lib.stride_tricks.sliding_window_view(around, len(tail))
    energy = np.sqrt(np.sum(windows**2, axis=1) * float(np.sum(tail**2)))
    likeness = windows @ tail / np.maximum(energy, 1e-6)
    away = np.abs(np.arange(len(windows)) - MAX_SHIFT_SAMPLES)
    return int(np.argmax(likeness - 1e-3 * away / MAX_SHIFT_SAMPLES))
