"""The source of a voice that is a source and a filter: its melody bent, or breath in its place.

What the network of the English voice gives (hibari.dsp): `f0` [F] in hertz, and spectra [601, F],
one row each 20 Hz, in logarithms: `lh` of the harmonics, `ln` of the noise, `lr` of what is left;
and phases. The filter stays as it is, and with it who speaks and what is understood.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from services.tts.prosody import Prosody

Spectra = Mapping[str, NDArray[np.float32]]

# Below, the vocoder takes a frame for unvoiced.
_VOICED_FROM_HZ = 40.0
_F0_LIMITS_HZ = (80.0, 500.0)
_BIN_HZ = 20.0
# Breath against the harmonics in whose place it is, in nepers. A whisper has less at the bottom
# and more at the top than a voice; how much was chosen so that a recogniser understands it like the
# voice and finds no pitch in it.
_BREATH = -2.5
_BREATH_TILT, _BREATH_TILT_FROM_HZ = 0.8, 300.0
_BREATH_CUT, _BREATH_CUT_BELOW_HZ = -2.0, 500.0
_REST = -4.0


def with_prosody(spectra: Spectra, prosody: Prosody) -> Spectra:
    """The spectra of the same words with `pitch`, `pitch_range` and `voicing` of `prosody`."""
    bent = {**spectra, "f0": bent_melody(spectra["f0"], prosody)}
    return _whispered(bent) if prosody.voicing == 0.0 else bent


def bent_melody(f0_hz: NDArray[np.float32], prosody: Prosody) -> NDArray[np.float32]:
    """The melody moved by `pitch` and stretched by `pitch_range` around its middle."""
    voiced = f0_hz > _VOICED_FROM_HZ
    if not voiced.any() or (prosody.pitch, prosody.pitch_range) == (1.0, 1.0):
        return f0_hz
    logarithm = np.log(np.where(voiced, f0_hz, 1.0))
    middle = logarithm[voiced].mean()
    bent = np.exp(middle + prosody.pitch_range * (logarithm - middle)) * prosody.pitch
    return np.where(voiced, np.clip(bent, *_F0_LIMITS_HZ), f0_hz).astype(np.float32)


def _whispered(spectra: Spectra) -> Spectra:
    """Noise through the filter that the harmonics went through."""
    voiced = spectra["f0"] > _VOICED_FROM_HZ
    hz = _BIN_HZ * np.arange(len(spectra["lh"]))
    tilt = _BREATH_TILT * np.log(np.maximum(hz, _BREATH_TILT_FROM_HZ) / _BREATH_TILT_FROM_HZ)
    cut = _BREATH_CUT * np.maximum(0.0, 1 - hz / _BREATH_CUT_BELOW_HZ)
    breath = spectra["lh"] + (_BREATH + tilt + cut)[:, None]
    noise = np.where(voiced, np.logaddexp(spectra["ln"], breath), spectra["ln"])
    rest = np.where(voiced, spectra["lr"] + _REST, spectra["lr"])
    return {
        **spectra,
        "f0": np.zeros_like(spectra["f0"]),
        "ln": noise.astype(np.float32),
        "lr": rest.astype(np.float32),
    }
