"""Frames -> chunks: drawn once, encoded once for each codec, on the session's lane."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from services.face.draw.animator import Frame
from services.face.draw.blendshapes import arkit_weights, head_rotation
from visavis.engine import EngineLane, Urgency
from visavis.serving.errors import InvalidInputError
from visavis.wire.media import BlendshapeChunk, Place, Stamp, VideoChunk, VideoCodec
from visavis.wire.subjects import Kind

Chunk = VideoChunk | BlendshapeChunk
PlaceOf = Callable[[Kind, bool], Place]
"""Place of a frame's next chunk of a kind; the flag says whether it is its stream's last."""


Draw = Callable[[], NDArray[np.uint8]]
"""Draws one picture, RGB [size, size, 3] uint8; takes milliseconds, so it runs on a lane."""


class Painter(Protocol):
    """Draws one avatar for one session, frame after frame."""

    @property
    def size(self) -> int: ...

    @property
    def look(self) -> str:
        """Digest of all that its pictures show besides the pose; "": not to be drawn ahead."""
        ...

    async def prepare(self, frame: Frame) -> Draw:
        """What draws the frame, [size, size, 3] uint8 RGB, once all that it needs is there: a
        network may have to run.
        """
        ...

    def cancel_ahead(self) -> None:
        """No frame follows: nothing that was asked for ahead is wanted. Idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class DrawTimes:
    """When the work on a frame began, when it was painted, when the last codec had it.

    All on the session's lane: what a network of the engine takes comes before.
    """

    started: Stamp
    painted: Stamp
    encoded: Stamp

    @classmethod
    def none(cls) -> DrawTimes:
        """Of a frame that nobody draws: no time at all, now."""
        now = Stamp.now("face")
        return cls(now, now, now)


@dataclass(frozen=True, slots=True)
class Encoded:
    """One picture of a stream, encoded."""

    payload: bytes
    keyframe: bool


class Encoder(Protocol):
    """Encodes one stream of one codec without delay: each picture comes out as it goes in."""

    def encode(self, picture: NDArray[np.uint8], *, keyframe: bool) -> Encoded:
        """picture: [H, W, 3] uint8 RGB. keyframe: it must stand on its own."""
        ...

    def close(self) -> None: ...


EncoderFactory = Callable[[VideoCodec, int, int], Encoder]
"""Codec, width and height in pixels, frames per second."""


class PictureMaker:
    """Draws and encodes the pictures of one session, one frame at a time."""

    def __init__(
        self,
        painter: Painter,
        open_encoder: EncoderFactory,
        lane: EngineLane,
        *,
        fps: int,
        codecs: Sequence[VideoCodec],
        blendshapes: bool,
        loop: str = "",
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        """loop: digest of the loop that the idle life repeats; "": it never does."""
        self.loop = loop
        self._on_close = on_close
        self._painter = painter
        self._open_encoder = open_encoder
        self._lane = lane
        self._fps = fps
        self._blendshapes = blendshapes
        self._encoders: dict[VideoCodec, Encoder] = {}
        self._made: Counter[VideoCodec] = Counter()
        self._keyframes: set[VideoCodec] = set()
        self._codecs: tuple[VideoCodec, ...] = ()
        self.times = DrawTimes.none()
        """Of the frame drawn last."""
        self.set_codecs(codecs)

    def set_codecs(self, codecs: Sequence[VideoCodec]) -> None:
        """The streams from the next frame on; new ones begin with a key frame."""
        wanted = tuple(dict.fromkeys(codecs))
        self._keyframes |= set(wanted) - set(self._codecs)
        self._codecs = wanted

    @property
    def wanted(self) -> bool:
        """Whether anything is made of a frame."""
        return bool(self._codecs) or self._blendshapes

    def request_keyframe(self, codec: VideoCodec) -> None:
        """The codec's next picture stands on its own. InvalidInputError if it is not sent."""
        if codec not in self._codecs:
            sent = ", ".join(c.name for c in self._codecs) or "no video"
            raise InvalidInputError(f"codec: {codec.name} is not sent here, but {sent}")
        self._keyframes.add(codec)

    async def draw(
        self, frame: Frame, *, restart: bool, place: PlaceOf
    ) -> list[tuple[Kind, Chunk]]:
        """The chunks of a frame. With `restart` every stream stands on its own from here."""
        chunks: list[tuple[Kind, Chunk]] = []
        self.times = DrawTimes.none()
        if self._blendshapes:
            chunks.append((Kind.FACE, self._face(frame, place(Kind.FACE, frame.last))))
        codecs = self._codecs
        if not codecs:
            return chunks
        keyframes = set(codecs) if restart else self._keyframes & set(codecs)
        self._keyframes -= keyframes
        draw = await self._painter.prepare(frame)
        pictures, self.times = await self._lane.run(
            self._draw, draw, codecs, keyframes, urgency=Urgency(deadline_s=frame.due_s)
        )
        size = self._painter.size
        for codec, encoded in zip(codecs, pictures, strict=True):
            where = place(Kind.VIDEO, frame.last)
            self._made[codec] += 1
            chunk = VideoChunk(
                where,
                frame.live,
                codec,
                encoded.keyframe,
                size,
                size,
                self._fps,
                encoded.payload,
                self._made[codec],
                frame.motion,
                self.loop,
                frame.at_rest and bool(self.loop),
            )
            chunks.append((Kind.VIDEO, chunk))
        return chunks

    async def close(self) -> None:
        """Free the encoders, once the lane has drawn what it is at."""
        self._on_close()
        self._painter.cancel_ahead()
        await self._lane.release(self._close)

    def _draw(
        self, draw: Draw, codecs: tuple[VideoCodec, ...], keyframes: set[VideoCodec]
    ) -> tuple[list[Encoded], DrawTimes]:
        """On the lane's thread, which alone touches the encoders."""
        started = Stamp.now("face")
        for gone in self._encoders.keys() - set(codecs):
            self._encoders.pop(gone).close()
        size = self._painter.size
        for codec in codecs:
            if codec not in self._encoders:
                self._encoders[codec] = self._open_encoder(codec, size, self._fps)
        picture = draw()
        painted = Stamp.now("face")
        encoded = [
            self._encoders[codec].encode(picture, keyframe=codec in keyframes) for codec in codecs
        ]
        return encoded, DrawTimes(started, painted, Stamp.now("face"))

    def _close(self) -> None:
        for encoder in self._encoders.values():
            encoder.close()
        self._encoders.clear()

    def _face(self, frame: Frame, place: Place) -> BlendshapeChunk:
        weights, rotation = arkit_weights(frame.pose), head_rotation(frame.pose)
        return BlendshapeChunk(place, frame.live, self._fps, weights, rotation)
