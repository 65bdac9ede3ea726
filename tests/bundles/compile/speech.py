"""Recorded speech for the passes."""

from __future__ import annotations

import wave
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

CLIPS = ("two_cities_01", "austen_0880", "jfk", "zh/funasr_asr_example")
_FOLDER = Path(__file__).parents[2] / "clips"


@cache
def sound(name: str) -> NDArray[np.float32]:
    """[N] float32 in -1..1 at 16 kHz."""
    with wave.open(str(_FOLDER / f"{name}.wav")) as file:
        pcm = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    return np.asarray(pcm / 32768, np.float32)
