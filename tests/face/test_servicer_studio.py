"""The service with the product's own avatar, renderer, encoders and network."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import av
import grpc
import numpy as np
import pytest

from services.face.servicer import FaceService
from services.face.settings import FaceSettings
from tests.face.test_animator import mel_chunks
from visavis.serving.interceptor import ErrorInterceptor
from visavis.v1 import face_pb2, face_pb2_grpc, media_pb2

Stub = face_pb2_grpc.FaceAnimationStub
WORD = [("sil", 0.2), ("M", 0.1), ("AA1", 0.2), ("M", 0.1), ("sil", 0.2)]


@contextlib.asynccontextmanager
async def serving(avatar_dir: Path) -> AsyncIterator[Stub]:
    settings: dict[str, Any] = {"avatar_dir": avatar_dir, "lanes": 1}
    service = FaceService(FaceSettings(**settings), None, "face-test")
    server = grpc.aio.server(interceptors=[ErrorInterceptor()])
    service.register(server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    await service.load()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield Stub(channel)
    await server.stop(0)
    await service.close()


def decoded(codec: str, packets: list[bytes]) -> list[np.ndarray]:
    context = av.VideoCodecContext.create(codec, "r")
    assert isinstance(context, av.VideoCodecContext)
    frames = [frame for packet in packets for frame in context.decode(av.Packet(packet))]
    frames += context.decode(None)
    return [frame.to_ndarray(format="gray") for frame in frames]


@pytest.mark.parametrize(("codec", "name"), [(media_pb2.H264, "h264"), (media_pb2.VP8, "vp8")])
async def test_animate_gives_video_that_decodes_and_moves_the_mouth(
    tmp_path: Path, codec: media_pb2.VideoCodec, name: str
) -> None:
    config = face_pb2.AnimateRequest(config=face_pb2.FaceConfig(seed=1, codecs=[codec]))
    mel = [face_pb2.AnimateRequest(mel=chunk.to_message()) for chunk in mel_chunks(WORD)]
    async with serving(tmp_path) as stub:
        answers = [answer.video async for answer in stub.Animate(iter([config, *mel]))]
    pictures = decoded(name, [answer.data for answer in answers])
    assert len(pictures) == len(answers) == 20
    assert pictures[0].shape == (answers[0].height, answers[0].width)
    lower_half = [picture[len(picture) // 2 :].astype(float) for picture in pictures]
    opened = np.abs(lower_half[10] - lower_half[1]).mean()
    still = np.abs(lower_half[2] - lower_half[1]).mean()
    assert opened > 3 * still


async def test_the_default_avatar_ships_and_stays(tmp_path: Path) -> None:
    async with serving(tmp_path) as stub:
        listed = (await stub.ListAvatars(face_pb2.ListAvatarsRequest())).avatars
        assert listed[0].builtin and listed[0].licence
        assert listed[0].portrait_jpeg.startswith(b"\xff\xd8")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.DeleteAvatar(face_pb2.DeleteAvatarRequest(name=listed[0].name))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_file_that_is_no_picture_is_refused(
    tmp_path: Path, bundle: Callable[[str], Path]
) -> None:
    bundle("face-landmarks")
    async with serving(tmp_path) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            request = face_pb2.CreateAvatarRequest(name="me", image=b"PK\x03\x04 not a picture")
            await stub.CreateAvatar(request)
        listed = (await stub.ListAvatars(face_pb2.ListAvatarsRequest())).avatars
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "me" not in [avatar.name for avatar in listed]
