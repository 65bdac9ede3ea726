"""What all sessions of the service share: avatars, the network, the lanes that draw and encode."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from services.face.avatar.consent import NOT_STATED, Consent
from services.face.avatar.heads import HeadContent, HeadFile, read_head
from services.face.avatar.making.decoding import Decoder
from services.face.avatar.packing import LARGEST_BYTES, is_packed
from services.face.avatar.store import no_avatar, not_kept
from services.face.draw.encoder import Codec, VideoEncoder
from services.face.draw.loop import loop_digest, loop_frames, loop_motion
from services.face.draw.pictures import Draw, Encoded, EncoderFactory, Painter, PictureMaker
from services.face.draw.pose import FacePose, Frame
from services.face.engines.base import AvatarInfo, FaceEngine, NetworkState, Upload
from services.face.engines.choice import default_avatar_dir, open_face_engine
from services.face.kept_loops import KeptLoops
from services.face.lips.audio_to_face import WEIGHTS, AudioToFace, AudioToFaceStream
from services.face.lips.turn_lips import Hearing
from services.face.settings import FaceSettings
from visavis.engine import Engine, EngineLane
from visavis.serving import metrics
from visavis.serving.errors import (
    AtCapacityError,
    EngineError,
    InvalidInputError,
    OutOfOrderError,
    SettingsError,
    UnknownNameError,
    VisavisError,
)
from visavis.wire.bus import Bus
from visavis.wire.media import Place, VideoChunk, VideoCodec
from visavis.wire.shelf import Shared
from visavis.wire.subjects import Kind

log = logging.getLogger(__name__)

_GIVES_WAY = 10
"""Niceness of who draws loops: a tenth of a core where everybody else wants all of it."""
_RESTS = 5
"""While anybody talks to a face, who draws loops rests so many times as long as a picture took it:
niceness alone leaves it a core that is free, and whose caches and other half somebody would need.
"""
_LONGEST_REST_S = 0.3
_FIRST_FRAME = Frame(0, 0, True, False, True, FacePose(jaw_open=0.3))


class Studio:
    """Loads once, serves every session. Sessions share no state but the lanes' time."""

    def __init__(
        self,
        settings: FaceSettings,
        engine: FaceEngine,
        open_encoder: EncoderFactory,
        *,
        lips: Engine | None = None,
        bus: Bus | None = None,
    ) -> None:
        """`lips`: the network that hears them; None: the product's own. `bus`: by which replicas
        share avatars.
        """
        self._settings = settings
        self._engine = engine
        self._open_encoder = open_encoder
        self._lips = lips or settings.open_engine(WEIGHTS)
        shelf = engine.shelf
        self._shared = Shared(bus, shelf, LARGEST_BYTES) if bus and shelf else None
        self._network: AudioToFace | None = None
        self._lanes = [EngineLane(f"face-{index}") for index in range(settings.lanes)]
        self._hearing_lane = EngineLane("face-network", at_once=self._lips.at_once)
        # Loops are nobody's first picture: their thread gives way to every other one.
        self._loop_lane = EngineLane("face-loops")
        # Nobody who attaches waits for lists of avatars, or for the second that making one takes.
        self._wardrobe_lane = EngineLane("face-wardrobe")
        self._gallery_lane = EngineLane("face-gallery")
        self._maker_lane = EngineLane("face-maker")
        self._decoder = Decoder(settings.decode_limit_s)
        root = settings.avatar_dir or default_avatar_dir()
        self._loops = KeptLoops(root, settings.loop_disk_mb * 1_000_000)
        self._busy: Counter[int] = Counter()

    @property
    def networks(self) -> Sequence[NetworkState]:
        """Where the network of the lips runs, and those that draw."""
        return [NetworkState(WEIGHTS.stem, self._lips.state), *self._engine.states]

    @property
    def lanes(self) -> Sequence[EngineLane]:
        """That draw and encode; open as long as the studio is."""
        return self._lanes

    @property
    def needs_voice(self) -> bool:
        """Pictures are drawn from the voice, whatever else a client sends."""
        return self._engine.needs_voice

    async def load(self) -> None:
        """Load networks and the default avatar, and draw, encode and hear once on every lane.

        Raises SettingsError where the avatar that they name is not there.
        """
        await self._hearing_lane.run(self._lips.load)
        self._network = AudioToFace(self._lips)
        stream = AudioToFaceStream(self._network, 16_000)
        await self._hearing_lane.run(partial(stream.hear, np.zeros(1600, np.int16), last=True))
        await self._engine.load()
        await self._sync(look=True)
        try:
            await self._named(self._settings.avatar)
        except UnknownNameError as error:
            raise SettingsError(f"avatar: {error}") from None
        await self._loop_lane.run(_step_back)
        for lane in self._lanes:
            painter = await self._painter("")
            draw = painter.prepare(_FIRST_FRAME)
            await lane.run(
                self._warm, await draw if isinstance(draw, Awaitable) else draw, painter.size
            )
            painter.cancel_ahead()

    async def pictures(
        self,
        avatar: str,
        *,
        fps: int,
        codecs: Sequence[VideoCodec],
        blendshapes: bool,
        repeats: bool = False,
    ) -> PictureMaker:
        """Pictures of an avatar ("": the default one) on the least used lane.

        repeats: idle life is the avatar's loop, where the engine can draw that ahead.
        """
        painter = await self._painter(avatar)
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
            loop=self._loop_of(painter, fps) if repeats else "",
            on_close=release,
        )

    async def loop(
        self,
        avatar: str,
        codec: VideoCodec,
        *,
        fps: int,
        listening: bool = False,
        busy: Callable[[], bool],
    ) -> AsyncGenerator[VideoChunk, None]:
        """The pictures of an avatar's loop: those that are kept, or drawn as they are asked for,
        after everything else.

        listening: of that in which it listens to somebody. busy: whether anybody talks to a face;
        most of the time goes to others then.

        Raises OutOfOrderError where its idle life does not repeat, UnknownNameError.
        """
        painter = await self._painter(avatar)
        digest = self._loop_of(painter, fps)
        if not digest:
            painter.cancel_ahead()
            raise OutOfOrderError("loop: this engine draws idle life anew for everybody")
        pictures = PictureMaker(
            painter,
            self._open_encoder,
            self._loop_lane,
            fps=fps,
            codecs=(codec,),
            blendshapes=False,
            loop=digest,
        )
        motion = loop_motion(digest, fps, self._settings.idle_life_s)
        file = await self._loop_file(avatar, digest, codec, listening=listening)
        made: list[Encoded] = []
        kept = 0
        try:
            first = await _drawn(pictures, next(loop_frames(motion, listening=listening)))
            made.append(Encoded(first.payload, first.keyframe))
            found = await self._gallery_lane.run(self._loops.read, file) if file else []
            yield first
            if found[:1] == made:  # else another version has drawn them
                made, kept = found, len(found)
                for index, picture in enumerate(found[1:], 1):
                    yield _kept(first, index, picture)
            for frame in loop_frames(motion, len(made), listening=listening):
                began_s = time.monotonic()
                chunk = await _drawn(pictures, frame)
                took_s = time.monotonic() - began_s
                made.append(Encoded(chunk.payload, chunk.keyframe))
                yield chunk
                if busy():
                    await asyncio.sleep(min(_RESTS * took_s, _LONGEST_REST_S))
        finally:
            await pictures.close()
            # Broken off, it goes on there the next time, with a picture that stands on its own.
            del made[len(made) // fps * fps :]
            if file is not None and len(made) > kept and await self._is_still(avatar, digest, fps):
                await self._gallery_lane.run(self._loops.keep, file, made)

    async def loops_cpu_s(self) -> float:
        """Processor time that all loops have taken so far."""
        return await self._loop_lane.run(time.thread_time)

    def hearing(self, *, fps: int, durations: bool) -> Hearing:
        """The lips of one session. EngineError before `load`."""
        if self._network is None:
            raise EngineError("the audio-to-face network is not loaded")
        return Hearing(
            self._network,
            self._hearing_lane,
            fps,
            durations=durations and not self.needs_voice,
            open_ear=self._engine.ear,
        )

    async def avatars(self) -> Sequence[AvatarInfo]:
        await self._sync(look=True)
        return await self._gallery_lane.run(self._engine.avatars)

    async def portrait(self, name: str) -> bytes:
        """JPEG. Raises UnknownNameError."""
        await self._sync()
        return await self._gallery_lane.run(self._engine.portrait, name)

    async def head(self, name: str, file: HeadFile) -> HeadContent:
        """What clients need that draw an avatar ("": the default one) themselves.

        Raises UnknownNameError, also where it has none.
        """
        known = await self.avatars()
        found = _named(known, name)
        if found is None:
            raise no_avatar(name, [avatar.name for avatar in known])
        return await self._gallery_lane.run(read_head, found, file)

    async def create(self, name: str, image: bytes, consent: Consent | None) -> AvatarInfo:
        """Of a picture, or of a head bundle in one archive.

        Raises InvalidInputError with the reason why it will not do, or what has to be stated with
        it, AlreadyExistsError, AtCapacityError. Cancelled, it keeps nothing.
        """
        await self._sync(look=True)
        await self._gallery_lane.run(self._engine.check_new, name)
        upload: Upload = image
        if not is_packed(image):
            if consent is None and self._engine.of_people:
                raise InvalidInputError(NOT_STATED)
            upload = await self._decoder.decode(image, self._engine.reading)
        keep = await self._maker_lane.run(self._engine.make, name, upload, consent)
        keeping = asyncio.create_task(self._gallery_lane.run(keep))
        try:
            made = await asyncio.shield(keeping)
            if self._shared is not None:
                await self._shared.share(name)
        except asyncio.CancelledError:
            with contextlib.suppress(VisavisError):
                await keeping
                await self.delete(name)
            raise
        return made

    async def delete(self, name: str) -> None:
        """Raises UnknownNameError; InvalidInputError for one that ships with the product, or that
        the settings name; BusError where others go on to have it.
        """
        self._check_not_default(name)
        await self._sync()
        await self._gallery_lane.run(self._engine.delete, name)
        if self._shared is not None:
            await self._shared.forget(name)

    async def rename(self, name: str, new_name: str) -> AvatarInfo:
        """Raises UnknownNameError, AlreadyExistsError, InvalidInputError as `delete` does and for
        a name that is none.
        """
        self._check_not_default(name)
        await self._sync(look=True)
        renamed = await self._gallery_lane.run(_copied, self._engine, name, new_name)
        if self._shared is not None:
            await self._shared.share(new_name)
        await self.delete(name)
        return renamed

    def _check_not_default(self, name: str) -> None:
        """Without it no client would have a face that names none, nor this service a start."""
        if name and name == self._settings.avatar:
            raise InvalidInputError(
                f"avatar {name!r} is the one where a client names none: start the face with "
                "another one as its `avatar` first"
            )

    async def close(self) -> None:
        await self._engine.close()
        others = (self._wardrobe_lane, self._gallery_lane, self._maker_lane, self._loop_lane)
        for lane in (*self._lanes, self._hearing_lane, *others):
            lane.close()
        self._lips.close()

    async def _painter(self, name: str) -> Painter:
        """Of an avatar; "": the one of the settings or, where its files have gone, the first."""
        try:
            return await self._named(name or self._settings.avatar)
        except UnknownNameError as error:
            if name:
                raise
            first = (await self._gallery_lane.run(self._engine.avatars))[0].name
            log.warning("%s; whoever names none sees %r", error, first)
            return await self._named(first)

    async def _named(self, name: str) -> Painter:
        if name:
            await self._sync()
        try:
            return await self._wardrobe_lane.run(self._engine.painter, name)
        except UnknownNameError:
            await self._sync(look=True)
            return await self._wardrobe_lane.run(self._engine.painter, name)

    async def _sync(self, *, look: bool = False) -> None:
        """Have our avatars be those of all replicas; see `Shared.sync`."""
        if self._shared is not None:
            await self._shared.sync(look=look)

    async def _loop_file(
        self, avatar: str, digest: str, codec: VideoCodec, *, listening: bool
    ) -> Path | None:
        """Where that loop is kept, once it is drawn; avatar: "" is the default one."""
        known = await self._gallery_lane.run(self._engine.avatars)
        info = _named(known, avatar)
        if info is None or info.loops is None:
            return None
        kind = f"{codec.name.lower()}-{'listening' if listening else 'resting'}"
        return info.loops / f"{digest}.{kind}"

    async def _is_still(self, avatar: str, digest: str, fps: int) -> bool:
        """Whether the avatar has that loop: it may be gone, and its name be another one's."""
        try:
            painter = await self._painter(avatar)
        except VisavisError:
            return False
        painter.cancel_ahead()
        return self._loop_of(painter, fps) == digest

    def _loop_of(self, painter: Painter, fps: int) -> str:
        return loop_digest(
            painter.look, fps, self._settings.bitrate_kbps, self._settings.idle_life_s
        )

    def _warm(self, draw: Draw, size: int) -> None:
        """The first picture compiles the rasteriser and opens the codecs' libraries."""
        picture = draw()
        for codec in filter(attrgetter("drawn"), VideoCodec):
            encoder = self._open_encoder(codec, size, 25)
            encoder.encode(picture, keyframe=True)
            encoder.close()


def _named(known: Sequence[AvatarInfo], name: str) -> AvatarInfo | None:
    """ "": the default one, which is the first."""
    return next((avatar for avatar in known if avatar.name == name or not name), None)


async def _drawn(pictures: PictureMaker, frame: Frame) -> VideoChunk:
    """A frame of a loop."""
    [(_, chunk)] = await pictures.draw(frame, partial(_place_in_loop, frame.index))
    assert isinstance(chunk, VideoChunk)
    metrics.face_frames.labels("loop").inc()
    return chunk


def _kept(first: VideoChunk, index: int, picture: Encoded) -> VideoChunk:
    """The index-th picture of the loop that begins with `first`."""
    metrics.face_frames.labels("kept").inc()
    return replace(
        first,
        place=_place_in_loop(index, Kind.VIDEO, last=False),
        payload=picture.payload,
        keyframe=picture.keyframe,
        number=1 + index,
        motion_frame=index,
    )


def _place_in_loop(index: int, kind: Kind, last: bool) -> Place:
    return Place("", 0, index, index, last)


def _step_back() -> None:
    """On a thread: whatever else wants a core goes first."""
    if sys.platform == "linux":  # where it counts for this thread alone
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _GIVES_WAY)


