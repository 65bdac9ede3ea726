"""Phoneme durations -> lip coefficients over time, with coarticulation.

The blend of neighbouring mouth shapes follows the dominance functions of Cohen and Massaro,
"Modeling coarticulation in synthetic visual speech" (1993): every shape pulls each coefficient
towards its target with a weight that falls off exponentially before and after its segment. Shapes
for which a coefficient hardly matters (the lips of a "k") pull weakly and take what is around them.
Closures of the lips are not blended but guaranteed: each reaches its full value in a frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from services.face.lips.phonemes import SILENCE, VISEME_INDEX, VISEMES, phone
from visavis.serving.errors import InvalidInputError
from visavis.wire.media import PhonemeSpan

LIP_COEFFICIENTS = (
    "jaw_open",
    "mouth_wide",
    "pucker",
    "lips_closed",
    "lower_lip_under_teeth",
    "tongue_up",
    "tongue_out",
)
JAW, WIDE, PUCKER, CLOSED, BITE, TONGUE, TONGUE_OUT = range(len(LIP_COEFFICIENTS))

ANTICIPATION_S = 0.12
"""A frame is final once the phonemes up to this long after it are known."""
SHORT_PAUSE_S = 0.09
"""Gaps between words of running speech are shorter: the mouth does not rest in them."""

_NEUTRAL = len(VISEMES)
_TARGETS = np.array(
    # jaw  wide  pucker closed bite tongue and its tip out
    [
        (0.00, 0.00, 0.00, 0.0, 0.0, 0.0, 0.0),  # sil
        (0.02, 0.00, 0.05, 1.0, 0.0, 0.0, 0.0),  # PP
        (0.07, 0.10, 0.00, 0.0, 1.0, 0.0, 0.0),  # FF
        (0.15, 0.12, 0.00, 0.0, 0.0, 1.0, 1.0),  # TH
        (0.13, 0.18, 0.00, 0.0, 0.0, 0.8, 0.0),  # DD
        (0.18, 0.10, 0.00, 0.0, 0.0, 0.0, 0.0),  # kk
        (0.13, 0.00, 0.55, 0.0, 0.0, 0.2, 0.0),  # CH
        (0.07, 0.42, 0.00, 0.0, 0.0, 0.3, 0.0),  # SS
        (0.15, 0.15, 0.00, 0.0, 0.0, 0.9, 0.0),  # nn
        (0.15, 0.00, 0.45, 0.0, 0.0, 0.2, 0.0),  # RR
        (0.50, 0.14, 0.00, 0.0, 0.0, 0.0, 0.0),  # aa
        (0.32, 0.38, 0.00, 0.0, 0.0, 0.0, 0.0),  # E
        (0.17, 0.58, 0.00, 0.0, 0.0, 0.1, 0.0),  # I
        (0.38, 0.00, 0.58, 0.0, 0.0, 0.0, 0.0),  # O
        (0.16, 0.00, 0.88, 0.0, 0.0, 0.0, 0.0),  # U
        (0.00, 0.00, 0.00, 0.0, 0.0, 0.0, 0.0),  # before the first and after the last span
    ],
    np.float32,
)
_DOMINANCE = np.array(
    # jaw  wide  pucker
    [
        (1.00, 1.00, 1.00),  # sil
        (0.90, 0.15, 0.15),  # PP
        (0.90, 0.30, 0.30),  # FF
        (0.60, 0.25, 0.20),  # TH
        (0.60, 0.25, 0.20),  # DD
        (0.40, 0.10, 0.10),  # kk
        (0.80, 0.50, 0.80),  # CH
        (0.90, 0.60, 0.40),  # SS
        (0.50, 0.25, 0.20),  # nn
        (0.50, 0.40, 0.60),  # RR
        (1.00, 0.70, 0.80),  # aa
        (1.00, 0.80, 0.80),  # E
        (0.80, 1.00, 1.00),  # I
        (1.00, 0.90, 1.00),  # O
        (0.80, 1.00, 1.00),  # U
        (0.50, 0.50, 0.50),  # neutral
    ],
    np.float32,
)
_VOWELS = np.array([name in ("aa", "E", "I", "O", "U") for name in VISEMES])
_NUCLEI, _OFF_GLIDES = ("aa", "E", "O"), ("I", "O", "U")
_DECAY_S = 0.04
_REACH_S = 0.25
_RAMP_S = 0.05


@dataclass(frozen=True, slots=True)
class MouthSegment:
    """One mouth shape and when it is held, in seconds of the turn's voice."""

    viseme: int
    start_s: float
    end_s: float
    strength: float = 1.0
    label: int = 0
    """Class of the sound: `viseme`, but for off-glides that of the vowel which they leave."""


def segments(spans: Iterable[PhonemeSpan], sample_rate_hz: int) -> list[MouthSegment]:
    """Mouth shapes of phoneme spans, in order.

    Symbols that are not known leave a gap: the neighbours' shapes fill it. InvalidInputError for a
    negative duration or a rate that is not positive.
    """
    if sample_rate_hz <= 0:
        raise InvalidInputError(f"sample_rate_hz: {sample_rate_hz} is not positive")
    out: list[MouthSegment] = []
    for span in spans:
        if span.duration_samples < 0:
            raise InvalidInputError(
                f"phonemes: {span.symbol!r} lasts {span.duration_samples} samples"
            )
        known = phone(span.symbol)
        if known is None:
            continue
        start = span.start_samples / sample_rate_hz
        duration = span.duration_samples / sample_rate_hz
        label = ""
        for viseme, share in known.parts:
            # Phoneme sets and viseme sets alike count a diphthong as one sound.
            label = label if label in _NUCLEI and viseme in _OFF_GLIDES else viseme
            end = start + share * duration
            shape = VISEME_INDEX[viseme]
            out.append(MouthSegment(shape, start, end, known.strength, VISEME_INDEX[label]))
            start = end
    return out


