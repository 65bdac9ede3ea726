"""What the voices share: spoken blocks, silence at their ends, loudness, log-mel."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from services.tts.word_ends import WordEnd
from visavis.engine.rows import RowAsk
from visavis.mel import HTK

SAMPLE_RATE_HZ = 24_000
HOP_SAMPLES = 300
N_MELS = 80
SILENCE = "sil"
NOTHING = np.zeros(0, np.float32)

_WINDOW_SAMPLES = 1200
MEL_MARGIN_SAMPLES = (_WINDOW_SAMPLES - HOP_SAMPLES) // 2
"""How far the window of the first frame reaches beyond its hop, and that of the last."""
_LOW_HZ, _HIGH_HZ = 60.0, 8000.0
_MEL_FLOOR = 1e-5
_FADE_SAMPLES = 120
_SPEECH_LEVEL = 0.09
"""Root mean square of a sentence."""
_LIMIT_FROM = 0.8
_SILENT_BELOW_DB = -58.0
# A beginning below this is not missed, but waited for: a breath, the closure of a plosive.
_AUDIBLE = 0.01
_BEFORE_AUDIBLE_SAMPLES = 192


@dataclass(frozen=True, slots=True)
class Span:
    """One phoneme and how many hops it lasts. Lists of spans have no gaps."""

    symbol: str
    hops: int


@dataclass(frozen=True, slots=True)
class PlacedSpan:
    """One phoneme, the hop of its block where it starts, and how many hops it lasts."""

    symbol: str
    start_hops: int
    hops: int


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive sound of one voice.

    voice: [hops * HOP_SAMPLES] float32; mel: [hops, N_MELS] float32; spans: the phonemes that start
    in the block, each with its whole length, which may reach into the next block; words: the words
    of the text that end in the block, as far as that is known.
    """

    voice: NDArray[np.float32]
    mel: NDArray[np.float32]
    spans: tuple[PlacedSpan, ...]
    words: tuple[WordEnd, ...] = ()
    lead: NDArray[np.float32] = field(default_factory=lambda: NOTHING)
    """Sound before the block: of what was said before in the same sentence."""
    tail: NDArray[np.float32] = field(default_factory=lambda: NOTHING)
    """Sound behind the block, where its sentence goes on: the next block takes it up."""


VoiceSteps: TypeAlias = Generator[Block | RowAsk, Any, None]
"""Sound as it is made, and asks of networks that several sessions share."""


def log_mel(voice: NDArray[np.float32]) -> NDArray[np.float32]:
    """Natural log of the mel magnitude spectrum: voice [hops * 300] float32 -> [hops, 80] float32.

    Frame k is centred on the middle of hop k: Hann window of 1200 samples, 80 triangles on the HTK
    mel scale from 60 to 8000 Hz, floor 1e-5. Outside the voice there is silence.
    """
    return log_mel_padded(np.pad(voice, MEL_MARGIN_SAMPLES))


def log_mel_padded(voice: NDArray[np.float32]) -> NDArray[np.float32]:
    """As log_mel, for voice [MEL_MARGIN_SAMPLES + hops * 300 + MEL_MARGIN_SAMPLES] float32, which
    comes with its surroundings on both sides.
    """
    if len(voice) < _WINDOW_SAMPLES:
        return np.zeros((0, N_MELS), np.float32)
    frames = np.lib.stride_tricks.sliding_window_view(voice, _WINDOW_SAMPLES)[::HOP_SAMPLES]
    magnitude = np.abs(np.fft.rfft(frames * _window(), axis=1)).astype(np.float32)
    return np.asarray(np.log(np.maximum(_mel_bands(magnitude), _MEL_FLOOR)), np.float32)


def spoken_hops(voice: NDArray[np.float32], margin_hops: int = 1) -> tuple[int, int]:
    """First hop that is heard and the one behind the last, with a margin; (0, 0) in silence.

    voice: [hops * 300] float32 in -1..1.
    """
    level = np.sqrt(np.mean(voice.reshape(-1, HOP_SAMPLES) ** 2, axis=1))
    heard = np.flatnonzero(level > 10 ** (_SILENT_BELOW_DB / 20))
    if not heard.size:
        return 0, 0
    return max(0, int(heard[0]) - margin_hops), min(len(level), int(heard[-1]) + 1 + margin_hops)


def gain_to_speech(voice: NDArray[np.float32]) -> np.float32:
    """What brings a sentence, [hops * 300] float32, to the loudness that all voices share."""
    first, end = spoken_hops(voice)
    heard = voice[first * HOP_SAMPLES : end * HOP_SAMPLES]
    level = float(np.sqrt(np.mean(heard**2))) if len(heard) else 0.0
    return np.float32(_SPEECH_LEVEL / max(level, 1e-3))


def first_audible(voice: NDArray[np.float32]) -> int | None:
    """The sample, 8 ms before -40 dB, from which `voice` is worth hearing; None in silence.

    voice: [N] float32 in -1..1.
    """
    loud = np.flatnonzero(np.abs(voice) > _AUDIBLE)
    return max(0, int(loud[0]) - _BEFORE_AUDIBLE_SAMPLES) if loud.size else None


