"""A studio that draws and hears at no cost, and tells what it was asked."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from services.face.avatar.consent import Consent
from services.face.avatar.making.decoding import Reading
from services.face.draw.pictures import Draw, Encoded
from services.face.draw.pose import FacePose, Frame
from services.face.engines.base import AvatarInfo, Keep, NetworkState, Upload
from services.face.lips.audio_to_face import CONTEXT_FRAMES, LOOK_AHEAD_FRAMES, N_MELS
from services.face.lips.phonemes import VISEMES
from services.face.lips.sound_track import Ear
from services.face.settings import FaceSettings
from services.face.studio import Studio
from tests.made_engine import MadeEngine
from visavis.engine import Tensors
from visavis.serving.errors import (
    AlreadyExistsError,
    EngineError,
    InvalidInputError,
    UnknownNameError,
)
from visavis.wire.media import VideoCodec

SIZE = 32


class FakePainter:
    """Paints the pose into the first pixels. Waits for `go` first, so that a test can hold it."""

    size = SIZE
    look = "circle"
    waits = False

    def __init__(self, gallery: FakeGallery, name: str) -> None:
        self._gallery = gallery
        self._name = name

    def prepare(self, frame: Frame) -> Draw:
        self._gallery.prepared.append(frame)
        return partial(self._render, frame.pose)

    def cancel_ahead(self) -> None:
        pass

    def _render(self, pose: FacePose) -> NDArray[np.uint8]:
        assert self._gallery.go.wait(10)
        if self._name in self._gallery.torn:
            raise EngineError(f"{self._name} is torn")
        picture = np.zeros((SIZE, SIZE, 3), np.uint8)
        picture[0, 0] = np.clip(255 * pose.jaw_open, 0, 255)
        picture[0, 1] = np.clip(255 * pose.lips_closed, 0, 255)
        return picture


class FakeEncoder:
    """A payload is codec, frame number in the stream, jaw and lips, and a byte for each 100 kbit/s
    of a limit. The first is a key frame.
    """

    def __init__(self, codec: VideoCodec, size: int, fps: int) -> None:
        assert size == SIZE and fps == 25
        self._codec = codec
        self._count = self._bitrate = 0
        self.closed = False

    def encode(self, picture: NDArray[np.uint8], *, keyframe: bool) -> Encoded:
        assert not self.closed
        payload = bytes([self._codec, self._count % 256, picture[0, 0, 0], picture[0, 1, 0]])
        self._count += 1
        payload += bytes(self._bitrate // 100_000)
        return Encoded(payload, keyframe or self._count == 1)

    def limit(self, bitrate: int) -> None:
        self._bitrate = bitrate

    def close(self) -> None:
        self.closed = True


class FakeGallery:
    """An engine that draws next to nothing."""

    name = "fake"
    needs_voice = False
    reading = Reading.COLOUR
    of_people = True
    states: Sequence[NetworkState] = ()
    shelf = None

    def __init__(self) -> None:
        self.names = {"built-in": True}
        self.heads: dict[str, Path] = {}
        """Folders of bundles, by the avatars that are such heads."""
        self.loops: Path | None = None
        """Where loops are kept."""
        self.go = threading.Event()
        self.go.set()
        self.prepared: list[Frame] = []
        self.torn: set[str] = set()
        """Avatars that cannot be drawn."""
        self.asked, self.listing = threading.Event(), threading.Event()
        self.listing.set()

    def ear(self, sample_rate_hz: int, fps: int) -> Ear | None:
        return None

    async def load(self) -> None:
        pass

    async def close(self) -> None:
        pass

    def avatars(self) -> Sequence[AvatarInfo]:
        self.asked.set()
        assert self.listing.wait(10)
        return [self._info(name) for name in self.names]

    def painter(self, name: str) -> FakePainter:
        if name and name not in self.names:
            raise UnknownNameError(f"avatar: there is no {name!r}; there are {list(self.names)}")
        return FakePainter(self, name)

    def portrait(self, name: str) -> bytes:
        return b"jpeg"

    def check_new(self, name: str) -> None:
        if name in self.names:
            raise AlreadyExistsError(f"name: {name} is taken")

    def make(self, name: str, upload: Upload, consent: Consent | None) -> Keep:
        def keep() -> AvatarInfo:
            self.names[name] = False
            return replace(self._info(name), consent=consent)

        return keep

    def delete(self, name: str) -> None:
        if self.names.get(name):
            raise InvalidInputError(f"name: {name} ships with the product")
        del self.names[name]

    def _info(self, name: str) -> AvatarInfo:
        head = self.heads.get(name)
        return AvatarInfo(name, SIZE, self.names[name], "CC0", head=head, loops=self.loops)


class LoudnessNetwork(MadeEngine):
    """Opens the jaw as far as the sound is loud."""

    takes: ClassVar = {"mel": (None, None, N_MELS)}
    gives: ClassVar = {"visemes": (None, None, len(VISEMES)), "coefficients": (None, None, 5)}

    def _infer(self, inputs: Tensors) -> dict[str, NDArray[Any]]:
        mel = np.asarray(inputs["mel"])
        after = LOOK_AHEAD_FRAMES
        own = mel[:, CONTEXT_FRAMES - after : mel.shape[1] - after]
        coefficients = np.zeros((*own.shape[:2], 5), np.float32)
        coefficients[..., 0] = np.clip((own.max(axis=2) + 5) / 15, 0, 1)
        visemes = np.zeros((*own.shape[:2], len(VISEMES)), np.float32)
        visemes[..., 0] = 1
        return {"visemes": visemes, "coefficients": coefficients}


def fake_studio(settings: FaceSettings, gallery: FakeGallery | None = None) -> Studio:
    lips = LoudnessNetwork()
    return Studio(settings, gallery or FakeGallery(), FakeEncoder, lips=lips)
