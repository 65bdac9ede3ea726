"""Audio2Face-3D's service: sound in, the weights of 52 blendshapes out, 30 times a second.

A clip is answered as fast as it is heard: a header, frames with the sound that goes with each, an
event, a status. Nothing is drawn, so it takes no lane.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import grpc.aio
import numpy as np
from numpy.typing import NDArray

from services.face.audio2face.weights import Adjustment, style_of
from services.face.draw.animator import Animator
from services.face.draw.blendshapes import arkit_weights
from services.face.draw.pose import Frame
from services.face.lips.turn_lips import Hearing
from visavis.arkit import APPLE_NAMES
from visavis.serving.errors import InvalidInputError
from visavis.serving.lease import CallLimit, hearing_out
from visavis.styles import NEUTRAL
from visavis.v1 import audio2face_pb2 as pb
from visavis.v1 import audio2face_pb2_grpc
from visavis.wire.clock import Clock
from visavis.wire.media import PcmChunk, Place, check_sample_rate

SERVICE = pb.DESCRIPTOR.services_by_name["A2FControllerService"].full_name
FPS = 30
LONGEST_CLIP_S = 300
LONGEST_BUFFER_S = 10
SILENT_S = 30.0
"""A client that sends nothing for so long is given up."""
_TURN = 1
_UNBOUNDED_S = 1e9
_HEARD_AT_ONCE_S = 0.5

_CONTEXT = grpc.aio.ServicerContext[Any, Any]
_Requests = AsyncIterator[pb.AudioStream]


class Audio2FaceServicer(audio2face_pb2_grpc.A2FControllerServiceServicer):
    """Answers clients of Audio2Face-3D with the lips and the life of our own faces.

    hearing: the lips of a new clip, at FPS. clips: how many are answered at once.
    """

    def __init__(self, hearing: Callable[[], Hearing], clock: Clock, clips: CallLimit) -> None:
        self._hearing = hearing
        self._clock = clock
        self._clips = clips

    async def ProcessAudioStream(
        self, requests: _Requests, context: _CONTEXT
    ) -> AsyncIterator[pb.AnimationDataStream]:
        """Raises InvalidInputError, AtCapacityError, EngineError, TimeoutError."""
        requests = aiter(requests)
        async with hearing_out(requests):
            first = await _next(requests)
            if first is None or first.WhichOneof("stream_part") != "audio_stream_header":
                raise InvalidInputError("the first message must be audio_stream_header")
            header = first.audio_stream_header
            clip = _Clip(header, self._hearing(), self._clock)
            with self._clips.hold():
                yield _header(header)
                async for part in _sound(requests):
                    async for frame in clip.hear(part):
                        yield frame
                async for frame in clip.finish():
                    yield frame
        yield pb.AnimationDataStream(event=pb.Event(event_type=pb.END_OF_A2F_AUDIO_PROCESSING))
        done = f"{clip.frames} frames of {clip.heard_s:.2f} s"
        yield pb.AnimationDataStream(status=pb.Status(code=pb.Status.SUCCESS, message=done))


class _Clip:
    """One client's sound on its way to frames."""

    def __init__(self, header: pb.AudioStreamHeader, hearing: Hearing, clock: Clock) -> None:
        self._rate_hz = _checked_rate(header.audio_header)
        shapes = header.blendshape_params
        self._adjustment = Adjustment(
            shapes.bs_weight_multipliers,
            shapes.bs_weight_offsets,
            clamp=shapes.enable_clamping_bs_weight,
        )
        self._hearing = hearing
        self._clock = clock
        self._animator = Animator(
            seed=secrets.randbits(63), fps=FPS, lead_s=_UNBOUNDED_S, first_lead_s=_UNBOUNDED_S
        )
        self.frames = 0
        self._heard = 0
        self._echoed = 0
        self._echo = b""
        self._express(0.0, header.emotion_params.beginning_emotion)

    @property
    def heard_s(self) -> float:
        """Sound that came in so far."""
        return self._heard / self._rate_hz

    async def hear(self, part: pb.AudioWithEmotion) -> AsyncIterator[pb.AnimationDataStream]:
        """The frames that are known by a piece of sound. Raises InvalidInputError."""
        if len(part.audio_buffer) % 2:
            raise InvalidInputError("audio_buffer: it ends within a sample of 16 bits")
        pcm = np.frombuffer(part.audio_buffer, "<i2")
        if len(pcm) > LONGEST_BUFFER_S * self._rate_hz:
            raise InvalidInputError(f"audio_buffer: more than {LONGEST_BUFFER_S} s in one message")
        if self._heard + len(pcm) > LONGEST_CLIP_S * self._rate_hz:
            raise InvalidInputError(f"audio_buffer: the clip is longer than {LONGEST_CLIP_S} s")
        for told in part.emotions:
            self._express(told.time_code, told.emotion)
        self._echo += part.audio_buffer
        step = round(_HEARD_AT_ONCE_S * self._rate_hz)
        for start in range(0, len(pcm), step):
            for frame in await self._fed(pcm[start : start + step], last=False):
                yield frame

    async def finish(self) -> AsyncIterator[pb.AnimationDataStream]:
        """The rest of them. Raises InvalidInputError where no sound came."""
        if not self._heard:
            raise InvalidInputError("audio_buffer: no sound came behind the header")
        frames = await self._fed(np.zeros(0, np.int16), last=True)
        for index, frame in enumerate(frames):
            if index == len(frames) - 1 and self._echo:
                frame.animation_data.audio.audio_buffer += self._echo
                self._echo = b""
            yield frame

    async def _fed(self, pcm: NDArray[np.int16], *, last: bool) -> list[pb.AnimationDataStream]:
        place = Place("", _TURN, 0, self._heard, last)
        lips = await self._hearing.voice(PcmChunk(place, self._rate_hz, pcm))
        self._heard += len(pcm)
        if lips is not None:
            self._animator.speak_turn(_TURN, lips, self._clock.now())
        return [self._framed(frame) for frame in self._ready()]

    def _ready(self) -> Iterator[Frame]:
        while (frame := self._animator.next_spoken(self._clock.now())) is not None:
            yield frame

    def _framed(self, frame: Frame) -> pb.AnimationDataStream:
        at_s = frame.index / FPS
        weights = self._adjustment.applied(arkit_weights(frame.pose))
        until = 2 * round((frame.index + 1) * self._rate_hz / FPS)
        sound = self._echo[: max(0, until - self._echoed)]
        self._echo = self._echo[len(sound) :]
        self._echoed += len(sound)
        self.frames += 1
        data = pb.AnimationData(audio=pb.AudioWithTimeCode(time_code=at_s, audio_buffer=sound))
        data.skel_animation.blend_shape_weights.add(time_code=at_s, values=weights.tolist())
        return pb.AnimationDataStream(animation_data=data)

    def _express(self, at_s: float, emotions: Any) -> None:
        style = style_of(emotions)
        if style != NEUTRAL or at_s > 0:
            self._animator.express(_TURN, max(0.0, at_s), style)