def start_at_once(voice: NDArray[np.float32], first: int) -> tuple[NDArray[np.float32], int]:
    """`voice` [hops * 300] float32, moved by half a hop or less, and the hop where it can be heard
    at once.

    `first` where it is so quiet that this is not known.
    """
    start = first_audible(voice)
    if start is None:
        return voice, first
    hop = round(start / HOP_SAMPLES)
    move = start - hop * HOP_SAMPLES
    moved = np.pad(voice, (max(-move, 0), max(move, 0)))
    return moved[max(move, 0) : max(move, 0) + len(voice)], hop


def cut_spans(spans: Sequence[Span], first: int, end: int) -> list[Span]:
    """Spans as far as they lie between the hops `first` and `end`."""
    kept: list[Span] = []
    start = 0
    for span in spans:
        hops = min(start + span.hops, end) - max(start, first)
        if hops > 0:
            kept.append(Span(span.symbol, hops))
        start += span.hops
    return kept


def place_spans(spans: Sequence[Span], first: int, end: int) -> tuple[PlacedSpan, ...]:
    """The spans that start at `first` or later and before `end`, counted from `first`."""
    placed = []
    start = 0
    for span in spans:
        if first <= start < end:
            placed.append(PlacedSpan(span.symbol, start - first, span.hops))
        start += span.hops
    return tuple(placed)


def silence(hops: int) -> Block:
    """Digital silence."""
    mel = np.full((hops, N_MELS), np.log(_MEL_FLOOR), np.float32)
    return Block(np.zeros(hops * HOP_SAMPLES, np.float32), mel, (PlacedSpan(SILENCE, 0, hops),))


def fade(
    voice: NDArray[np.float32], *, at_start: bool = True, at_end: bool = True
) -> NDArray[np.float32]:
    """`voice` [N] float32 with its ends brought to zero along half a cosine, so that joins do not
    click.
    """
    length = min(_FADE_SAMPLES, len(voice) // 2)
    ramp = 0.5 - 0.5 * np.cos(np.pi * (np.arange(length) + 0.5) / max(length, 1))
    faded = voice.copy()
    if at_start:
        faded[:length] *= ramp.astype(np.float32)
    if at_end:
        faded[len(voice) - length :] *= ramp[::-1].astype(np.float32)
    return faded


def limit(voice: NDArray[np.float32]) -> NDArray[np.float32]:
    """`voice` [N] float32 with peaks above 0.8 bent so that none passes 1; all else as it is."""
    excess = np.abs(voice) - _LIMIT_FROM
    if excess.size == 0 or excess.max() <= 0:
        return voice
    room = 1.0 - _LIMIT_FROM
    bent = _LIMIT_FROM + room * np.tanh(excess / room)
    return np.where(excess > 0, np.sign(voice) * bent, voice).astype(np.float32)


def to_pcm(voice: NDArray[np.float32]) -> NDArray[np.int16]:
    """[N] float32 in -1..1 to [N] int16."""
    return np.asarray(np.rint(np.clip(voice, -1.0, 1.0) * 32767.0), np.int16)


@cache
def _window() -> NDArray[np.float32]:
    return np.hanning(_WINDOW_SAMPLES + 1)[:-1].astype(np.float32)


def _mel_bands(magnitude: NDArray[np.float32]) -> NDArray[np.float32]:
    """magnitude [T, bins] -> [T, N_MELS]: triangles on the HTK mel scale.

    A triangle's rising side is one segment of bins, its falling side the next. Segment sums instead
    of a matrix product, because for that NumPy wakes threads, which cost more than they give here.
    """
    starts, filled, rising = _segments()
    inner = magnitude[:, starts[0] : starts[-1]]
    offsets = starts[:-1] - starts[0]
    up = np.add.reduceat(inner * rising, offsets, axis=1) * filled
    down = np.add.reduceat(inner * (1 - rising), offsets, axis=1) * filled
    return up[:, :-1] + down[:, 1:]


@cache
def _segments() -> tuple[NDArray[np.intp], NDArray[np.float32], NDArray[np.float32]]:
    """First bin of each segment between two mel edges and the end; which have bins; the weights.

    Weights rise from 0 to 1 within each segment.
    """
    edges = HTK.edges_hz(N_MELS, _LOW_HZ, _HIGH_HZ)
    bins = np.fft.rfftfreq(_WINDOW_SAMPLES, 1 / SAMPLE_RATE_HZ)
    starts = np.searchsorted(bins, edges)
    inner = bins[starts[0] : starts[-1]]
    segment = np.clip(np.searchsorted(edges, inner, side="right") - 1, 0, N_MELS)
    rising = (inner - edges[segment]) / (edges[segment + 1] - edges[segment])
    filled = (np.diff(starts) > 0).astype(np.float32)
    return starts, filled, rising.astype(np.float32)
