"""The networks of THA3: a character taken apart once, then a picture for every pose of 45
numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.face.draw.pose import FacePose
from services.face.engines.base import load_network
from visavis.engine import Engine, EngineState, joined_state

SIZE, BROWS = 512, 128
Picture = NDArray[np.float32]
"""[4, 512, 512] linear light, -1..1: R, G, B and how much of a pixel is the character."""
NAMES = (
    *("eyebrow_troubled_left", "eyebrow_troubled_right"),
    *("eyebrow_angry_left", "eyebrow_angry_right"),
    *("eyebrow_lowered_left", "eyebrow_lowered_right"),
    *("eyebrow_raised_left", "eyebrow_raised_right"),
    *("eyebrow_happy_left", "eyebrow_happy_right"),
    *("eyebrow_serious_left", "eyebrow_serious_right"),
    *("eye_wink_left", "eye_wink_right"),
    *("eye_happy_wink_left", "eye_happy_wink_right"),
    *("eye_surprised_left", "eye_surprised_right"),
    *("eye_relaxed_left", "eye_relaxed_right"),
    *("eye_unimpressed_left", "eye_unimpressed_right"),
    *("eye_raised_lower_eyelid_left", "eye_raised_lower_eyelid_right"),
    *("iris_small_left", "iris_small_right"),
    *("mouth_aaa", "mouth_iii", "mouth_uuu", "mouth_eee", "mouth_ooo", "mouth_delta"),
    *("mouth_lowered_corner_left", "mouth_lowered_corner_right"),
    *("mouth_raised_corner_left", "mouth_raised_corner_right"),
    "mouth_smirk",
    *("iris_rotation_x", "iris_rotation_y"),
    *("head_x", "head_y", "neck_z", "body_y", "body_z"),
    "breathing",
)
"""The 45 numbers in their order. Left and right are the character's own."""
_OF = "of THA3"
_FULL_TURN = np.radians(15.0)
"""What 1 means for the head."""
_WIDE_JAW = 0.5
"""A jaw so far open is a mouth that is wide open, in drawings."""
_BODY_SHARE = 0.35
"""How much of the head's turn the body goes along with."""


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
    """[45] float32: see `character_pose`."""


class CharacterNetworks:
    """Draws characters: two networks without state. One run at a time."""

    def __init__(self, decomposer: Engine, poser: Engine) -> None:
        self._decomposer = decomposer
        self._poser = poser

    @property
    def state(self) -> EngineState:
        return joined_state([self._poser.state, self._decomposer.state])

    def load(self) -> None:
        """Loads both. Raises EngineLoadError, also for networks that are not those of THA3."""
        whole, part = (4, SIZE, SIZE), (4, BROWS, BROWS)
        load_network(self._decomposer, {"image": whole}, {"background": part, "brows": part}, _OF)
        inputs = {"image": whole, "background": part, "brows": part, "pose": (len(NAMES),)}
        load_network(self._poser, inputs, {"picture": whole}, _OF)

    def part(self, image: Picture) -> Parted:
        """Takes the brows off `image`, [4, 512, 512] float32. Raises EngineError where it fails."""
        out = self._decomposer.infer({"image": image[None]})
        return Parted(image, out["background"][0], out["brows"][0])

    def draw(self, asks: Sequence[PoseAsk]) -> list[Picture]:
        """All in one run, in their order, each [4, 512, 512] float32. Raises EngineError where it
        fails.
        """
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


def character_pose(pose: FacePose) -> NDArray[np.float32]:
    """[45] float32. Rotations of THA3 run the other way than ours: up, left and anticlockwise."""
    values = dict.fromkeys(NAMES, 0.0)
    values.update(_mouth(pose))
    values["eye_wink_left"], values["eye_wink_right"] = (
        _part(pose.blink_left),
        _part(pose.blink_right),
    )
    for side in ("left", "right"):
        values[f"eyebrow_raised_{side}"] = _part(pose.brow_raise)
        values[f"eyebrow_lowered_{side}"] = _part(-2 * pose.brow_raise)
        values[f"eyebrow_serious_{side}"] = _part(pose.brow_frown)
        values[f"mouth_raised_corner_{side}"] = _part(pose.smile)
        values[f"mouth_lowered_corner_{side}"] = _part(-2 * pose.smile)
    values["iris_rotation_x"], values["iris_rotation_y"] = -pose.gaze_y, -pose.gaze_x
    values["head_x"] = -pose.pitch / _FULL_TURN
    values["head_y"] = -pose.yaw / _FULL_TURN
    values["neck_z"] = -pose.roll / _FULL_TURN
    values["body_y"] = _BODY_SHARE * values["head_y"]
    values["body_z"] = _BODY_SHARE * values["neck_z"]
    values["breathing"] = _part(pose.breath)
    return np.clip(np.array([values[name] for name in NAMES], np.float32), -1.0, 1.0)


def _mouth(pose: FacePose) -> dict[str, float]:
    """Shares of the five vowels, as much of them together as the mouth is open.

    Drawn mouths know vowels, not muscles: open is a, spread e or i, round o or u.
    """
    apart = 1 - _part(pose.lips_closed)
    wide, round_ = _part(pose.mouth_wide), _part(pose.pucker)
    jaw = _part(pose.jaw_open / _WIDE_JAW)
    shares = {
        "mouth_aaa": jaw * (1 - round_) * (1 - 0.7 * wide),
        "mouth_eee": jaw * (1 - round_) * 0.7 * wide,
        "mouth_iii": (1 - jaw) * (1 - round_) * max(wide, 0.5 * _part(pose.lower_lip_under_teeth)),
        "mouth_ooo": jaw * round_,
        "mouth_uuu": (1 - jaw) * round_,
    }
    return {name: apart * share for name, share in shares.items()}


def _part(value: float) -> float:
    return min(1.0, max(0.0, float(value)))
