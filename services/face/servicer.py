"""The face on the wire: Animate, Attach, avatars, status.

The only file of the service that sees protobuf.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

import grpc
import grpc.aio

from services.face.audio2face import servicer as audio2face
from services.face.avatar.consent import Consent
from services.face.avatar.heads import HeadFile
from services.face.draw.animator import Animator
from services.face.draw.blendshapes import ARKIT_NAMES
from services.face.draw.loop import SEGMENTS, loop_motion, loop_pictures
from services.face.draw.pictures import Chunk, PictureMaker
from services.face.draw.pose import Frame
from services.face.drawing import Drawing
from services.face.engines.base import AvatarInfo
from services.face.life.gaze import Phase
from services.face.lips.turn_lips import Hearing
from services.face.session import FaceSession, Resumption
from services.face.settings import FaceSettings
from services.face.studio import Studio, open_studio
from visavis.engine import EngineState
from visavis.serving.admission.meter import Assumed
from visavis.serving.admission.reporting import open_admission
from visavis.serving.errors import DrainingError, InvalidInputError, OutOfOrderError
from visavis.serving.lease import LIGHT_FOR_A_SLOT, CallLimit, hearing_out, read_config
from visavis.serving.stage import Leases, engine_status
from visavis.v1 import audio2face_pb2_grpc, control_pb2, face_pb2, face_pb2_grpc
from visavis.wire.bus import Bus
from visavis.wire.clock import Clock, MonotonicClock
from visavis.wire.media import (
    ClockChunk,
    MelChunk,
    PcmChunk,
    Place,
    TurnChunk,
    VideoChunk,
    VideoCodec,
)
from visavis.wire.subjects import Kind

FPS = 25
_ANIMATED_TURN = 1
_UNBOUNDED_S = 1e9
_MAKINGS_AT_ONCE = 4
"""Uploads that are decoded side by side, each in a process of its own."""
_ANIMATIONS_AT_ONCE = 4
_LOOPS_AT_ONCE = 4
_LIVES_FRAMES = 2**31
"""Sessions begin anywhere in the lives that an avatar's segments make: years of them."""
"""They are drawn on one thread."""

ASSUMED = Assumed(units_per_s=0.3 * FPS, unit_cost_s=0.005, cores=0.03)
"""Pictures, until they are measured: idle life comes from the gateway's memory."""

_Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"


@dataclass(frozen=True, slots=True)
class FaceOptions:
    """What a client asks of a face. Read with `read_options`."""

    avatar: str
    from_voice: bool
    codecs: tuple[VideoCodec, ...]
    blendshapes: bool
    seed: int
    seeded: bool
    """The client has chosen the seed."""
    start_frame: int


