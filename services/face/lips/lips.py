"""What the lips of one turn do, as far as it is known: from durations, or from the sound."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from services.face.lips.audio_to_face import OUTPUT_RATE_HZ, output_times_s
from services.face.lips.loudness import Loudness
from services.face.lips.phonemes import SILENCE, VISEME_INDEX, phone
from services.face.lips.sound_track import SoundTrack
from services.face.lips.visemes import (
    ANTICIPATION_S,
    BITE,
    CLOSED,
    JAW,
    LIP_COEFFICIENTS,
    MouthSegment,
    close_gaps,
    lip_coefficients,
    segments,
)
from visavis.serving.errors import InvalidInputError
from visavis.wire.media import MelChunk

_KEPT_S = 3.0
"""How much of the past is kept: it shapes the present, and after a pause it is said again."""
_GAINS_KEPT_S = 20.0
"""The voice is made at most ten seconds ahead."""
_FRAMES_AHEAD = 8
"""Worked out together: it takes hardly longer than one does."""
_PHRASE_END_S = 0.14
_STRESSED_S = 0.09
_BLOCK = 15
"""Outputs of the network that are looked at together for stress: 150 ms."""
_STRESSED_JAW, _SHUT_JAW = 0.32, 0.04


class LipTrack(Protocol):
    """The lips of one turn at any time of it, as far as they are known."""

    @property
    def known_s(self) -> float:
        """Lips up to here are final."""
        ...

    @property
    def end_s(self) -> float | None:
        """Where the voice ends, once that is known."""
        ...

    @property
    def sound(self) -> SoundTrack | None:
        """The sound itself, where pictures are drawn from it; `known_s` then waits for it, too."""
        ...

    def at(self, time_s: float) -> NDArray[np.float32]:
        """Coefficients at an instant, at most 2.5 s before the latest: [len(LIP_COEFFICIENTS)]
        float32.
        """
        ...

    def stresses(self, until_s: float) -> list[tuple[float, float]]:
        """(when, how strong 0..1) of stressed sounds and (when, 0) of pauses, each told once."""
        ...


class DurationLips:
    """Lips of one turn from the spans of its phonemes."""

    sound = None

    def __init__(self, frame_s: float) -> None:
        self._frame_s = frame_s
        self._shapes: list[MouthSegment] = []
        self._joined: list[MouthSegment] = []
        self._stresses: list[tuple[float, float]] = []
        self._loudness: Loudness | None = None
        self._gains = np.zeros(0, np.float32)
        """How wide the jaw opens at each hop that was heard, from `_gains_s` on."""
        self._gains_s = 0.0
        self._hop_s = 1.0
        self._ahead: list[NDArray[np.float32]] = []
        """Lips from `_ahead_s` on, a frame apart, until more is heard."""
        self._ahead_s = 0.0
        self._heard_s = 0.0
        self.end_s: float | None = None

    @property
    def known_s(self) -> float:
        if self.end_s is not None:
            return float("inf")
        return max(0.0, self._heard_s - ANTICIPATION_S)

    def add(self, chunk: MelChunk) -> None:
        """Take in a chunk of the turn. InvalidInputError for spans that cannot be."""
        rate = chunk.sample_rate_hz
        fresh = segments(chunk.phonemes, rate)
        if chunk.start_s < self._heard_s:
            self._forget_from(chunk.start_s, chunk.place.pts)
        hops = chunk.place.pts + len(chunk.mel)
        self._heard_s = max(self._heard_s, hops * chunk.hop_samples / rate)
        self._note_stresses(chunk)
        self._note_loudness(chunk)
        self._shapes = sorted(self._shapes + fresh, key=lambda shape: shape.start_s)
        self._joined = close_gaps(self._shapes)
        self._ahead = []
        if chunk.place.last:
            self.end_s = self._heard_s

    def _forget_from(self, start_s: float, hops: int) -> None:
        """What comes from here on is said again, perhaps by another voice."""
        self._heard_s, self.end_s = start_s, None
        self._shapes = [shape for shape in self._shapes if shape.start_s < start_s]
        self._stresses = [stress for stress in self._stresses if stress[0] < start_s]
        self._gains = self._gains[: max(0, hops - round(self._gains_s / self._hop_s))]

    def finish(self) -> None:
        """No chunk follows: what was heard is all."""
        if self.end_s is None:
            self.end_s = self._heard_s

    def at(self, time_s: float) -> NDArray[np.float32]:
        """[len(LIP_COEFFICIENTS)] float32."""
        if self._shapes and self._shapes[0].end_s < time_s - 2 * _KEPT_S:
            self._shapes = [s for s in self._shapes if s.end_s >= time_s - _KEPT_S]
            self._joined = close_gaps(self._shapes)
        place = (time_s - self._ahead_s) / self._frame_s
        index = round(place)
        if abs(place - index) > 1e-6 or not 0 <= index < len(self._ahead):
            times_s = time_s + self._frame_s * np.arange(_FRAMES_AHEAD)
            lips = lip_coefficients(self._joined, times_s, frame_s=self._frame_s)
            lips[:, JAW] *= self._gain_at(times_s)
            self._ahead, self._ahead_s, index = list(lips), time_s, 0
        return self._ahead[index]

    def stresses(self, until_s: float) -> list[tuple[float, float]]:
        due = [stress for stress in self._stresses if stress[0] <= until_s]
        self._stresses = self._stresses[len(due) :]
        return due

    def _note_loudness(self, chunk: MelChunk) -> None:
        self._hop_s = chunk.hop_samples / chunk.sample_rate_hz
        if not len(chunk.mel):
            return
        if self._loudness is None:
            self._loudness = Loudness(self._hop_s)
            self._gains_s = chunk.place.pts * self._hop_s
        spare = len(self._gains) - round(_GAINS_KEPT_S / self._hop_s)
        if spare > 0:
            self._gains, self._gains_s = self._gains[spare:], self._gains_s + spare * self._hop_s
        lost = chunk.place.pts - round(self._gains_s / self._hop_s) - len(self._gains)
        fresh = self._loudness.gains(chunk.mel.mean(axis=1))
        self._gains = np.concatenate([self._gains, np.ones(max(0, lost), np.float32), fresh])

    def _gain_at(self, times_s: NDArray[np.floating]) -> NDArray[np.float32]:
        if not len(self._gains):
            return np.ones(len(times_s), np.float32)
        index = np.floor((times_s - self._gains_s) / self._hop_s).astype(int)
        return np.asarray(self._gains[np.clip(index, 0, len(self._gains) - 1)])

    def _note_stresses(self, chunk: MelChunk) -> None:
        loudness = chunk.mel.mean(axis=1) if chunk.mel.size else np.zeros(0, np.float32)
        low, high = (float(loudness.min()), float(loudness.max())) if len(loudness) else (0.0, 0.0)
        for span in chunk.phonemes:
            start_s = span.start_samples / chunk.sample_rate_hz
            duration_s = span.duration_samples / chunk.sample_rate_hz
            known = phone(span.symbol)
            if known is None:
                continue
            if known.parts == ((SILENCE, 1.0),):
                if duration_s >= _PHRASE_END_S:
                    self._stresses.append((start_s, 0.0))
            elif duration_s >= _STRESSED_S and known.strength >= 1.0 and _has_vowel(known.parts):
                hop = span.start_samples // chunk.hop_samples - chunk.place.pts + 1
                level = float(loudness[min(max(hop, 0), len(loudness) - 1)]) if len(loudness) else 0
                share = (level - low) / (high - low) if high > low else 0.5
                self._stresses.append((start_s, float(np.clip(share, 0.05, 1.0))))


class SoundLips:
    """Lips of one turn from what the network heard in its voice."""

    def __init__(self, frame_s: float, sound: SoundTrack | None = None) -> None:
        self.sound = sound
        self._half_s = frame_s / 2
        self._lips = np.zeros((0, len(LIP_COEFFICIENTS)), np.float32)
        self._first = 0
        self._scanned = 0
        self._was_open = False
        self.end_s: float | None = None

    @property
    def known_s(self) -> float:
        if self.end_s is not None:
            return float("inf")
        known_s = max(0.0, (self._first + len(self._lips) - 1) / OUTPUT_RATE_HZ - self._half_s)
        return known_s if self.sound is None else min(known_s, self.sound.known_s)

    def add(self, lips: NDArray[np.float32], *, end_s: float | None = None) -> None:
        """Append outputs [K, len(LIP_COEFFICIENTS)] float32; `end_s` once the sound is complete.

        Raises InvalidInputError for another shape.
        """
        if lips.ndim != 2 or lips.shape[1] != len(LIP_COEFFICIENTS):
            raise InvalidInputError(f"lips: shape {list(lips.shape)}")
        self._lips = np.concatenate([self._lips, lips])
        self.end_s = end_s

    def at(self, time_s: float) -> NDArray[np.float32]:
        """Mean over the frame, [len(LIP_COEFFICIENTS)] float32; closures by their peak, so that
        none is lost between frames.
        """
        spare = int((time_s - _KEPT_S) * OUTPUT_RATE_HZ) - self._first
        if spare > OUTPUT_RATE_HZ:
            self._lips, self._first = self._lips[spare:], self._first + spare
        times = output_times_s(self._first, len(self._lips))
        seen = self._lips[np.abs(times - time_s) <= self._half_s + 1e-6]
        if not len(seen):
            return np.zeros(len(LIP_COEFFICIENTS), np.float32)
        out = np.asarray(seen.mean(axis=0), np.float32)
        out[[CLOSED, BITE]] = seen[:, [CLOSED, BITE]].max(axis=0)
        return out

    def stresses(self, until_s: float) -> list[tuple[float, float]]:
        """Wide openings of the jaw count as stressed, and shutting after them as a pause."""
        found: list[tuple[float, float]] = []
        while (self._scanned + _BLOCK) / OUTPUT_RATE_HZ <= until_s:
            start = self._scanned - self._first
            block = self._lips[max(0, start) : max(0, start + _BLOCK), JAW]
            if not len(block):
                break
            jaw, when_s = float(block.max()), self._scanned / OUTPUT_RATE_HZ
            if jaw > _STRESSED_JAW:
                found.append((when_s, min(1.0, jaw / 0.5)))
            if self._was_open and jaw < _SHUT_JAW:
                found.append((when_s, 0.0))
            self._was_open = jaw >= _SHUT_JAW
            self._scanned += _BLOCK
        return found


def _has_vowel(parts: tuple[tuple[str, float], ...]) -> bool:
    return any(VISEME_INDEX[viseme] >= VISEME_INDEX["aa"] for viseme, _ in parts)