def close_gaps(shapes: Sequence[MouthSegment]) -> list[MouthSegment]:
    """The same shapes without pauses so short that the mouth does not rest in them.

    Half of such a pause goes to either neighbour. Pauses at the ends and long ones stay.
    """
    silence = VISEME_INDEX[SILENCE]
    merged = _join_silences(shapes)
    out: list[MouthSegment] = []
    for index, shape in enumerate(merged):
        inner = 0 < index < len(merged) - 1
        short = shape.end_s - shape.start_s < SHORT_PAUSE_S
        if not (shape.viseme == silence and inner and short):
            out.append(shape)
    for index in range(len(out) - 1):
        left, right = out[index], out[index + 1]
        gap = right.start_s - left.end_s
        if 0 < gap < SHORT_PAUSE_S:
            middle = left.end_s + gap / 2
            out[index] = replace(left, end_s=middle)
            out[index + 1] = replace(right, start_s=middle)
    return out


def _join_silences(shapes: Sequence[MouthSegment]) -> list[MouthSegment]:
    silence = VISEME_INDEX[SILENCE]
    out: list[MouthSegment] = []
    for shape in shapes:
        if out and shape.viseme == silence and out[-1].viseme == silence:
            shape = MouthSegment(silence, out.pop().start_s, shape.end_s)
        out.append(shape)
    return out


def frame_visemes(
    shapes: Sequence[MouthSegment], times_s: NDArray[np.floating]
) -> NDArray[np.int64]:
    """Label at each instant: [T] seconds -> [T] int64; "sil" where no shape is held."""
    out = np.full(len(times_s), VISEME_INDEX[SILENCE], np.int64)
    for shape in shapes:
        out[(times_s >= shape.start_s) & (times_s < shape.end_s)] = shape.label
    return out


def lip_coefficients(
    shapes: Sequence[MouthSegment], times_s: NDArray[np.floating], *, frame_s: float = 0.04
) -> NDArray[np.float32]:
    """Coefficients at each instant: [T] seconds -> [T, len(LIP_COEFFICIENTS)] float32 in 0..1.

    `frame_s` is the distance of the instants when they are drawn: a closure shows in at least one.
    """
    times = np.asarray(times_s, np.float64)
    out = np.zeros((len(times), len(LIP_COEFFICIENTS)), np.float32)
    if not len(times):
        return out
    near = [s for s in shapes if times[0] - _REACH_S < s.end_s and s.start_s < times[-1] + _REACH_S]
    if not near:
        return out
    held = np.array([(s.viseme, s.start_s, s.end_s, s.strength) for s in near], np.float64)
    distance = np.maximum(held[None, :, 1] - times[:, None], times[:, None] - held[None, :, 2])
    out[:, : PUCKER + 1] = _blend(held, distance)
    for column in (TONGUE, TONGUE_OUT):
        peak = _TARGETS[held[:, 0].astype(int), column].astype(np.float64)
        out[:, column] = _bumps(distance, peak, np.zeros(len(near)))
    # Shorter than a frame, a closure could fall between two: it is held for one at least.
    hold = np.maximum(0.0, frame_s - (held[:, 2] - held[:, 1])) / 2
    for column, viseme in ((CLOSED, "PP"), (BITE, "FF")):
        peak = (held[:, 0] == VISEME_INDEX[viseme]).astype(np.float64)
        out[:, column] = _bumps(distance, peak, hold)
    out[:, JAW] *= 1 - 0.85 * out[:, CLOSED]
    out[:, JAW] *= 1 - 0.6 * out[:, BITE]
    out[:, WIDE : PUCKER + 1] *= 1 - 0.4 * np.maximum(out[:, CLOSED], out[:, BITE])[:, None]
    return out


def _blend(held: NDArray[np.float64], distance: NDArray[np.float64]) -> NDArray[np.float32]:
    """Dominance-weighted mean of the targets of jaw, width and pucker. [T, 3]"""
    viseme = held[:, 0].astype(int)
    strength = np.where(_VOWELS[viseme], held[:, 3], 1.0)[:, None]
    duration = held[:, 2] - held[:, 1]
    falloff = np.exp(-np.maximum(distance, 0) / _DECAY_S)
    # Deep inside a long segment the neighbours must not show, at its edges half of them does.
    inside = np.clip(-distance, 0, 0.08) / _DECAY_S
    pull = falloff * np.exp(inside) * np.clip(duration / 0.06, 0.35, 1.0)
    # However many instants are asked for together, each has the same shapes near it.
    pull[distance >= _REACH_S] = 0.0
    weight = pull[:, :, None] * _DOMINANCE[viseme]
    target = _TARGETS[viseme, : PUCKER + 1] * strength
    rest = np.exp(-2.0) * _DOMINANCE[_NEUTRAL]
    mean = np.sum(weight * target, axis=1) / (np.sum(weight, axis=1) + rest)
    return np.asarray(mean, np.float32)


def _bumps(
    distance: NDArray[np.float64], peak: NDArray[np.floating], hold_s: NDArray[np.float64]
) -> NDArray[np.float32]:
    """Highest bump at each instant: [T] from distances [T, S], peaks [S] and holds [S].

    A bump is full within `hold_s` of its segment and gone _RAMP_S later.
    """
    ramp = np.clip(1 - (distance - hold_s) / _RAMP_S, 0, 1)
    smooth = 0.5 - 0.5 * np.cos(np.pi * ramp)
    return np.asarray(np.max(smooth * peak, axis=1), np.float32)
