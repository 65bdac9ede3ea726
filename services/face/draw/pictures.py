"""Frames -> chunks: drawn once, encoded once for each codec, on a lane."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from services.face.draw.blendshapes import arkit_weights, coded, head_rotation
from services.face.draw.pose import FacePose, Frame
from visavis.engine import EngineLane, Urgency
from visavis.serving.errors import InvalidInputError
from visavis.wire.media import BlendshapeChunk, Place, Stamp, VideoChunk, VideoCodec
from visavis.wire.subjects import Kind

Chunk = VideoChunk | BlendshapeChunk
PlaceOf = Callable[[Kind, bool], Place]
"""Place of a frame's next chunk of a kind; the flag says whether it is its stream's last."""


Draw = Callable[[], NDArray[np.uint8]]
"""Draws one picture, uint8 [size, size, 3] RGB, or [size, size, 4] with a byte more that means
nothing; takes milliseconds, so it runs on a lane. The picture may be gone once the same thread
draws another.
"""


class Painter(Protocol):
    """Draws one avatar for one session, frame after frame."""

    @property
    def size(self) -> int: ...

    @property
    def look(self) -> str:
        """Digest of all that its pictures show besides the pose; "": not to be drawn ahead."""
        ...

    @property
    def waits(self) -> bool:
        """Whether a network has to run for each frame: then frames are prepared one by one."""
        ...

    def prepare(self, frame: Frame) -> Draw | Awaitable[Draw]:
        """What draws the frame, once all that it needs is there; where it `waits`, that is to be
        awaited.
        """
        ...

    def cancel_ahead(self) -> None:
        """No frame follows: nothing that was asked for ahead is wanted. Idempotent."""
        ...


class PoseRenderer(Protocol):
    """Draws a pose, and needs nothing else for it."""

    @property
    def size(self) -> int: ...

    def draw(self, pose: FacePose) -> NDArray[np.uint8]: ...


class PosePainter:
    """Draws one avatar for one session by what draws a pose at a time."""

    waits = False

    def __init__(self, renderer: PoseRenderer, look: str) -> None:
        self._renderer = renderer
        self.look = look

    @property
    def size(self) -> int:
        return self._renderer.size

    def prepare(self, frame: Frame) -> Draw:
        return partial(self._renderer.draw, frame.pose)

    def cancel_ahead(self) -> None:
        """Nothing is asked for ahead."""


@dataclass(frozen=True, slots=True)
class DrawTimes:
    """When the work on a frame began, when it was painted, when the last codec had it.

    All on a lane: what a network of the engine takes comes before.
    """

    started: Stamp
    painted: Stamp
    encoded: Stamp

    @property
    def seconds(self) -> float:
        """From the first to the last."""
        return (self.encoded.monotonic_ns - self.started.monotonic_ns) / 1e9

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
        """picture: as `Draw` makes it. keyframe: it must stand on its own."""
        ...

    def limit(self, bitrate: int) -> None:
        """So many bits per second at the most, beside what it was made for; 0: that alone."""

    def close(self) -> None: ...


EncoderFactory = Callable[[VideoCodec, int, int], Encoder]
"""Codec, width and height in pixels, frames per second."""


@dataclass(slots=True, eq=False)
class Picture:
    """One frame on its way to its viewers; `PictureMaker.begin` makes it."""

    frame: Frame
    codecs: tuple[VideoCodec, ...]
    keyframes: set[VideoCodec]
    draw: Draw | None = None
    """What draws it; None: no stream is watched, or it is not prepared."""
    made: bool = False
    encoded: list[Encoded] = field(default_factory=list)
    """For each codec."""
    times: DrawTimes = field(default_factory=DrawTimes.none)

    @property
    def drawn(self) -> bool:
        """Whether any stream shows pixels; else it is made in no time."""
        return any(codec.drawn for codec in self.codecs)

    @property
    def prepared(self) -> bool:
        """Whether everything is there that drawing it needs."""
        return self.draw is not None or not self.drawn


class PictureMaker:
    """Draws and encodes the pictures of one session, one frame at a time.

    A picture is begun, prepared where that takes waiting, made on any lane, and becomes chunks.
    """

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
        """lane: for `draw` and `close`. loop: digest of the loop that the idle life repeats; "": it
        never does.
        """
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
        self._bitrate = 0
        self._closed = False
        # Whichever lane it is: painter and encoders are one thread's at a time.
        self._at_work = threading.Lock()
        self.set_codecs(codecs)

    def set_codecs(self, codecs: Sequence[VideoCodec]) -> None:
        """The streams from the next frame on; new ones begin with a key frame."""
        wanted = tuple(dict.fromkeys(codecs))
        self._keyframes |= set(wanted) - set(self._codecs)
        self._codecs = wanted

    def set_bitrate(self, bitrate: int) -> None:
        """Bits per second of each stream at the most; 0: as many as an encoder is made for."""
        self._bitrate = bitrate

    @property
    def wanted(self) -> bool:
        """Whether anything is made of a frame."""
        return bool(self._codecs) or self._blendshapes

    @property
    def waits(self) -> bool:
        """Whether pictures have to be prepared, one by one."""
        return self._painter.waits

    def request_keyframe(self, codec: VideoCodec) -> None:
        """The codec's next picture stands on its own. InvalidInputError if it is not sent."""
        if codec not in self._codecs:
            sent = ", ".join(c.name for c in self._codecs) or "no video"
            raise InvalidInputError(f"codec: {codec.name} is not sent here, but {sent}")
        self._keyframes.add(codec)

    def restart(self) -> None:
        """Every stream stands on its own from the next picture on."""
        self._keyframes |= set(self._codecs)

    def begin(self, frame: Frame) -> Picture:
        """The picture of a frame, to be made. Frames come in the order in which they are shown."""
        codecs = self._codecs
        keyframes = set(codecs) if frame.restart else self._keyframes & set(codecs)
        self._keyframes -= keyframes
        picture = Picture(frame, codecs, keyframes)
        if picture.drawn and not self._painter.waits:
            found = self._painter.prepare(frame)
            assert not isinstance(found, Awaitable), "a painter that does not wait"
            picture.draw = found
        return picture

    async def prepare(self, picture: Picture) -> None:
        """Until the picture is prepared; one after the other. Raises what the painter does."""
        if not picture.prepared:
            found = self._painter.prepare(picture.frame)
            picture.draw = await found if isinstance(found, Awaitable) else found

    def make(self, picture: Picture) -> None:
        """Draw and encode. On a lane's thread; nothing happens once this is closed."""
        with self._at_work:
            if self._closed:
                return
            if picture.codecs:
                self._draw(picture)
            picture.made = True

    def forget(self, picture: Picture) -> None:
        """It was begun, and will not be made."""
        self._keyframes |= picture.keyframes

    def chunks(self, picture: Picture, place: PlaceOf) -> list[tuple[Kind, Chunk]]:
        """What is sent of a picture that was made."""
        frame, size, chunks = picture.frame, self._painter.size, list[tuple[Kind, Chunk]]()
        if self._blendshapes:
            chunks.append((Kind.FACE, self._face(frame, place(Kind.FACE, frame.last))))
        for codec, encoded in zip(picture.codecs, picture.encoded, strict=True):
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
                frame.listening,
            )
            chunks.append((Kind.VIDEO, chunk))
        return chunks

    async def draw(self, frame: Frame, place: PlaceOf) -> list[tuple[Kind, Chunk]]:
        """The chunks of a frame, made by itself."""
        picture = self.begin(frame)
        await self.prepare(picture)
        await self._lane.run(self.make, picture, urgency=Urgency(deadline_s=frame.due_s))
        return self.chunks(picture, place)

    async def close(self) -> None:
        """Free the encoders, once no lane draws with them."""
        self._on_close()
        self._painter.cancel_ahead()
        await self._lane.release(self._close)

    def _draw(self, picture: Picture) -> None:
        started = Stamp.now("face")
        codecs, size = picture.codecs, self._painter.size
        for gone in self._encoders.keys() - set(codecs):
            self._encoders.pop(gone).close()
        for codec in codecs:
            if codec.drawn and codec not in self._encoders:
                self._encoders[codec] = self._open_encoder(codec, size, self._fps)
        drawn = None
        if picture.drawn:
            assert picture.draw is not None, "not prepared"
            drawn = picture.draw()
        painted = Stamp.now("face")
        picture.encoded = [self._encode(codec, picture, drawn) for codec in codecs]
        picture.times = DrawTimes(started, painted, Stamp.now("face"))

    def _encode(
        self, codec: VideoCodec, picture: Picture, drawn: NDArray[np.uint8] | None
    ) -> Encoded:
        if drawn is None or not codec.drawn:
            return Encoded(coded(picture.frame.pose), keyframe=True)
        encoder = self._encoders[codec]
        encoder.limit(self._bitrate)
        return encoder.encode(drawn, keyframe=codec in picture.keyframes)

    def _close(self) -> None:
        with self._at_work:
            self._closed = True
            for encoder in self._encoders.values():
                encoder.close()
            self._encoders.clear()

    def _face(self, frame: Frame, place: Place) -> BlendshapeChunk:
        weights, rotation = arkit_weights(frame.pose), head_rotation(frame.pose)
        return BlendshapeChunk(place, frame.live, self._fps, weights, rotation)
