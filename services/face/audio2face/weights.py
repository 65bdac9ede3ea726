"""What a client of Audio2Face-3D changes of the weights, and what it says of emotions. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from visavis.arkit import APPLE_NAMES, IN_APPLES_ORDER
from visavis.serving.errors import InvalidInputError
from visavis.styles import NEUTRAL

_ORDER = np.array(IN_APPLES_ORDER)
_STYLES = {
    "amazement": "surprised",
    "anger": "angry",
    "cheekiness": "happy",
    "disgust": "disgusted",
    "fear": "afraid",
    "grief": "sad",
    "joy": "happy",
    "outofbreath": "excited",
    "pain": "sad",
    "sadness": "sad",
}
"""Audio2Face-3D's emotions, and the nearest that our faces show."""
_FELT = 0.2
"""A weaker emotion is none."""


class Adjustment:
    """weight * multiplier + offset for each blendshape, cut to 0..1 where that is asked for.

    Names that are not ARKit's, such as those of tongues with more shapes, change nothing.
    """

    def __init__(
        self, multipliers: Mapping[str, float], offsets: Mapping[str, float], *, clamp: bool
    ) -> None:
        """Raises InvalidInputError for what is no number."""
        self._multipliers = _by_name(multipliers, 1.0, "bs_weight_multipliers")
        self._offsets = _by_name(offsets, 0.0, "bs_weight_offsets")
        self._clamp = clamp

    def applied(self, weights: NDArray[np.float32]) -> NDArray[np.float32]:
        """weights: [52] float32 in our order -> [52] float32 in Apple's."""
        made = weights[_ORDER] * self._multipliers + self._offsets
        return np.asarray(np.clip(made, 0.0, 1.0) if self._clamp else made, np.float32)


def style_of(emotions: Mapping[str, float]) -> str:
    """The style that the strongest emotion is shown as. Raises InvalidInputError."""
    for name, strength in emotions.items():
        if name not in _STYLES:
            known = ", ".join(_STYLES)
            raise InvalidInputError(f"emotion: there is no {name[:40]!r}; known are {known}")
        if not 0 <= strength <= 1:
            raise InvalidInputError(f"emotion: {name} is {strength:g}, not between 0 and 1")
    strongest = max(emotions, key=lambda name: emotions[name], default="")
    return _STYLES[strongest] if strongest and emotions[strongest] >= _FELT else NEUTRAL


def _by_name(given: Mapping[str, float], missing: float, field: str) -> NDArray[np.float32]:
    for name, value in given.items():
        if not math.isfinite(value):
            raise InvalidInputError(f"{field}: {name[:40]} is no number")
    return np.array([given.get(name, missing) for name in APPLE_NAMES], np.float32)
