"""Is a short sound a listener's ("mm-hm", "right"), or does somebody want something?

A recogniser writes other words where somebody hums. What its encoder makes of the sound tells more
than the words do: a logistic regression weighs its mean and spread over the loud frames, `summary`.
Mandarin listeners say short words rather than hum: there it weighs how likely the decoder held any
of the words that they begin with, beside those that stop people (`FirstWords`).
`training/turn_taking/listeners.py` fits the weights, of each recogniser its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from services.asr.hearing.log_mel import SAMPLE_RATE_HZ

WEIGHTS_PATH = Path(__file__).parents[1] / "weights" / "listeners.npz"
# A listener's sound, and whatever is taken for one, is shorter with the silence around it.
LONGEST_SAMPLES = SAMPLE_RATE_HZ * 5 // 4
_SPEECH_RANGE = 10 ** (-22 / 20)
"""Of the loudest frame."""
_OTHERS = 1e-3
"""What a quiet frame in the middle of the sound weighs."""
_SMOOTH_FRAMES = 3
_SILENCE = 1e-6
# What a listener's words begin with in Mandarin, and those of somebody who wants something.
_LISTENS = "嗯 哦 喔 啊 哇 对 是 好 行 没 有 懂 明白 知道 当然 真 这样 可以".split()
_ASKS = """停 等 别 不 什么 谁 为什么 怎么 哪 多 算 安 喂 再 先 说 打 重 下 上 快 大 小 听
    请 但是 可是 你 我 那""".split()


@dataclass(frozen=True, slots=True)
class ListenerModel:
    """Weighs a `summary`. weights: [K] float32."""

    weights: NDArray[np.float32]
    bias: float

    def odds(self, seen: NDArray[np.float32]) -> float:
        """Log odds of a listener's sound. seen: [K] float32."""
        return float(seen @ self.weights) + self.bias


class FirstWords:
    """What a decoder holds likely to be written first of a short sound in Mandarin."""

    def __init__(self, ids_of: Callable[[str], list[int]]) -> None:
        """ids_of: a word as the recogniser's tokens; a word of several is left out."""
        self._listens, self._asks = _single(_LISTENS, ids_of), _single(_ASKS, ids_of)

    def summary(self, scores: NDArray[np.float32]) -> NDArray[np.float32]:
        """scores: [vocabulary] float32, log probabilities of the first token of text; [2] float32:
        those of a listener's words together, and of words that want something."""
        together = [np.logaddexp.reduce(scores[ids]) for ids in (self._listens, self._asks)]
        return np.array(together, np.float32)


def _single(words: Iterable[str], ids_of: Callable[[str], list[int]]) -> NDArray[np.int64]:
    found = (ids_of(word) for word in words)
    return np.array([ids[0] for ids in found if len(ids) == 1], np.int64)


@cache
def listener_model(bundle: str) -> ListenerModel | None:
    """Of the recogniser with this name; None where none was fitted."""
    with np.load(WEIGHTS_PATH) as kept:
        if bundle not in kept:
            return None
        return ListenerModel(kept[bundle], float(kept[f"{bundle}_bias"]))


def summary(
    hidden: NDArray[np.float32], pcm: NDArray[np.float32], hop_samples: int
) -> NDArray[np.float32]:
    """hidden: [T, D] float32, an encoder's view of pcm [N] float32, a row each `hop_samples`;
    [2 D + 2] float32: mean and spread of the rows where it is loud, and for how long it is."""
    frames = np.zeros(len(hidden) * hop_samples, np.float32)
    frames[: len(pcm)] = pcm[: len(frames)]
    level = np.sqrt((frames.reshape(len(hidden), hop_samples) ** 2).mean(axis=1)) + _SILENCE
    around = np.pad(level, _SMOOTH_FRAMES // 2, mode="edge")
    level = np.convolve(around, np.full(_SMOOTH_FRAMES, 1 / _SMOOTH_FRAMES), "valid")
    loud = level > level.max() * _SPEECH_RANGE
    found = np.flatnonzero(loud)
    span = slice(int(found[0]), int(found[-1]) + 1)
    weight = loud[span] + _OTHERS
    mean = np.average(hidden[span], axis=0, weights=weight)
    spread = np.sqrt(np.average((hidden[span] - mean) ** 2, axis=0, weights=weight))
    length = np.log(len(weight))
    return np.concatenate([mean, spread, [length, length**2]]).astype(np.float32)
