"""Phrases of a sentence, each made by itself, that sound as if they were made in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from services.tts.sound import (
    HOP_SAMPLES,
    MEL_MARGIN_SAMPLES,
    NOTHING,
    SILENCE,
    Block,
    PlacedSpan,
    Span,
    cut_spans,
    fade,
    log_mel,
    log_mel_padded,
    place_spans,
    spoken_hops,
    start_at_once,
)
from services.tts.text.chunker import Pause, Phrase
from services.tts.text.english import SpokenPart, arpabet_spans, spoken_word_ends
from services.tts.text.script_runs import Run
from services.tts.text.surroundings import Surroundings
from services.tts.word_ends import place_words

# Both pieces of a sentence are made with the words of the other one beside them and cut at the end
# of the same word. The sound behind the cut of the first (its tail) fades into the second, which is
# moved by the few samples that bring both into step: overlap and add by similarity, as in Verhelst
# and Roelands, "An overlap-add technique based on waveform similarity (WSOLA)", ICASSP 1993.

MAX_SHIFT_SAMPLES = 120
"""5 ms to each side: a whole period of the deepest voice."""
_CROSS_FADE_SAMPLES = 240
TAIL_SAMPLES = _CROSS_FADE_SAMPLES + MAX_SHIFT_SAMPLES
_NOBODY = Run("", "")


class Sentence:
    """What was said of the sentence that an answer is in, for the phrase that goes on with it: its
    words in one voice, and the sound that the next ones take up."""

    def __init__(self) -> None:
        self._said = _NOBODY
        self._tail: NDArray[np.float32] = NOTHING

    def around(self, runs: Sequence[Run], phrase: Phrase) -> Surroundings:
        """Of `phrase`, which is spoken as `runs`."""
        follows = len(self._tail) > 0 and runs[0].language == self._said.language
        ahead = phrase.ahead if phrase.pause is Pause.NONE else ""
        return Surroundings(self._said.text if follows else "", ahead)

    def takes_up(self, block: Block) -> Block | None:
        """The first block of a phrase, joined to the one before; None where it stands apart."""
        if not len(block.lead):
            return None
        tail, self._tail = self._tail, NOTHING
        if len(tail):
            return joined(tail, block)
        return replace(block, voice=fade(block.voice, at_end=False), lead=NOTHING)

    def let_go(self) -> Block | None:
        """The sound that nothing took up, a hop of it."""
        tail, self._tail = self._tail, NOTHING
        if not len(tail):
            return None
        voice = fade(tail[:HOP_SAMPLES], at_start=False)
        mel = log_mel(voice)
        return Block(voice, mel, (PlacedSpan(SILENCE, 0, len(mel)),))

    def said(self, runs: Sequence[Run], around: Surroundings, last: Block) -> None:
        """A phrase was spoken as `runs`; `last`: its last block."""
        self._tail = last.tail
        text = runs[-1].text
        if len(runs) == 1 and around.before:
            blank = "" if runs[0].language == "zh" else " "
            text = f"{around.before.rstrip()}{blank}{text}"
        self._said = Run(runs[-1].language, text) if len(last.tail) else _NOBODY

    def ended(self) -> None:
        """What comes next is another one."""
        self._said = _NOBODY


def cut_out(
    voice: NDArray[np.float32], first_hops: int, end_hops: int, *, opens: bool, goes_on: bool
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32]]:
    """What is before the part between two hops of `voice` [N], the part, and what is behind it, all
    float32 in -1..1.

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
    """`block`, which has a lead, as it follows the sound before: `tail` [TAIL_SAMPLES] float32."""
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


def _best_start(tail: NDArray[np.float32], around: NDArray[np.float32]) -> int:
    """Where `around` is most like `tail`, by normalised correlation; the nearest of equals."""
    windows = np.lib.stride_tricks.sliding_window_view(around, len(tail))
    energy = np.sqrt(np.sum(windows**2, axis=1) * float(np.sum(tail**2)))
    likeness = windows @ tail / np.maximum(energy, 1e-6)
    away = np.abs(np.arange(len(windows)) - MAX_SHIFT_SAMPLES)
    return int(np.argmax(likeness - 1e-3 * away / MAX_SHIFT_SAMPLES))


def trimmed(
    voice: NDArray[np.float32], hops: Sequence[int], part: SpokenPart, late_hops: int = 0
) -> Block | None:
    """The block of what `part` is to say, between the silences at its ends; None in silence.

    voice: [hops * 300] float32 at 24 kHz, of all letters of `part`, also those that are only there
    to go before or behind; hops: how long the beginning, each letter and the end last; late_hops:
    so much they run behind the sound.
    """
    spans = cut_spans(arpabet_spans(["", *part.letters, ""], hops), late_hops, sum(hops))
    spans.append(Span(SILENCE, late_hops))
    word_ends_hops = [end - late_hops for end in spoken_word_ends(part.letters, hops)]
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
