"""A face service over real gRPC with a studio that costs nothing, and what clients send it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import grpc
import numpy as np
import pytest

from services.face.engines.base import FaceEngine
from services.face.servicer import FaceService
from services.face.settings import FaceSettings
from services.face.studio import Studio, VideoStream
from tests.face.draw.test_animator import HOP, RATE
from tests.face.fake_studio import FakeGallery, fake_studio
from tests.serving.grpc_server import served
from visavis.v1 import face_pb2, face_pb2_grpc, media_pb2
from visavis.wire.bus import Bus, Subscription
from visavis.wire.media import ClockChunk, MelChunk, PcmChunk, Place, VideoChunk
from visavis.wire.subjects import Kind

Stub = face_pb2_grpc.FaceAnimationStub
H264, VP8, BLENDSHAPES = media_pb2.H264, media_pb2.VP8, media_pb2.BLENDSHAPES
VOICE_SOURCE = face_pb2.FaceConfig.SOURCE_VOICE


@contextlib.asynccontextmanager
async def serving(
    bus: Bus | None = None,
    gallery: FakeGallery | None = None,
    **settings: Any,
) -> AsyncIterator[Stub]:
    chosen = FaceSettings(**{"admission": "slots", **settings})
    studio = fake_studio(chosen, gallery)
    service = FaceService(chosen, bus, "face-test", studio=studio)
    async with served(service, "visavis.v1.FaceAnimation") as channel:
        yield Stub(channel)


@contextlib.asynccontextmanager
async def drawn_by(engine: FaceEngine, bus: Bus | None = None) -> AsyncIterator[Stub]:
    """A service that draws with this engine, and encodes and hears as the product does."""
    chosen = FaceSettings(lanes=1)
    studio = Studio(chosen, engine, partial(VideoStream, bitrate=4_000_000))
    service = FaceService(chosen, bus, "face-test", studio=studio)
    async with served(service, "visavis.v1.FaceAnimation") as channel:
        yield Stub(channel)


@contextlib.asynccontextmanager
async def attached(stub: Stub, session: str, **face: Any) -> AsyncIterator[Any]:
    call = stub.Attach()
    config = face_pb2.FaceConfig(**{"seed": 1, **face})
    await call.write(
        face_pb2.FaceAttachRequest(config=face_pb2.FaceAttachConfig(session=session, face=config))
    )
    assert (await call.read()).ready.instance == "face-test"
    yield call
    call.cancel()


async def frames(video: Subscription, until: Any, *, within_s: float = 30.0) -> list[VideoChunk]:
    """Chunks up to the first one for which `until` holds."""
    seen: list[VideoChunk] = []
    async with asyncio.timeout(within_s):
        async for chunk in video:
            assert isinstance(chunk, VideoChunk)
            seen.append(chunk)
            if until(chunk):
                break
    return seen


async def say(bus: Bus, session: str, turn: int, chunks: list[MelChunk]) -> None:
    for seq, chunk in enumerate(chunks):
        place = Place(session, turn, seq, chunk.place.pts, chunk.place.last)
        await bus.publish(
            Kind.MEL, MelChunk(place, chunk.sample_rate_hz, HOP, chunk.mel, chunk.phonemes)
        )


async def clock(bus: Bus, session: str, turn: int, played_s: float) -> None:
    place = Place(session, turn, 0, round(played_s * RATE))
    await bus.publish(Kind.CLOCK, ClockChunk(place, RATE))


async def play(bus: Bus, video: Subscription) -> list[VideoChunk]:
    """Chunks up to the turn's last, while the clock follows what is spoken."""
    seen: list[VideoChunk] = []
    async with asyncio.timeout(30):
        async for chunk in video:
            assert isinstance(chunk, VideoChunk)
            seen.append(chunk)
            if chunk.place.last:
                break
            if not chunk.live:
                place = chunk.place
                await clock(bus, place.session, place.turn, place.pts / 25)
    return seen


async def failing(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        async with asyncio.timeout(30):
            await call
    return caught.value


async def answers(call: Any) -> list[Any]:
    async with asyncio.timeout(120):  # a loop has as many pictures as take a busy machine a minute
        return [answer async for answer in call]


STATED = face_pb2.Consent(
    likeness="Ann Lee", agreed_to="to greet visitors", stated_by="Bo", stated_via="a test"
)


def creation(name: str, image: bytes) -> face_pb2.CreateAvatarRequest:
    """Of a photograph, with what its sitter has agreed to."""
    return face_pb2.CreateAvatarRequest(name=name, image=image, consent=STATED)


def animate_config(**fields: Any) -> face_pb2.AnimateRequest:
    return face_pb2.AnimateRequest(config=face_pb2.FaceConfig(**fields))


def mel_request(chunk: MelChunk) -> face_pb2.AnimateRequest:
    return face_pb2.AnimateRequest(mel=chunk.to_message())


def tone(seconds: float) -> np.ndarray:
    samples = np.arange(round(seconds * 16_000))
    return (12_000 * np.sin(2 * np.pi * 220 * samples / 16_000)).astype(np.int16)


def voice_requests(
    pcm: np.ndarray, *, last: bool = True, piece: int = 3200
) -> list[face_pb2.AnimateRequest]:
    pieces = [pcm[i : i + piece] for i in range(0, len(pcm), piece)]
    chunks = [
        PcmChunk(Place("", 0, i, i * piece, last and i == len(pieces) - 1), 16_000, samples)
        for i, samples in enumerate(pieces)
    ]
    return [face_pb2.AnimateRequest(voice=chunk.to_message()) for chunk in chunks]
