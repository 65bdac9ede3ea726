"""Whether the lips meet where a voice needs them to: at p, b and m. Pure.

From phoneme spans and blendshapes alone, so that any face that speaks ARKit can be measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from visavis.wire.media import PhonemeSpan

CLOSED_GAP = 0.08
"""Lips further apart than this, as a share of the jaw's way, let light through."""

BILABIALS = frozenset({"P", "B", "M", "p", "b", "m"})
"""ARPABET of English, pinyin initials of Mandarin."""

OPEN_VOWELS = ("AA", "AE", "AO", "AW", "AY")
_MANDARIN_OPEN = ("a", "ai", "ao", "an", "ang", "ia", "iao", "ua")


@dataclass(frozen=True)
class Closure:
    """Gaps between the lips, 0 (shut) to 1: the smallest of each p, b or m; the largest of each
    open vowel, without which a mouth that never opens would pass."""

    bilabial_gaps: tuple[float, ...]
    open_gaps: tuple[float, ...]

    @property
    def closed(self) -> int:
        """How many of p, b, m were closed."""
        return sum(gap <= CLOSED_GAP for gap in self.bilabial_gaps)


def lip_gap(weights: NDArray[np.float32], names: Sequence[str]) -> NDArray[np.float32]:
    """Gap of each frame. weights: [T, 52]; ARKit's mouthClose takes back what jawOpen opens."""
    jaw, close = (weights[:, names.index(name)] for name in ("jawOpen", "mouthClose"))
    gap: NDArray[np.float32] = np.clip(jaw - close, 0.0, 1.0)
    return gap


def closure(
    spans: Sequence[PhonemeSpan], gaps: NDArray[np.float32], fps: int, sample_rate_hz: int
) -> Closure:
    """What the lips did at each phoneme. gaps: [T], frame k at k / fps of the voice."""
    bilabial, opened = [], []
    for span in spans:
        frames = _frames(span, len(gaps), fps, sample_rate_hz)
        if not len(frames):
            continue
        if span.symbol in BILABIALS:
            bilabial.append(float(gaps[frames].min()))
        elif is_open(span.symbol):
            opened.append(float(gaps[frames].max()))
    return Closure(tuple(bilabial), tuple(opened))


def is_open(symbol: str) -> bool:
    """Whether a phoneme is a vowel with an open mouth, whatever its stress or tone."""
    plain = symbol.rstrip("0123456789")
    return plain in OPEN_VOWELS or plain in _MANDARIN_OPEN


def _frames(span: PhonemeSpan, count: int, fps: int, sample_rate_hz: int) -> NDArray[np.int64]:
    """Frames shown during the span; for one shorter than a frame, the nearest."""
    start = span.start_samples / sample_rate_hz * fps
    end = (span.start_samples + span.duration_samples) / sample_rate_hz * fps
    frames = np.arange(int(np.ceil(start)), int(np.floor(end)) + 1)
    if not len(frames):
        frames = np.array([round((start + end) / 2)])
    inside: NDArray[np.int64] = frames[(frames >= 0) & (frames < count)]
    return inside
