"""Animate over real gRPC, with a studio that costs nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import numpy as np
import pytest

from tests.face.draw.test_animator import HOP, RATE, SENTENCE, SENTENCE_FRAMES, mel_chunks
from tests.face.serving import (
    H264,
    VOICE_SOURCE,
    VP8,
    animate_config,
    answers,
    mel_request,
    serving,
    tone,
    voice_requests,
)
from visavis.serving import lease
from visavis.v1 import face_pb2, media_pb2
from visavis.wire.media import MelChunk, Place

MEL_WITHOUT_PHONEMES = MelChunk(Place("", 0, 0, 0), RATE, HOP, np.zeros((40, 80), np.float32))


async def test_animate_gives_a_frame_for_each_25th_of_a_second() -> None:
    requests = [animate_config(seed=1), *map(mel_request, mel_chunks(SENTENCE))]
    async with serving() as stub:
        out = await answers(stub.Animate(iter(requests)))
    video = [answer.video for answer in out]
    assert [v.header.pts for v in video] == list(range(SENTENCE_FRAMES))
    assert [v.header.last for v in video] == [False] * (SENTENCE_FRAMES - 1) + [True]
    assert all(v.codec == H264 and v.fps == 25 and not v.live for v in video)
    assert video[0].keyframe and not any(v.keyframe for v in video[1:])
    assert max(v.data[2] for v in video) > 60 and max(v.data[3] for v in video) == 255


async def test_animate_starts_before_all_is_sent() -> None:
    chunks = mel_chunks(SENTENCE)
    async with serving() as stub:
        call = stub.Animate()
        await call.write(animate_config())
        await call.write(mel_request(chunks[0]))
        async with asyncio.timeout(30):
            first = await call.read()
        assert first.video.header.pts == 0
        call.cancel()


async def test_animate_follows_the_voice_alone() -> None:
    pcm = np.concatenate([np.zeros(8000, np.int16), tone(0.5), np.zeros(8000, np.int16)])
    requests = [animate_config(source=VOICE_SOURCE), *voice_requests(pcm)]
    async with serving() as stub:
        out = await answers(stub.Animate(iter(requests)))
    jaw = np.array([answer.video.data[2] for answer in out])
    assert len(jaw) == round(1.5 * 25)
    assert jaw[14:23].min() > 40 and jaw[:9].max() < 20 and jaw[-8:].max() < 20


@pytest.mark.parametrize("mel", [[MEL_WITHOUT_PHONEMES], []], ids=["no_phonemes", "no_mel"])
async def test_animate_takes_the_voice_where_mel_does_not_tell(mel: list[MelChunk]) -> None:
    requests = [animate_config(), *voice_requests(tone(0.5), last=not mel), *map(mel_request, mel)]
    async with serving() as stub:
        out = await answers(stub.Animate(iter(requests)))
    assert len(out) == 13 and out[-1].video.header.last
    assert max(answer.video.data[2] for answer in out) > 40


async def test_animate_takes_all_of_a_voice_that_comes_before_its_mel() -> None:
    pcm = np.concatenate([np.zeros(3 * 16_000, np.int16), tone(1.0)])
    requests = [
        animate_config(),
        *voice_requests(pcm, last=False, piece=320),
        mel_request(MEL_WITHOUT_PHONEMES),
    ]
    async with serving() as stub:
        out = await answers(stub.Animate(iter(requests)))
    jaw = np.array([answer.video.data[2] for answer in out])
    assert len(jaw) == 4 * 25 and jaw[78:98].min() > 40 and jaw[:72].max() < 20


async def test_animate_ends_properly_without_a_last_chunk() -> None:
    chunks = mel_chunks(SENTENCE)[:3]
    async with serving() as stub:
        out = await answers(stub.Animate(iter([animate_config(), *map(mel_request, chunks)])))
    assert len(out) == 15 and out[-1].video.header.last


async def test_animate_gives_blendshapes_alone_or_with_every_codec() -> None:
    chunks = [mel_request(chunk) for chunk in mel_chunks(SENTENCE[:3])]
    async with serving() as stub:
        faces = await answers(stub.Animate(iter([animate_config(blendshapes=True), *chunks])))
        both = animate_config(blendshapes=True, codecs=[VP8, H264])
        mixed = await answers(stub.Animate(iter([both, *chunks])))
    assert {answer.WhichOneof("response") for answer in faces} == {"face"}
    assert len(faces[0].face.weights) == 52 and len(faces[0].face.head_rotation) == 3
    assert [answer.video.codec for answer in mixed[:3]] == [0, VP8, H264]
    assert len(mixed) == 3 * len(faces)


async def test_animate_is_repeatable_and_can_start_later() -> None:
    chunks = [mel_request(chunk) for chunk in mel_chunks(SENTENCE)]
    async with serving() as stub:

        async def motion(**fields: Any) -> list[Any]:
            config = animate_config(blendshapes=True, **fields)
            out = await answers(stub.Animate(iter([config, *chunks])))
            return [tuple(answer.face.head_rotation) for answer in out]

        whole = await motion(seed=5)
        assert whole == await motion(seed=5)
        assert whole != await motion(seed=6)
        assert whole != await motion(seed=5, start_frame=40)


@pytest.mark.parametrize(
    ("requests", "code", "words"),
    [
        ([], grpc.StatusCode.FAILED_PRECONDITION, "config"),
        (voice_requests(tone(0.1)), grpc.StatusCode.FAILED_PRECONDITION, "config"),
        ([animate_config()], grpc.StatusCode.INVALID_ARGUMENT, "nothing to animate"),
        (
            [animate_config(), mel_request(MEL_WITHOUT_PHONEMES)],
            grpc.StatusCode.INVALID_ARGUMENT,
            "no phonemes",
        ),
        ([animate_config(), animate_config()], grpc.StatusCode.FAILED_PRECONDITION, "only mel"),
        ([animate_config(avatar="nobody")], grpc.StatusCode.NOT_FOUND, "built-in"),
        (  # Who still sends hears it, too.
            [animate_config(avatar="nobody"), *voice_requests(tone(9.0))],
            grpc.StatusCode.NOT_FOUND,
            "built-in",
        ),
        ([animate_config(codecs=[0])], grpc.StatusCode.INVALID_ARGUMENT, "codecs"),
        (
            [animate_config(source=VOICE_SOURCE), mel_request(mel_chunks(SENTENCE)[0])],
            grpc.StatusCode.INVALID_ARGUMENT,
            "source",
        ),
        (
            [
                animate_config(source=VOICE_SOURCE),
                face_pb2.AnimateRequest(
                    voice=media_pb2.PcmChunk(sample_rate_hz=900, pcm_s16le=b"\0\0")
                ),
            ],
            grpc.StatusCode.INVALID_ARGUMENT,
            "sample_rate_hz",
        ),
        (
            [
                animate_config(source=VOICE_SOURCE),
                face_pb2.AnimateRequest(
                    voice=media_pb2.PcmChunk(sample_rate_hz=8000, pcm_s16le=bytes(16_002))
                ),
            ],
            grpc.StatusCode.INVALID_ARGUMENT,
            "more than 1 s",
        ),
    ],
)
async def test_animate_says_what_is_wrong(
    requests: list[Any], code: grpc.StatusCode, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "_HEAR_OUT_S", 20.0)  # all that is sent, on a busy machine too
    async with serving() as stub:
        call = stub.Animate(iter(requests))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await answers(call)
    assert caught.value.code() is code
    assert words in (caught.value.details() or "")
