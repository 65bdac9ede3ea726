"""What simulated visitors ask and simulated answers say, as text and as sound.

Pure. A word is a pair of numbers, and sounds as a pair of tones. In an answer the first is the
visitor to whom it belongs and the second which word of his it is: whatever is lost on the way to
him, said twice, or meant for another can be read from the sound itself. A question is spoken in
the same alphabet, so that the simulated recogniser understands it, or does not, by its sound.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Pair = tuple[int, int]

NUMBERS = 128
"""Tones of either kind."""
MOST_VISITORS = NUMBERS - 1
PLAIN = NUMBERS - 1
"""First number of words that are no code: the second is their place in the question."""
ANSWER_SPAN = 16
"""Words of one answer at most: those of question n have the numbers from 16 n on, modulo 128."""
LAPS = NUMBERS // ANSWER_SPAN

WORD_S, GAP_S = 0.2, 0.0625
"""A word of an answer and the silence behind it."""
_ASKED_GAP_S = 0.016
"""In a question the silence is shorter than what a VAD takes for a pause."""
_QUICKEST_S, _PACES, _PACE_S = 0.2, 9, 0.01
"""Were all questions as long, a look at unfinished speech would always be under way at the same
place before their end, and the answer wait for it always or never."""

# ------------------------------------------------------------ as text

# Other syllables than those of the load's own code words.
_SYLLABLES = [consonant + vowel for consonant in "bdfglmnprst" for vowel in "aeiou"]
_LETTERS = re.compile(r"[a-z]+")
_QUESTION = ("can", "you", "tell", "me", "what", "you", "know", "about", "", "today")
"""The empty one is the code word."""


def word_of(pair: Pair) -> str:
    """The code word of a pair."""
    value, size = pair[0] * NUMBERS + pair[1], len(_SYLLABLES)
    return "".join(_SYLLABLES[value // size**power % size] for power in (2, 1, 0))


def read_word(text: str) -> Pair | None:
    """The pair that a word says, whatever its marks and capitals; None: it is no code word."""
    letters = "".join(_LETTERS.findall(text.lower()))
    syllables = [letters[at : at + 2] for at in range(0, len(letters), 2)]
    if len(letters) != 6 or any(syllable not in _SYLLABLES for syllable in syllables):
        return None
    value = 0
    for syllable in syllables:
        value = value * len(_SYLLABLES) + _SYLLABLES.index(syllable)
    return divmod(value, NUMBERS) if value < NUMBERS**2 else None


def question_of(visitor: int, number: int) -> str:
    """What a visitor asks as his question `number`, counted from 0."""
    return understood(_asked_pairs(visitor, number))


def understood(pairs: list[Pair | None]) -> str:
    """What a recogniser makes of the words that it heard."""
    words = []
    for pair in pairs:
        if pair is None:
            continue
        if pair[0] != PLAIN:
            words.append(word_of(pair))
        elif pair[1] < len(_QUESTION):
            words.append(_QUESTION[pair[1]])
    if not words:
        return ""
    whole = pairs[-1] == (PLAIN, len(_QUESTION) - 1)
    text = " ".join(words) + ("?" if whole else "")
    return text[:1].upper() + text[1:]


def asked_in(text: str) -> Pair | None:
    """Visitor and number (modulo 128) of a question; None: its code word was not understood."""
    found = [pair for word in text.split() if (pair := read_word(word)) is not None]
    return found[-1] if found else None


def answer_pairs(visitor: int, number: int, mean_words: int) -> list[Pair]:
    """The words of the answer to a question: up to four more or fewer than the mean."""
    spread = min(4, mean_words - 3, ANSWER_SPAN - mean_words)
    count = mean_words + (7 * visitor + 3 * number) % (2 * spread + 1) - spread
    first = number % LAPS * ANSWER_SPAN
    return [(visitor, first + k) for k in range(count)]


def answer_text(pairs: list[Pair]) -> str:
    """The words of an answer with a comma in the middle and a point at the end."""
    words = [word_of(pair) for pair in pairs]
    words[0] = words[0].capitalize()
    middle = len(words) // 2
    words[middle - 1] += ","
    words[-1] += "."
    return " ".join(words)


# ------------------------------------------------------------ as sound

_LOW_HZ, _HIGH_HZ, _STEP_HZ = 400.0, 3200.0, 20.0
_HUM_HZ = 220.0
_LEVEL = 0.25
_FADE_S = 0.008
_HOP_S = 0.004
_SILENT = 0.15 * _LEVEL
_SHORTEST_S = 0.1
_BINS = 1 << 15
_CLEAR = 0.25
"""Share of the strongest tone that the other one of a pair has at least."""


def tones(pair: Pair | None, rate_hz: int, seconds: float) -> NDArray[np.float32]:
    """[seconds * rate_hz] float32 in -1..1: the sound of a word; None: of one that is no code."""
    time = np.arange(round(seconds * rate_hz)) / rate_hz
    hz = [_HUM_HZ]
    if pair is not None:
        hz = [_LOW_HZ + _STEP_HZ * pair[0], _HIGH_HZ + _STEP_HZ * pair[1]]
    sound = sum((_LEVEL * np.sin(2 * np.pi * one * time) for one in hz), np.zeros(len(time)))
    fade = np.minimum(1.0, np.minimum(time, time[::-1]) / _FADE_S)
    return (sound * fade).astype(np.float32)


def asked_sound(visitor: int, number: int, rate_hz: int) -> NDArray[np.float32]:
    """[N] float32 in -1..1: the question as it is spoken, without silence at its ends."""
    gap = np.zeros(round(_ASKED_GAP_S * rate_hz), np.float32)
    word_s = _QUICKEST_S + _PACE_S * ((5 * visitor + 7 * number) % _PACES)
    words = [tones(pair, rate_hz, word_s) for pair in _asked_pairs(visitor, number)]
    return np.concatenate([part for word in words for part in (word, gap)][:-1])


@dataclass(frozen=True, slots=True)
class ReadWord:
    """A word found in sound. pair: None where it is not clear which."""

    pair: Pair | None
    start_s: float
    length_s: float


def read_sound(pcm: NDArray[np.float32], rate_hz: int) -> list[ReadWord]:
    """All words in pcm, [N] float32 in -1..1: what stands between two silences is one.

    What lasts less than half a word is told as one that is not clear; clicks are left out.
    """
    hop = round(_HOP_S * rate_hz)
    hops = len(pcm) // hop
    level = np.sqrt(np.mean(pcm[: hops * hop].reshape(hops, hop) ** 2, axis=1))
    loud = np.concatenate([[False], level > _SILENT, [False]])
    edges = np.flatnonzero(np.diff(loud))
    found = []
    for start, end in zip(edges[::2] * hop, edges[1::2] * hop, strict=True):
        length_s = (end - start) / rate_hz
        if length_s < 5 * _HOP_S:
            continue
        pair = _read_tones(pcm[start:end], rate_hz) if length_s >= _SHORTEST_S else None
        found.append(ReadWord(pair, start / rate_hz, length_s))
    return found


def _read_tones(word: NDArray[np.float32], rate_hz: int) -> Pair | None:
    """The middle of a word, where both tones are steady, by its spectrum."""
    middle = word[len(word) // 5 : len(word) - len(word) // 5]
    spectrum = np.abs(np.fft.rfft(middle * np.hanning(len(middle)), _BINS))
    bin_hz = rate_hz / _BINS
    peaks = []
    for first_hz in (_LOW_HZ, _HIGH_HZ):
        low = round((first_hz - _STEP_HZ / 2) / bin_hz)
        high = round((first_hz + (NUMBERS - 0.5) * _STEP_HZ) / bin_hz)
        at = low + int(np.argmax(spectrum[low:high]))
        peaks.append((float(spectrum[at]), round((at * bin_hz - first_hz) / _STEP_HZ)))
    strongest = float(spectrum.max())
    if min(peak for peak, _ in peaks) < _CLEAR * strongest:
        return None
    return peaks[0][1], peaks[1][1]


def _asked_pairs(visitor: int, number: int) -> list[Pair | None]:
    code = (visitor, number % NUMBERS)
    return [(PLAIN, place) if word else code for place, word in enumerate(_QUESTION)]