_CODECS: dict[VideoCodec, Codec] = {VideoCodec.H264: "h264", VideoCodec.VP8: "vp8"}


class VideoStream:
    """VideoEncoder as the pictures use it."""

    def __init__(self, codec: VideoCodec, size: int, fps: int, *, bitrate: int) -> None:
        self._encoder = VideoEncoder(_CODECS[codec], size, size, fps, bitrate)

    def encode(self, picture: NDArray[np.uint8], *, keyframe: bool) -> Encoded:
        """picture: as `Draw` makes it."""
        frame = self._encoder.encode(picture, force_keyframe=keyframe)
        return Encoded(frame.payload, frame.keyframe)

    def limit(self, bitrate: int) -> None:
        """Bits per second at the most; 0: those that it was made for."""
        self._encoder.limit(bitrate)

    def close(self) -> None:
        self._encoder.close()


def open_studio(settings: FaceSettings, bus: Bus | None = None) -> Studio:
    """The studio that the service runs with; nothing is loaded yet."""
    open_encoder = partial(VideoStream, bitrate=1000 * settings.bitrate_kbps)
    return Studio(settings, open_face_engine(settings), open_encoder, bus=bus)


def _copied(engine: FaceEngine, name: str, new_name: str) -> AvatarInfo:
    """The avatar `name` once more, as `new_name`, which has its loops from now on.

    Raises as `create` does.
    """
    shelf = engine.shelf
    known = {info.name: info for info in engine.avatars()}
    if name not in known:
        raise no_avatar(name, list(known))
    if shelf is None or known[name].builtin:
        raise InvalidInputError(f"avatar {name!r} ships with the product and keeps its name")
    with contextlib.suppress(AtCapacityError):  # one goes for the one that comes
        engine.check_new(new_name)
    try:
        shelf.take(new_name, shelf.pack(name), "")
    except OSError as error:
        raise not_kept(new_name, error) from error
    made = next(info for info in engine.avatars() if info.name == new_name)
    before, now = known[name].loops, made.loops
    if before is not None and now is not None:
        with contextlib.suppress(OSError):  # there are none yet, or they are drawn anew
            before.rename(now)
    return made