class FaceService:
    """The deployable: the studio, what draws for all sessions, and the servicer in front."""

    name = "face"
    languages: Sequence[str] = ("en", "zh")

    def __init__(
        self,
        settings: FaceSettings,
        bus: Bus | None,
        instance: str,
        *,
        studio: Studio | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._studio = studio or open_studio(settings, bus)
        clock = clock or MonotonicClock()
        self.admission = open_admission(
            settings, ASSUMED, clock=clock, lanes=settings.lanes, pace_hz=FPS
        )
        self.leases = Leases(FaceService.name, instance, bus, self.admission)
        self._drawing = Drawing(self._studio.lanes, clock, self.admission.meter)
        self._servicer = FaceAnimationServicer(settings, self._studio, self._drawing, self.leases)

    @property
    def engine_states(self) -> Sequence[EngineState]:
        return [network.state for network in self._studio.networks]

    async def load(self) -> None:
        await self._studio.load()
        self._drawing.start()

    def register(self, server: grpc.aio.Server) -> Sequence[str]:
        face_pb2_grpc.add_FaceAnimationServicer_to_server(self._servicer, server)
        audio2face_pb2_grpc.add_A2FControllerServiceServicer_to_server(
            self._servicer.for_audio2face(), server
        )
        ours = face_pb2.DESCRIPTOR.services_by_name["FaceAnimation"].full_name
        return [ours, audio2face.SERVICE]

    async def close(self) -> None:
        await self._drawing.stop()
        await self._studio.close()


class FaceAnimationServicer(face_pb2_grpc.FaceAnimationServicer):
    """What the proto's `FaceAnimation` says, over one studio."""

    def __init__(
        self,
        settings: FaceSettings,
        studio: Studio,
        drawing: Drawing,
        leases: Leases,
    ) -> None:
        self._settings = settings
        self._studio = studio
        self._drawing = drawing
        self.leases = leases
        # Animate draws as fast as it can.
        most = min(settings.slots, _ANIMATIONS_AT_ONCE)
        self._animations = CallLimit(most, "Animate calls")
        self._makings = CallLimit(_MAKINGS_AT_ONCE, "new avatars")
        self._loops = CallLimit(_LOOPS_AT_ONCE, "loops")
        self._loops_cpu_s = 0.0

    async def Animate(
        self, requests: AsyncIterator[face_pb2.AnimateRequest], context: _Context
    ) -> AsyncIterator[face_pb2.AnimateResponse]:
        requests = aiter(requests)
        async with hearing_out(requests):
            first = await read_config(requests, "Animate")
            options = read_options(first.config)
            async with contextlib.aclosing(self._animated(options, requests)) as responses:
                async for response in responses:
                    yield response

    async def _animated(
        self, options: FaceOptions, requests: AsyncIterator[face_pb2.AnimateRequest]
    ) -> AsyncGenerator[face_pb2.AnimateResponse, None]:
        with self._animations.hold():
            pictures = await self._pictures(options)
            animator = Animator(
                seed=options.seed,
                fps=FPS,
                lead_s=_UNBOUNDED_S,
                first_lead_s=_UNBOUNDED_S,
                start_frame=options.start_frame,
            )
            hearing = self._hearing(options)
            try:
                voice_only = self._studio.needs_voice
                clock = self._drawing.clock
                frames = _frames(requests, animator, hearing, options, voice_only, clock)
                async for frame in frames:
                    for response in await _responses(frame, pictures):
                        yield response
            finally:
                await pictures.close()

    async def Attach(
        self, requests: AsyncIterator[face_pb2.FaceAttachRequest], context: _Context
    ) -> AsyncIterator[control_pb2.AttachEvent]:
        first = await read_config(requests, "Attach")
        options = read_options(first.config.face)
        config = first.config
        with self.leases.attach(
            config.session, admitted=config.admitted, light=_light(options.codecs)
        ) as stage:
            pictures = await self._pictures(options, repeats=not options.seeded)
            session = FaceSession(
                stage,
                animator=self._animator(options, pictures.loop),
                pictures=pictures,
                hearing=self._hearing(options),
                from_voice=options.from_voice or self._studio.needs_voice,
                drawing=self._drawing,
            )

            async def on_request(request: face_pb2.FaceAttachRequest) -> None:
                if request.WhichOneof("request") == "codecs":
                    codecs = read_codecs(request.codecs.codecs)
                    if codecs:
                        self.leases.slots.weigh(config.session, light=_light(codecs))
                if request.WhichOneof("request") == "resume":
                    await session.resume(_resumption(request.resume))
                else:
                    _steer(session, request)

            try:
                lease = stage.serve(session, requests, on_request)
                async with contextlib.aclosing(lease) as events:
                    async for event in events:
                        yield event
            finally:
                await pictures.close()

    async def RenderLoop(
        self, request: face_pb2.RenderLoopRequest, context: _Context
    ) -> AsyncIterator[face_pb2.RenderLoopResponse]:
        [codec] = read_codecs([request.codec])
        with self._loops.hold():
            listening = request.listening
            pictures = self._studio.loop(
                request.avatar,
                codec,
                fps=FPS,
                listening=listening,
                busy=lambda: self._drawing.attends,
            )
            count = loop_pictures(FPS, self._settings.idle_life_s, listening=listening)
            async with contextlib.aclosing(pictures):
                async for response in _loop_responses(pictures, count):
                    if self.leases.draining:  # it takes minutes, and another face can draw it
                        raise DrainingError("loop: this face is about to end; ask another one")
                    self._set_aside(await self._studio.loops_cpu_s())
                    yield response

    def _set_aside(self, loops_cpu_s: float) -> None:
        """What loops have taken is no part of what a session asks for."""
        self.leases.admission.meter.aside(loops_cpu_s - self._loops_cpu_s)
        self._loops_cpu_s = loops_cpu_s

    async def ListAvatars(
        self, request: face_pb2.ListAvatarsRequest, context: _Context
    ) -> face_pb2.ListAvatarsResponse:
        avatars = await self._studio.avatars()
        return face_pb2.ListAvatarsResponse(avatars=[_avatar(avatar) for avatar in avatars])

    async def GetAvatarPortrait(
        self, request: face_pb2.GetAvatarPortraitRequest, context: _Context
    ) -> face_pb2.AvatarPortrait:
        return face_pb2.AvatarPortrait(jpeg=await self._studio.portrait(request.name))

    async def GetAvatarHead(
        self, request: face_pb2.GetAvatarHeadRequest, context: _Context
    ) -> face_pb2.AvatarHead:
        head = await self._studio.head(request.name, _head_file(request.file))
        known = head.sha256 == request.known_sha256
        return face_pb2.AvatarHead(content=b"" if known else head.content, sha256=head.sha256)

    async def CreateAvatar(
        self, request: face_pb2.CreateAvatarRequest, context: _Context
    ) -> face_pb2.Avatar:
        with self._makings.hold():
            consent = read_consent(request)
            return _avatar(await self._studio.create(request.name, request.image, consent))

    async def DeleteAvatar(
        self, request: face_pb2.DeleteAvatarRequest, context: _Context
    ) -> face_pb2.DeleteAvatarResponse:
        await self._studio.delete(request.name)
        return face_pb2.DeleteAvatarResponse()

    async def RenameAvatar(
        self, request: face_pb2.RenameAvatarRequest, context: _Context
    ) -> face_pb2.Avatar:
        return _avatar(await self._studio.rename(request.name, request.new_name))

    async def GetStatus(
        self, request: control_pb2.GetStatusRequest, context: _Context
    ) -> face_pb2.FaceStatus:
        status = self.leases.status(
            [engine_status(network.bundle, network.state) for network in self._studio.networks],
            FaceService.languages,
        )
        return face_pb2.FaceStatus(service=status, blendshapes=ARKIT_NAMES)

    def for_audio2face(self) -> audio2face.Audio2FaceServicer:
        """The same for clients of Audio2Face-3D: the network and its lane are shared."""

        def hearing() -> Hearing:
            return self._studio.hearing(fps=audio2face.FPS, durations=False)

        # Nothing is drawn for them.
        clips = CallLimit(LIGHT_FOR_A_SLOT * self._settings.slots, "clips")
        return audio2face.Audio2FaceServicer(hearing, self._drawing.clock, clips)

    async def _pictures(self, options: FaceOptions, *, repeats: bool = False) -> PictureMaker:
        return await self._studio.pictures(
            options.avatar,
            fps=FPS,
            codecs=options.codecs,
            blendshapes=options.blendshapes,
            repeats=repeats,
        )

    def _animator(self, options: FaceOptions, loop: str) -> Animator:
        """Of a session. Each is elsewhere in the loop: two faces do not blink in unison."""
        motion = loop_motion(loop, FPS, self._settings.idle_life_s) if loop else None
        start = secrets.randbelow(_LIVES_FRAMES) if motion else 0
        lead_s = self._settings.lead_s
        return Animator(seed=options.seed, fps=FPS, lead_s=lead_s, start_frame=start, motion=motion)

    def _hearing(self, options: FaceOptions) -> Hearing:
        return self._studio.hearing(fps=FPS, durations=not options.from_voice)


def read_options(config: face_pb2.FaceConfig) -> FaceOptions:
    """Raises InvalidInputError naming the field."""
    if config.source not in (face_pb2.FaceConfig.SOURCE_MEL, face_pb2.FaceConfig.SOURCE_VOICE):
        raise InvalidInputError(f"source: {config.source} is neither SOURCE_MEL nor SOURCE_VOICE")
    codecs = read_codecs(config.codecs)
    if not codecs and not config.blendshapes:
        codecs = (VideoCodec.H264,)
    return FaceOptions(
        config.avatar,
        config.source == face_pb2.FaceConfig.SOURCE_VOICE,
        codecs,
        config.blendshapes,
        config.seed or secrets.randbits(63),
        bool(config.seed),
        config.start_frame,
    )


def read_codecs(codecs: Sequence[int]) -> tuple[VideoCodec, ...]:
    """Each once, in order. Raises InvalidInputError for what is no codec."""
    known = {int(codec) for codec in VideoCodec}
    for codec in codecs:
        if codec not in known:
            names = ", ".join(f"{codec.name} ({int(codec)})" for codec in VideoCodec)
            raise InvalidInputError(f"codecs: {codec} is none of {names}")
    return tuple(dict.fromkeys(VideoCodec(codec) for codec in codecs))


def read_consent(request: face_pb2.CreateAvatarRequest) -> Consent | None:
    """What is stated with a picture, now. Raises InvalidInputError naming the field."""
    if not request.HasField("consent"):
        return None
    told = request.consent
    return Consent.stated(
        likeness=told.likeness,
        agreed_to=told.agreed_to,
        stated_by=told.stated_by,
        stated_via=told.stated_via or "gRPC",
        stated_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _light(codecs: Sequence[VideoCodec]) -> bool:
    """Whether nothing is drawn for a session, whose viewers do it themselves."""
    return bool(codecs) and not any(codec.drawn for codec in codecs)


_PHASES = {
    face_pb2.SetAttention.LISTENING: Phase.LISTENING,
    face_pb2.SetAttention.THINKING: Phase.THINKING,
}


def _steer(session: FaceSession, request: face_pb2.FaceAttachRequest) -> None:
    match request.WhichOneof("request"):
        case "keyframe":
            for codec in read_codecs([request.keyframe.codec]):
                session.request_keyframe(codec)
        case "codecs":
            session.set_codecs(read_codecs(request.codecs.codecs))
        case "bitrate":
            session.set_bitrate(request.bitrate.most_kbps)
        case "idle" if request.idle.live:
            session.wake(request.idle.motion_frame or None)
        case "idle":
            session.rest(request.idle.motion_frame)
        case "attention":
            told = request.attention
            shown_from = told.shown_from if told.HasField("shown_from") else None
            session.attend(_PHASES.get(told.phase, Phase.IDLE), told.cue, shown_from)
        case _:
            raise OutOfOrderError(
                "after the config only keyframe, codecs, bitrate, idle, attention and resume may "
                "follow on Attach"
            )


def _resumption(resume: face_pb2.ResumeFace) -> Resumption:
    """Raises InvalidInputError naming the field."""
    return Resumption(
        TurnChunk.of(resume.turn),
        tuple(MelChunk.of(chunk) for chunk in resume.mel),
        tuple(PcmChunk.of(chunk) for chunk in resume.voice),
        ClockChunk.of(resume.clock) if resume.HasField("clock") else None,
    )


async def _frames(
    requests: AsyncIterator[face_pb2.AnimateRequest],
    animator: Animator,
    hearing: Hearing,
    options: FaceOptions,
    voice_only: bool,
    clock: Clock,
) -> AsyncIterator[Frame]:
    """Every frame as soon as its lips are known. With `voice_only` mel tells the style alone.

    Frames are due by `clock`, the lanes': those of sessions, whose voice is heard, go before them.
    """
    async for request in requests:
        kind = request.WhichOneof("request")
        if kind == "mel" and not options.from_voice:
            mel = MelChunk.of(_in_turn(request.mel))
            if len(mel.mel):
                animator.express(_ANIMATED_TURN, mel.start_s, mel.style)
            if voice_only:
                continue
            lips = await hearing.mel(mel)
        elif kind == "voice":
            lips = await hearing.voice(PcmChunk.of(_in_turn(request.voice)))
        elif kind == "mel":
            raise InvalidInputError("mel: the config says that the source is the voice")
        else:
            raise OutOfOrderError("after the config only mel and voice may follow on Animate")
        if lips is not None:
            animator.speak_turn(_ANIMATED_TURN, lips, clock.now())
        while (frame := animator.next_spoken(clock.now())) is not None:
            yield frame
    lips = await hearing.finish()
    if lips is None and voice_only:
        raise InvalidInputError(
            "voice: none came after the config, and this face is drawn from the voice alone"
        )
    if lips is None:
        raise InvalidInputError("mel, voice: nothing to animate came after the config")
    animator.speak_turn(_ANIMATED_TURN, lips, clock.now())
    while (frame := animator.next_spoken(clock.now())) is not None:
        yield frame


def _in_turn(message: Any) -> Any:
    message.header.turn = _ANIMATED_TURN
    return message


async def _responses(frame: Frame, pictures: PictureMaker) -> list[face_pb2.AnimateResponse]:
    def place(kind: Kind, last: bool) -> Place:
        return Place("", 0, frame.index, frame.index, last)

    chunks = await pictures.draw(frame, place)
    return [_response(chunk) for _, chunk in chunks]


def _response(chunk: Chunk) -> face_pb2.AnimateResponse:
    if isinstance(chunk, VideoChunk):
        return face_pb2.AnimateResponse(video=chunk.to_message())
    return face_pb2.AnimateResponse(face=chunk.to_message())


async def _loop_responses(
    pictures: AsyncIterator[VideoChunk], count: int
) -> AsyncIterator[face_pb2.RenderLoopResponse]:
    """The loop's record, then its `count` pictures, a second in each message."""
    waiting: list[face_pb2.LoopPicture] = []
    async for chunk in pictures:
        if not chunk.place.pts:
            codec: Any = int(chunk.codec)  # as the generated code's annotations want it
            loop = face_pb2.IdleLoop(
                digest=chunk.loop,
                codec=codec,
                width=chunk.width,
                height=chunk.height,
                fps=chunk.fps,
                pictures=count,
                segments=SEGMENTS,
                listening=chunk.listening,
            )
            yield face_pb2.RenderLoopResponse(loop=loop)
        waiting.append(face_pb2.LoopPicture(data=chunk.payload, keyframe=chunk.keyframe))
        if len(waiting) == chunk.fps:
            yield face_pb2.RenderLoopResponse(pictures=face_pb2.LoopPictures(pictures=waiting))
            waiting = []


def _head_file(file: face_pb2.GetAvatarHeadRequest.File) -> HeadFile:
    match file:
        case face_pb2.GetAvatarHeadRequest.FILE_MODEL:
            return HeadFile.MODEL
        case face_pb2.GetAvatarHeadRequest.FILE_SCENE:
            return HeadFile.SCENE
        case face_pb2.GetAvatarHeadRequest.FILE_BACKGROUND:
            return HeadFile.BACKGROUND
    raise InvalidInputError(f"file: a head has no file {file}")


def _avatar(avatar: AvatarInfo) -> face_pb2.Avatar:
    told = None if avatar.consent is None else face_pb2.Consent(**asdict(avatar.consent))
    return face_pb2.Avatar(
        name=avatar.name,
        width=avatar.size,
        height=avatar.size,
        builtin=avatar.builtin,
        licence=avatar.licence,
        consent=told,
        head=avatar.head is not None,
        engine=avatar.engine,
        left_out=avatar.left_out,
    )
