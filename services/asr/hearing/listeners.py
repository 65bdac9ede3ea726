"""Is a short sound a listener's ("mm-hm", "right"), or does somebody want something?

A recogniser writes other words where somebody hums. What its encoder makes of the sound tells more
than the words do: a small network goes over its rows (`SoundModel`), in well under a millisecond.
`training/turn_taking/listeners.py` fits the weights, of each recogniser its own.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from services.asr.hearing.log_mel import SAMPLE_RATE_HZ

WEIGHTS_PATH = Path(__file__).parents[1] / "weights" / "listeners.npz"
# A listener's sound, and whatever is taken for one, is shorter with the silence around it.
LONGEST_HEARD_SAMPLES = SAMPLE_RATE_HZ * 7 // 4
_SILENCE = 1e-6
_DEEPEST_STEPS = 3
_FAR_ROWS = 2


@dataclass(frozen=True, slots=True)
class SoundModel:
    """Hears `rows_of` one after the other: two convolutions, and what is found where it counts.

    into [D + 1, W], near [5, W, C], far [5, C, C] over each second row, looks [C, L], tells
    [(L + 1) C]; their biases; all float32.
    """

    into: NDArray[np.float32]
    into_bias: NDArray[np.float32]
    near: NDArray[np.float32]
    near_bias: NDArray[np.float32]
    far: NDArray[np.float32]
    far_bias: NDArray[np.float32]
    looks: NDArray[np.float32]
    tells: NDArray[np.float32]
    bias: NDArray[np.float32]

    def odds(self, rows: NDArray[np.float32]) -> float:
        """Log odds of a listener's sound, of one whose words are none of his. rows: [T, D + 1]
        float32, T > 0."""
        heard = _bent(rows @ self.into + self.into_bias)
        heard = _bent(_across(heard, self.near, 1) + self.near_bias)
        heard = _bent(_across(heard, self.far, _FAR_ROWS) + self.far_bias)
        scores = heard @ self.looks
        looks = np.exp(scores - scores.max(axis=0))
        looks /= looks.sum(axis=0)
        found = np.concatenate([(looks.T @ heard).ravel(), heard.max(axis=0)])
        return float(found @ self.tells + self.bias)


def _bent(x: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(x / (1 + np.exp(-x)))


def _across(
    heard: NDArray[np.float32], weights: NDArray[np.float32], apart: int
) -> NDArray[np.float32]:
    """A convolution over rows, `apart` from each other. heard: [T, C]; weights: [K, C, D], K odd;
    [T, D]."""
    reach = len(weights) // 2 * apart
    around = np.pad(heard, ((reach, reach), (0, 0)))
    shifts = (around[k * apart : k * apart + len(heard)] @ w for k, w in enumerate(weights))
    return np.asarray(sum(shifts))


@cache
def sound_model(bundle: str) -> SoundModel | None:
    """Of the recogniser with this name; None where none was fitted."""
    with np.load(WEIGHTS_PATH) as kept:
        if f"{bundle}/into" not in kept:
            return None
        return SoundModel(
            *(kept[f"{bundle}/{field.name}"].astype(np.float32) for field in fields(SoundModel))
        )


def rows_of(
    hidden: NDArray[np.float32], pcm: NDArray[np.float32], hop_samples: int
) -> NDArray[np.float32]:
    """What a SoundModel hears. hidden: [T, D] float32, an encoder's view of pcm [N] float32, a row
    each `hop_samples`; [T, D + 1] float32: each row beside how loud it is, in steps of 20 dB below
    the loudest, which is 1."""
    frames = np.zeros(len(hidden) * hop_samples, np.float32)
    frames[: len(pcm)] = pcm[: len(frames)]
    level = np.sqrt((frames.reshape(len(hidden), hop_samples) ** 2).mean(axis=1)) + _SILENCE
    steps = np.maximum(np.log10(level / level.max()), -_DEEPEST_STEPS)
    return np.column_stack([hidden, 1 + steps]).astype(np.float32)
