"""The network's runs: faces and windows of sound in, pictures of mouths out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.face.engines.wav2lip.face_crop import FACE_SIZE
from services.face.engines.wav2lip.mel import N_MELS, WINDOW_HOPS
from visavis.engine import Engine
from visavis.errors import EngineLoadError

Mouth = NDArray[np.float32]
"""[96, 96, 3] RGB 0..1, the face as the network drew it."""

_INPUTS = {"mel": (1, N_MELS, WINDOW_HOPS), "face": (6, FACE_SIZE, FACE_SIZE)}
_OUTPUTS = {"picture": (3, FACE_SIZE, FACE_SIZE)}


@dataclass(frozen=True, slots=True)
class MouthAsk:
    """One mouth to be drawn."""

    sound: NDArray[np.float32]
    """[80, 16]: see `mel.py`."""
    face: NDArray[np.float32]
    """[6, 96, 96]: see `FaceCrop.network_input`."""


class MouthNetwork:
    """Weights without state. One run at a time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def load(self) -> None:
        """Raises EngineLoadError, also for a network that is not Wav2Lip's."""
        self._engine.load()
        for specs, wanted in (
            (self._engine.inputs, _INPUTS),
            (self._engine.outputs, _OUTPUTS),
        ):
            found = {name: spec.shape[1:] for name, spec in specs.items()}
            if found != wanted:
                raise EngineLoadError(
                    f"{self._engine.model.name} takes or gives {found} instead of {wanted}: "
                    "it is not the generator of Wav2Lip"
                )

    def draw(self, asks: Sequence[MouthAsk]) -> list[Mouth]:
        """All in one run, in their order. EngineError when it fails."""
        mel = np.stack([ask.sound for ask in asks])[:, None]
        face = np.stack([ask.face for ask in asks])
        pictures = self._engine.infer({"mel": mel, "face": face})["picture"]
        # The network paints in BGR, the order of the pictures that it learned from.
        return list(np.ascontiguousarray(pictures[:, ::-1].transpose(0, 2, 3, 1)))
