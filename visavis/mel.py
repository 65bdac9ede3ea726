"""Mel filter banks: triangles over the bins of a spectrum, on the two scales that are in use.

Every network reads the spectrogram that it was trained on: window, floor and scaling are its own
and stand beside it. The scale and the triangles are the same for all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class MelScale(NamedTuple):
    """Pitch as it is heard: hertz to mel and back, in float64 of any shape."""

    from_hz: Callable[[ArrayLike], NDArray[np.float64]]
    to_hz: Callable[[ArrayLike], NDArray[np.float64]]

    def edges_hz(self, bands: int, low_hz: float, high_hz: float) -> NDArray[np.float64]:
        """Where triangles of equal width in mel begin, peak and end, [bands + 2] float64 in hertz:
        each begins at the peak of the one before and ends at that of the next.
        """
        return self.to_hz(np.linspace(self.from_hz(low_hz), self.from_hz(high_hz), bands + 2))


def triangles(
    edges_hz: NDArray[np.float64],
    sample_rate_hz: int,
    window_samples: int,
    *,
    equal_area: bool = False,
) -> NDArray[np.float64]:
    """Weights of the bins of a spectrum, [bands, window_samples // 2 + 1] float64: 1 at the peak,
    or, of equal area, 2 / width in hertz. edges_hz: [bands + 2] float64, see `MelScale.edges_hz`.
    """
    bins_hz = np.arange(window_samples // 2 + 1) * sample_rate_hz / window_samples
    left, peak, right = edges_hz[:-2, None], edges_hz[1:-1, None], edges_hz[2:, None]
    rising, falling = (bins_hz - left) / (peak - left), (right - bins_hz) / (right - peak)
    weights = np.clip(np.minimum(rising, falling), 0.0, None)
    return weights * 2.0 / (right - left) if equal_area else weights


def _htk_from_hz(hz: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(2595.0 * np.log10(1.0 + np.asarray(hz, np.float64) / 700.0))


def _htk_to_hz(mel: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(700.0 * (10.0 ** (np.asarray(mel, np.float64) / 2595.0) - 1.0))


def _slaney_from_hz(hz: ArrayLike) -> NDArray[np.float64]:
    hz = np.asarray(hz, np.float64)
    above = 15.0 + 27.0 * np.log(np.maximum(hz, 1e-9) / 1000.0) / math.log(6.4)
    return np.where(hz < 1000.0, hz * 3 / 200, above)


def _slaney_to_hz(mel: ArrayLike) -> NDArray[np.float64]:
    mel = np.asarray(mel, np.float64)
    above = 1000.0 * np.exp((mel - 15.0) * math.log(6.4) / 27.0)
    return np.where(mel < 15.0, mel * 200 / 3, above)


HTK = MelScale(_htk_from_hz, _htk_to_hz)
"""Logarithmic throughout (O'Shaughnessy 1987; Young et al., The HTK Book)."""
SLANEY = MelScale(_slaney_from_hz, _slaney_to_hz)
"""Linear up to 1 kHz, logarithmic above (Auditory Toolbox, 1998)."""
