"""THA3 as an engine of the face: drawn characters, posed by networks for every picture."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache, partial

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.avatar.avatar import jpeg
from services.face.avatar.consent import Consent
from services.face.avatar.making.decoding import Reading
from services.face.draw.pictures import Draw, Painter
from services.face.draw.pose import Frame
from services.face.engines.base import AvatarInfo, Keep, NetworkState, Upload, decoded
from services.face.engines.tha3.characters import (
    UPLOADED_LICENCE,
    Character,
    CharacterStore,
    read_character,
)
from services.face.engines.tha3.network import (
    SIZE,
    CharacterNetworks,
    Parted,
    Picture,
    PoseAsk,
    character_pose,
)
from services.face.lips.sound_track import Ear
from visavis.engine import EngineLane, SharedRuns, Urgency
from visavis.serving.errors import AtCapacityError, EngineError
from visavis.wire.shelf import Shelf

log = logging.getLogger(__name__)

_LARGEST_ON_CPU, _LARGEST_ON_GPU = 1, 4
_BUST = (slice(24, 312), slice(112, 400))
"""Rows and columns of the networks' picture that are shown: head and shoulders."""
_BACKDROP = np.array((226, 229, 234), np.float32)
"""RGB: what is seen behind the character."""
_LEVELS = 4096


class Tha3Painter:
    """Draws one character for one session. A picture that failed is replaced by the last one."""

    size = SIZE
    waits = True
    look = ""
    """The loop of a character takes a CPU many minutes, and as long all that others ask for."""

    def __init__(
        self,
        character: Character,
        networks: CharacterNetworks,
        lane: EngineLane,
        poses: SharedRuns[PoseAsk, Picture],
    ) -> None:
        self._character = character
        self._networks = networks
        self._lane = lane
        self._poses = poses
        self._parted: Parted | None = None
        self._drawn: Picture | None = None
        self._failing = False

    async def prepare(self, frame: Frame) -> Draw:
        try:
            urgency = Urgency(deadline_s=frame.due_s, owner=id(self))
            if self._parted is None:
                image = self._character.image()
                self._parted = await self._lane.run(self._networks.part, image, urgency=urgency)
            ask = PoseAsk(self._parted, character_pose(frame.pose))
            self._drawn = await self._poses.ask(ask, urgency)
            self._failing = False
        except (EngineError, AtCapacityError) as error:
            if not self._failing:
                log.warning("the character stands still: %s", error)
            self._failing = True
            if self._drawn is None:
                self._drawn = self._character.image()
        return partial(shown, self._drawn)

    def cancel_ahead(self) -> None:
        """Nothing is held that somebody else waits for."""


class Tha3Engine:
    """The engine that poses drawn characters, which photographs cannot be."""

    name = "tha3"
    needs_voice = False
    reading = Reading.AS_IS
    of_people = False

    def __init__(
        self,
        store: CharacterStore,
        default: str,
        bundle: str,
        networks: CharacterNetworks,
    ) -> None:
        """`networks` are those of `bundle`, not loaded yet; `default`: the avatar that "" means."""
        self._store = store
        self._default = default
        self._bundle = bundle
        self._networks = networks
        self._lane = EngineLane("face-tha3")
        self._poses: SharedRuns[PoseAsk, Picture] | None = None

    @property
    def states(self) -> Sequence[NetworkState]:
        return [NetworkState(self._bundle, self._networks.state)]

    @property
    def shelf(self) -> Shelf:
        return self._store

    def ear(self, sample_rate_hz: int, fps: int) -> Ear | None:
        return None

    async def load(self) -> None:
        await self._lane.run(self._networks.load)
        on_cpu = self._networks.state.device == "cpu"
        if on_cpu:
            log.warning(
                "THA3 on a CPU draws one or two pictures a second: the voice is not held up, "
                "but its lips are seldom seen; run it on a GPU"
            )
        largest = _LARGEST_ON_CPU if on_cpu else _LARGEST_ON_GPU
        self._poses = self._lane.shared(self._networks.draw, largest=largest)

    async def close(self) -> None:
        self._lane.close()
        self._networks.close()

    def avatars(self) -> Sequence[AvatarInfo]:
        """The default one first."""
        return sorted(self._store.infos(), key=lambda avatar: avatar.name != self._default)

    def portrait(self, name: str) -> bytes:
        return self._store.portrait(name, _portrait)

    def painter(self, name: str) -> Painter:
        """Raises EngineError before `load`, UnknownNameError where there is no such character."""
        if self._poses is None:
            raise EngineError("the networks of THA3 are not loaded")
        character = self._store.load(name or self._default)
        return Tha3Painter(character, self._networks, self._lane, self._poses)

    def check_new(self, name: str) -> None:
        self._store.check_new(name)

    def make(self, name: str, upload: Upload, consent: Consent | None) -> Keep:
        rgba = read_character(decoded(upload))
        made = Character(name, UPLOADED_LICENCE, False, rgba, consent)
        return partial(self._store.keep, made, _portrait(made))

    def delete(self, name: str) -> None:
        self._store.delete(name)


def shown(picture: Picture) -> NDArray[np.uint8]:
    """Head and shoulders before a plain backdrop: RGB [512, 512, 3] uint8."""
    bust = picture[(slice(None), *_BUST)]
    levels = np.clip((bust + 1) * (_LEVELS / 2), 0, _LEVELS - 1).astype(np.uint16)
    colours = _from_linear()[levels[:3]].transpose(1, 2, 0)
    alpha = np.clip((bust[3] + 1) / 2, 0, 1)[..., None]
    mixed = _BACKDROP + alpha * (colours - _BACKDROP)
    large = cv2.resize(mixed, (SIZE, SIZE), interpolation=cv2.INTER_CUBIC)
    return np.asarray(np.clip(np.rint(large), 0, 255), np.uint8)


@cache
def _from_linear() -> NDArray[np.float32]:
    """sRGB 0..255 of linear light in steps (IEC 61966-2-1)."""
    linear = (np.arange(_LEVELS) + 0.5) / _LEVELS
    curve = 1.055 * linear ** (1 / 2.4) - 0.055
    return (255 * np.where(linear <= 0.0031308, 12.92 * linear, curve)).astype(np.float32)


def _portrait(character: Character) -> bytes:
    """JPEG"""
    return jpeg(shown(character.image()))
