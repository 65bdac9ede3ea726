"""What was seen and heard on the page, and measures of it."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import soxr
from numpy.typing import NDArray

from services.face.avatar.making.landmarks import FaceDetector, FaceLandmarker
from services.face.avatar.making.tflite import TfliteModel

_UPPER_LIP, _LOWER_LIP, _BROWS, _CHIN = 13, 14, 9, 152
_FPS = 25
SPEECH_LEVEL = 0.01
"""Of full scale, root mean square: speech is above it, silence far below."""


@dataclass(frozen=True)
class Tape:
    """One recording of the page; times in seconds of the page's clock."""

    pictures: list[NDArray[np.uint8]]
    """RGB, 256 x 256."""
    shown_s: NDArray[np.float64]
    states: list[str]
    """body[data-state] when the picture was shown."""
    sound: NDArray[np.float32]
    """[N] at rate_hz, in blocks of equal length."""
    rate_hz: int
    begun_s: NDArray[np.float64]
    """[blocks] when each began: a busy browser's sound stands still at times, and goes on later."""

    @classmethod
    def from_page(cls, kept: dict[str, Any]) -> Tape:
        """From what page_recorder.js gives."""
        sound = np.asarray(np.frombuffer(base64.b64decode(kept["pcm"]), "<i2") / 32768, np.float32)
        came_s = np.array(kept["came_ms"]) / 1000
        return cls(
            pictures=[_rgb(picture["jpeg"]) for picture in kept["pictures"]],
            shown_s=np.array([picture["shown_ms"] for picture in kept["pictures"]]) / 1000,
            states=[picture["state"] for picture in kept["pictures"]],
            sound=sound,
            rate_hz=kept["rate_hz"],
            begun_s=begun_s(came_s, len(sound) / kept["rate_hz"] / len(came_s)),
        )

    def loudness(self, at_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Root mean square of the 60 ms of sound around each time."""
        power = np.cumsum(np.concatenate([[0.0], self.sound.astype(np.float64) ** 2]))
        half = round(0.03 * self.rate_hz)
        centre = self._samples(at_s)
        first, last = (np.clip(centre + side, 0, len(self.sound)) for side in (-half, half))
        return np.asarray(np.sqrt((power[last] - power[first]) / (2 * half)))

    def speech_span_s(self) -> tuple[float, float]:
        """From the first to the last sound that is speech. ValueError where all is silence."""
        times = np.arange(self.begun_s[0], self.begun_s[-1] + self._block / self.rate_hz, 0.02)
        loud = times[self.loudness(times) > SPEECH_LEVEL]
        if not len(loud):
            raise ValueError("nothing was heard")
        return float(loud[0]), float(loud[-1])

    def speech_16khz(self) -> NDArray[np.int16]:
        """The answer's sound with half a second of what is around it."""
        begin_s, end_s = self.speech_span_s()
        first, last = self._samples(np.array([begin_s - 0.5, end_s + 0.5]))
        sound = soxr.resample(self.sound[first:last], self.rate_hz, 16_000)
        return np.asarray(np.round(np.clip(sound, -1, 1) * 32767), np.int16)

    @property
    def _block(self) -> int:
        return len(self.sound) // len(self.begun_s)

    def _samples(self, at_s: NDArray[np.float64]) -> NDArray[np.intp]:
        """Which sample was played at each time; while the sound stood still, the next one."""
        block = np.clip(np.searchsorted(self.begun_s, at_s, "right") - 1, 0, None)
        within = np.round((at_s - self.begun_s[block]) * self.rate_hz).astype(np.intp)
        return block * self._block + np.clip(within, 0, self._block)

    def shown_between(self, begin_s: float, end_s: float, *, every: int = 1) -> NDArray[np.intp]:
        """Indices of the pictures shown then."""
        return np.flatnonzero((self.shown_s >= begin_s) & (self.shown_s <= end_s))[::every]


def begun_s(came_s: NDArray[np.float64], block_s: float) -> NDArray[np.float64]:
    """When each block of sound began, from when the page was given it, [blocks] in seconds.

    A message is late at times, and the next one is not: then the sound has gone on. Where all that
    follow are late as well it has stood still, and they are in time.
    """
    ends_s = block_s * np.arange(1, len(came_s) + 1)
    held_s = np.minimum.accumulate((came_s - ends_s)[::-1])[::-1]
    return np.asarray(held_s + ends_s - block_s)


def _rgb(jpeg: str) -> NDArray[np.uint8]:
    bgr = cv2.imdecode(np.frombuffer(base64.b64decode(jpeg), np.uint8), cv2.IMREAD_COLOR)
    assert bgr is not None
    return np.asarray(cv2.cvtColor(bgr, cv2.COLOR_BGR2RGB), np.uint8)


class FaceGauge:
    """Measures the face in a picture by its landmarks."""

    def __init__(self, bundle: Path) -> None:
        self._detector = FaceDetector(TfliteModel(bundle / "face_detection_short_range.tflite"))
        self._landmarker = FaceLandmarker(
            TfliteModel(bundle / "face_landmark.tflite"),
            TfliteModel(bundle / "iris_landmark.tflite"),
        )

    def landmarks(self, picture: NDArray[np.uint8]) -> NDArray[np.float64]:
        """[468, 2] in pixels of a picture, which must show a face."""
        boxes = self._detector.detect(picture)
        measured = self._landmarker.measure(picture, boxes[0]) if boxes else None
        assert measured is not None, "a picture without a face was shown"
        return measured.points[:, :2].astype(np.float64)

    def points(self, pictures: Iterable[NDArray[np.uint8]]) -> NDArray[np.float64]:
        """[pictures, 468, 2], in units of the distance from brows to chin."""
        rows = [self.landmarks(picture) for picture in pictures]
        return np.array([row / np.linalg.norm(row[_BROWS] - row[_CHIN]) for row in rows])


def openings(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far the lips are apart in each picture, in the same unit."""
    return np.asarray(np.linalg.norm(points[:, _UPPER_LIP] - points[:, _LOWER_LIP], axis=1))


def best_lag_s(
    times_s: NDArray[np.float64],
    opening: NDArray[np.float64],
    tape: Tape,
    *,
    reach_s: float,
) -> tuple[float, float]:
    """Lag of the lips behind the sound at which the two agree best, and their correlation there."""
    grid_s = np.arange(times_s[0], times_s[-1], 1 / _FPS)
    lips = _smooth(np.interp(grid_s, times_s, opening))
    lags_s = np.arange(-reach_s, reach_s + 1e-9, 0.02)
    agreement = [
        np.corrcoef(lips, _smooth(np.sqrt(tape.loudness(grid_s - lag_s))))[0, 1] for lag_s in lags_s
    ]
    best = int(np.argmax(agreement))
    return float(lags_s[best]), float(agreement[best])


def _smooth(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Over 120 ms: both jaw and loudness follow syllables, not single sounds."""
    return np.convolve(values, np.ones(3) / 3, "same")