async def _next(requests: _Requests) -> pb.AudioStream | None:
    """None: the client has ended. Raises TimeoutError."""
    async with asyncio.timeout(SILENT_S):
        return await anext(requests, None)


async def _sound(requests: _Requests) -> AsyncIterator[pb.AudioWithEmotion]:
    """Up to the end of the audio, which need not be that of the stream."""
    while (request := await _next(requests)) is not None:
        kind = request.WhichOneof("stream_part")
        if kind == "end_of_audio":
            return
        if kind != "audio_with_emotion":
            raise InvalidInputError("after the header only audio_with_emotion may follow")
        yield request.audio_with_emotion


def _checked_rate(header: pb.AudioHeader) -> int:
    if header.audio_format != pb.AudioHeader.AUDIO_FORMAT_PCM or header.bits_per_sample != 16:
        raise InvalidInputError("audio_header: PCM of 16 bits is wanted")
    if header.channel_count != 1:
        raise InvalidInputError(f"channel_count: {header.channel_count}; mono is wanted")
    return check_sample_rate(header.samples_per_second)


def _header(asked: pb.AudioStreamHeader) -> pb.AnimationDataStream:
    header = pb.AnimationDataStreamHeader(
        audio_header=asked.audio_header, start_time_code_since_epoch=time.time()
    )
    header.skel_animation_header.blend_shapes.extend(APPLE_NAMES)
    return pb.AnimationDataStream(animation_data_stream_header=header)
