"""The runs of THA3: a character apart once, then a picture for every pose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.face.engines.tha3.pose import NAMES
from visavis.engine import Engine, EngineState, joined_state
from visavis.errors import EngineLoadError

SIZE, BROWS = 512, 128
Picture = NDArray[np.float32]
"""[4, 512, 512] linear light, -1..1: R, G, B and how much of a pixel is the character."""


@dataclass(frozen=True)
class Parted:
    """A character with its brows taken off."""

    image: Picture
    background: NDArray[np.float32]
    """[4, 128, 128]: what is behind the brows."""
    brows: NDArray[np.float32]
    """[4, 128, 128]"""


@dataclass(frozen=True, slots=True)
class PoseAsk:
    """One picture to be drawn."""

    character: Parted
    pose: NDArray[np.float32]
    """[45]: see `pose.py`."""


class CharacterNetworks:
    """Weights without state. One run at a time."""

    def __init__(self, decomposer: Engine, poser: Engine) -> None:
        self._decomposer = decomposer
        self._poser = poser

    @property
    def state(self) -> EngineState:
        return joined_state([self._poser.state, self._decomposer.state])

    def load(self) -> None:
        """Raises EngineLoadError, also for networks that are not those of THA3."""
        whole, part = (4, SIZE, SIZE), (4, BROWS, BROWS)
        self._load(self._decomposer, {"image": whole}, {"background": part, "brows": part})
        inputs = {"image": whole, "background": part, "brows": part, "pose": (len(NAMES),)}
        self._load(self._poser, inputs, {"picture": whole})

    def part(self, image: Picture) -> Parted:
        """Takes the brows off. EngineError when it fails."""
        out = self._decomposer.infer({"image": image[None]})
        return Parted(image, out["background"][0], out["brows"][0])

    def draw(self, asks: Sequence[PoseAsk]) -> list[Picture]:
        """All in one run, in their order. EngineError when it fails."""
        characters = [ask.character for ask in asks]
        inputs = {
            "image": np.stack([character.image for character in characters]),
            "background": np.stack([character.background for character in characters]),
            "brows": np.stack([character.brows for character in characters]),
            "pose": np.stack([ask.pose for ask in asks]),
        }
        return list(self._poser.infer(inputs)["picture"])

    def close(self) -> None:
        self._decomposer.close()
        self._poser.close()

    @staticmethod
    def _load(
        engine: Engine, inputs: dict[str, tuple[int, ...]], outputs: dict[str, tuple[int, ...]]
    ) -> None:
        engine.load()
        for specs, wanted in ((engine.inputs, inputs), (engine.outputs, outputs)):
            found = {name: spec.shape[1:] for name, spec in specs.items()}
            if found != wanted:
                raise EngineLoadError(
                    f"{engine.model.name} takes or gives {found} instead of {wanted}: "
                    "it is not of THA3"
                )
