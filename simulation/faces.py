"""A simulated face: pictures take the device's time, and are those of one second, encoded once.

What leaves are real H.264 pictures of the size that the product sends, so that the bus carries,
and the gateway muxes, as much as it would.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from services.face.avatar.consent import Consent
from services.face.avatar.making.decoding import Reading
from services.face.draw.encoder import Codec, VideoEncoder
from services.face.draw.pictures import Draw, Encoded
from services.face.draw.pose import Frame
from services.face.engines.base import AvatarInfo, Keep, NetworkState, Upload
from services.face.lips.sound_track import Ear
from simulation.occupied import Device
from visavis.engine import EngineState
from visavis.serving.errors import InvalidInputError, UnknownNameError
from visavis.tools.bench.simulate.plan import StageTimes
from visavis.wire.media import VideoCodec

_SIZE = 512
_KEYFRAME_EVERY = 50
_NAME = "simulated"
_BITRATE = 1_000_000
_GRAIN = 10
"""Of the picture, in levels: so much changes from one to the next that 25 take about 1 Mbit."""
_CODECS: dict[VideoCodec, Codec] = {VideoCodec.H264: "h264", VideoCodec.VP8: "vp8"}


@cache
def _made(codec: VideoCodec) -> tuple[Encoded, ...]:
    """A key frame and what follows it, for about a second."""
    random = np.random.default_rng(0)
    rows = np.linspace(40, 200, _SIZE)[:, None, None] * np.ones((1, _SIZE, 3))
    encoder = VideoEncoder(_CODECS[codec], _SIZE, _SIZE, 25, _BITRATE)
    made = []
    for _ in range(25):
        small = random.normal(0, _GRAIN, (_SIZE // 8, _SIZE // 8, 1))
        grain = np.kron(small, np.ones((8, 8, 1)))
        frame = encoder.encode(np.clip(rows + grain, 0, 255).astype(np.uint8))
        made.append(Encoded(frame.payload, frame.keyframe))
    encoder.close()
    return tuple(made)


class RepeatingEncoder:
    """Gives the pictures of that second again and again. The device's time was the painter's."""

    def __init__(self, codec: VideoCodec, size: int, fps: int) -> None:
        self._made = _made(codec)
        self._since_keyframe = 0

    def encode(self, picture: NDArray[np.uint8], *, keyframe: bool) -> Encoded:
        if keyframe or self._since_keyframe >= _KEYFRAME_EVERY:
            self._since_keyframe = 0
        place = self._since_keyframe
        self._since_keyframe += 1
        if place == 0:
            return self._made[0]
        return self._made[1 + (place - 1) % (len(self._made) - 1)]

    def limit(self, bitrate: int) -> None:
        """Nothing: they are made."""

    def close(self) -> None:
        """There is nothing to free."""


class SimulatedPainter:
    """Takes the device's time for a picture, on the lane that asks for it."""

    size = _SIZE
    look = _NAME
    waits = False

    def __init__(self, device: Device, times: StageTimes) -> None:
        self._device, self._times = device, times

    def prepare(self, frame: Frame) -> Draw:
        return self._draw

    def cancel_ahead(self) -> None:
        """Nothing is asked for ahead."""

    def _draw(self) -> NDArray[np.uint8]:
        self._device.work("frame", self._times.frame_s)
        return _NOTHING


_NOTHING = np.zeros((_SIZE, _SIZE, 3), np.uint8)


class SimulatedFaces:
    """The engine of a simulated face service: one avatar, which nobody can change."""

    name = "simulated"
    needs_voice = False
    reading = Reading.COLOUR
    of_people = False
    shelf = None

    def __init__(self, device: Device, times: StageTimes) -> None:
        self._device, self._times = device, times

    @property
    def states(self) -> Sequence[NetworkState]:
        return [NetworkState("simulated-face", EngineState(_NAME, "cpu"))]

    def ear(self, sample_rate_hz: int, fps: int) -> Ear | None:
        return None

    async def load(self) -> None:
        """There is nothing to load."""

    async def close(self) -> None:
        """There is nothing to free."""

    def avatars(self) -> Sequence[AvatarInfo]:
        return [AvatarInfo(_NAME, _SIZE, True, "none")]

    def portrait(self, name: str) -> bytes:
        raise UnknownNameError("avatar: a simulated one has no portrait")

    def painter(self, name: str) -> SimulatedPainter:
        if name not in ("", _NAME):
            raise UnknownNameError(f"avatar: there is no {name!r}; there is {_NAME}")
        return SimulatedPainter(self._device, self._times)

    def check_new(self, name: str) -> None:
        raise InvalidInputError("avatars cannot be made in a simulation")

    def make(self, name: str, upload: Upload, consent: Consent | None) -> Keep:
        raise InvalidInputError("avatars cannot be made in a simulation")

    def delete(self, name: str) -> None:
        raise InvalidInputError("avatars cannot be deleted in a simulation")
