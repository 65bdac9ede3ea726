"""What all sessions of the service share: avatars, the network, the lanes that draw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from services.face.audio_to_face import WEIGHTS, AudioToFace, AudioToFaceStream
from services.face.pictures import EncoderFactory, Painter, PictureMaker
from services.face.pose import FacePose
from services.face.settings import FaceSettings
from services.face.turn_lips import Hearing
from visavis.engine import Engine, EngineLane, EngineState
from visavis.errors import EngineError
from visavis.media import VideoCodec


@dataclass(frozen=True, slots=True)
class AvatarInfo:
    """What a client is told about an avatar."""

    name: str
    size: int
    builtin: bool
    licence: str
    portrait_jpeg: bytes


class Gallery(Protocol):
    """The avatars. Its methods block and are called from two threads."""

    def avatars(self) -> Sequence[AvatarInfo]: ...

    def painter(self, name: str) -> Painter:
        """A painter of its own for one session. UnknownNameError lists the names that exist."""
        ...

    def create(self, name: str, image: bytes) -> AvatarInfo: ...

    def delete(self, name: str) -> None: ...


class Studio:
    """Loads once, serves every session. Sessions share no state but the lanes' time."""

    def __init__(
        self,
        settings: FaceSettings,
        gallery: Gallery,
        open_encoder: EncoderFactory,
        *,
        engine: Engine | None = None,
    ) -> None:
        self._settings = settings
        self._gallery = gallery
        self._open_encoder = open_encoder
        self._engine = engine or settings.open_engine(WEIGHTS)
        self._network: AudioToFace | None = None
        self._lanes = [EngineLane(f"face-{index}") for index in range(settings.lanes)]
        self._hearing_lane = EngineLane("face-network")
        self._gallery_lane = EngineLane("face-gallery")
        # Making an avatar takes a second; nobody who attaches waits for it.
        self._maker_lane = EngineLane("face-maker")
        self._busy: Counter[int] = Counter()

    @property
    def engine_state(self) -> EngineState:
        """Where the network of the lips runs."""
        return self._engine.state

    async def load(self) -> None:
        """Load the network and the default avatar, and draw, encode and hear once on every lane."""
        await self._hearing_lane.run(self._engine.load)
        self._network = AudioToFace(self._engine)
        stream = AudioToFaceStream(self._network, 16_000)
        await self._hearing_lane.run(stream.push, np.zeros(1600, np.int16), last=True)
        for lane in self._lanes:
            painter = await self._painter(self._settings.avatar)
            await lane.run(self._warm, painter)

    async def pictures(
        self, avatar: str, *, fps: int, codecs: Sequence[VideoCodec], blendshapes: bool
    ) -> PictureMaker:
        """Pictures of an avatar ("": the default one) on the least used lane."""
        painter = await self._painter(avatar or self._settings.avatar)
        index = min(range(len(self._lanes)), key=lambda i: self._busy[i])
        self._busy[index] += 1

        def release() -> None:
            self._busy[index] -= 1

        return PictureMaker(
            painter,
            self._open_encoder,
            self._lanes[index],
            fps=fps,
            codecs=codecs,
            blendshapes=blendshapes,
            on_close=release,
        )

    def hearing(self, *, fps: int, durations: bool) -> Hearing:
        """The lips of one session. EngineError before `load`."""
        if self._network is None:
            raise EngineError("the audio-to-face network is not loaded")
        return Hearing(self._network, self._hearing_lane, fps, durations=durations)

    async def avatars(self) -> Sequence[AvatarInfo]:
        return await self._gallery_lane.run(self._gallery.avatars)

    async def create(self, name: str, image: bytes) -> AvatarInfo:
        """Raises InvalidInputError with the reason why a picture will not do."""
        return await self._maker_lane.run(self._gallery.create, name, image)

    async def delete(self, name: str) -> None:
        await self._gallery_lane.run(self._gallery.delete, name)

    async def close(self) -> None:
        for lane in (*self._lanes, self._gallery_lane, self._maker_lane, self._hearing_lane):
            lane.close()
        self._engine.close()

    async def _painter(self, name: str) -> Painter:
        return await self._gallery_lane.run(self._gallery.painter, name)

    def _warm(self, painter: Painter) -> None:
        """The first picture compiles the rasteriser and opens the codecs' libraries."""
        picture = painter.render(FacePose(jaw_open=0.3))
        for codec in VideoCodec:
            encoder = self._open_encoder(codec, painter.size, 25)
            encoder.encode(picture, keyframe=True)
            encoder.close()
