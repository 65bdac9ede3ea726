"""Audio2Face-3D's protocol over real gRPC, with a studio that costs nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
import numpy as np
import pytest

from services.face.audio2face.weights import Adjustment, style_of
from services.face.servicer import FaceService
from services.face.settings import FaceSettings
from tests.face.fake_studio import fake_studio
from tests.face.serving import tone
from tests.serving.grpc_server import served
from visavis.arkit import APPLE_NAMES, ARKIT_NAMES, IN_APPLES_ORDER
from visavis.serving.errors import InvalidInputError
from visavis.v1 import audio2face_pb2 as pb
from visavis.v1 import audio2face_pb2_grpc

Code = grpc.StatusCode
JAW = APPLE_NAMES.index("JawOpen")
MONO = {"channel_count": 1, "samples_per_second": 16_000, "bits_per_sample": 16}


@contextlib.asynccontextmanager
async def serving(**settings: Any) -> AsyncIterator[Any]:
    chosen = FaceSettings(**{"admission": "slots", **settings})
    service = FaceService(chosen, None, "face-test", studio=fake_studio(chosen))
    name = "nvidia_ace.services.a2f_controller.v1.A2FControllerService"
    async with served(service, name) as channel:
        yield audio2face_pb2_grpc.A2FControllerServiceStub(channel)


def header(audio: dict[str, Any] = MONO, **more: Any) -> Any:
    told = pb.AudioStreamHeader(audio_header=pb.AudioHeader(**audio), **more)
    return pb.AudioStream(audio_stream_header=told)


def clip(pcm: np.ndarray, n_samples: int = 16_000, *, end: bool = True) -> list[Any]:
    """A second in each message, as NVIDIA's own client has it."""
    parts = [
        pb.AudioStream(
            audio_with_emotion=pb.AudioWithEmotion(audio_buffer=pcm[i : i + n_samples].tobytes())
        )
        for i in range(0, len(pcm), n_samples)
    ]
    return [*parts, pb.AudioStream(end_of_audio={})] if end else parts


async def answers(stub: Any, *requests: Any) -> list[Any]:
    async with asyncio.timeout(30):
        return [answer async for answer in stub.ProcessAudioStream(iter(requests))]


def weights_of(out: list[Any]) -> np.ndarray:
    """[frames, 52] of a whole answer."""
    data = [a.animation_data for a in out if a.HasField("animation_data")]
    return np.array([d.skel_animation.blend_shape_weights[0].values for d in data])


async def test_a_clip_is_answered_with_header_frames_event_and_status() -> None:
    pcm = np.concatenate([np.zeros(16_000, np.int16), tone(1.0), np.zeros(17_000, np.int16)])
    async with serving() as stub:
        out = await answers(stub, header(), *clip(pcm))
    kinds = [answer.WhichOneof("stream_part") for answer in out]
    frames = round(len(pcm) / 16_000 * 30)
    assert abs(kinds.count("animation_data") - frames) <= 1
    assert kinds[0] == "animation_data_stream_header" and kinds[-2:] == ["event", "status"]
    assert set(kinds[1:-2]) == {"animation_data"}
    assert out[-1].status.code == pb.Status.SUCCESS
    told = out[0].animation_data_stream_header
    assert tuple(told.skel_animation_header.blend_shapes) == APPLE_NAMES
    assert told.audio_header.samples_per_second == 16_000
    data = [answer.animation_data for answer in out[1:-2]]
    times = [d.skel_animation.blend_shape_weights[0].time_code for d in data]
    assert times[0] == 0 and np.allclose(np.diff(times), 1 / 30)
    assert [d.audio.time_code for d in data] == times
    assert b"".join(d.audio.audio_buffer for d in data) == pcm.tobytes()
    assert {len(d.audio.audio_buffer) for d in data[:-1]} <= {1066, 1068}, "a thirtieth each"
    jaw = weights_of(out)[:, JAW]
    assert jaw[38:55].min() > 0.1 and jaw[:24].max() < 0.05 and jaw[-15:].max() < 0.05


async def test_frames_come_while_sound_does_and_the_end_is_not_that_of_the_stream() -> None:
    async with serving() as stub, asyncio.timeout(30):
        call = stub.ProcessAudioStream()
        await call.write(header())
        for request in clip(tone(2.0), end=False):
            await call.write(request)
        told = [await call.read() for _ in range(20)]
        assert told[-1].HasField("animation_data")
        await call.write(pb.AudioStream(end_of_audio={}))  # and the stream stays open
        while not (last := await call.read()).HasField("status"):
            pass
        assert last.status.code == pb.Status.SUCCESS
        assert await call.code() is Code.OK


async def test_the_client_changes_weights_as_it_likes() -> None:
    sound = clip(tone(1.0))
    changed = {
        "bs_weight_multipliers": {"JawOpen": 0.0, "TongueRollUp": 3.0},
        "bs_weight_offsets": {"CheekPuff": 1.5, "BrowInnerUp": -2.0},
    }
    async with serving() as stub:
        plain = weights_of(await answers(stub, header(blendshape_params=changed), *sound))
        changed["enable_clamping_bs_weight"] = True  # type: ignore[assignment]
        cut = weights_of(await answers(stub, header(blendshape_params=changed), *sound))
    puff, brow = APPLE_NAMES.index("CheekPuff"), APPLE_NAMES.index("BrowInnerUp")
    assert not plain[:, JAW].any() and (plain[:, puff] == 1.5).all() and plain[:, brow].max() < 0
    assert (cut[:, puff] == 1.0).all() and cut.min() == 0.0


async def test_an_emotion_is_seen() -> None:
    smile = APPLE_NAMES.index("MouthSmileLeft")
    silence = clip(np.zeros(48_000, np.int16))
    joy = {"beginning_emotion": {"joy": 1.0, "anger": 0.1}}
    async with serving() as stub:
        plain = weights_of(await answers(stub, header(), *silence))[-30:, smile].mean()
        happy = weights_of(await answers(stub, header(emotion_params=joy), *silence))
    assert happy[-30:, smile].mean() > plain + 0.1


STEREO = {**MONO, "channel_count": 2}
ODD = pb.AudioStream(audio_with_emotion=pb.AudioWithEmotion(audio_buffer=b"abc"))
FELT = pb.AudioWithEmotion(audio_buffer=b"", emotions=[{"emotion": {"boredom": 1.0}}])


@pytest.mark.parametrize(
    ("requests", "word"),
    [
        ([], "audio_stream_header"),
        (clip(tone(0.1)), "audio_stream_header"),
        ([header(STEREO), *clip(tone(0.1))], "mono"),
        ([header({**MONO, "bits_per_sample": 32})], "16 bits"),
        ([header({**MONO, "samples_per_second": 4000})], "4000"),
        ([header(), header()], "audio_with_emotion"),
        ([header(), ODD], "16 bits"),
        ([header(), pb.AudioStream(end_of_audio={})], "no sound"),
        ([header(), *clip(np.zeros(16_000 * 11, np.int16), 16_000 * 11)], "10 s"),
        ([header(), pb.AudioStream(audio_with_emotion=FELT)], "boredom"),
        ([header(blendshape_params={"bs_weight_offsets": {"JawOpen": float("nan")}})], "JawOpen"),
    ],
)
async def test_what_cannot_be_done_is_refused(requests: list[Any], word: str) -> None:
    async with serving() as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await answers(stub, *requests)
    assert caught.value.code() is Code.INVALID_ARGUMENT
    assert word in (caught.value.details() or "")


async def test_ten_clips_at_once_and_no_more_than_there_is_room_for() -> None:
    pcm = tone(1.0)
    async with serving(slots=2) as stub, asyncio.timeout(30):
        many = await asyncio.gather(*(answers(stub, header(), *clip(pcm)) for _ in range(10)))
        assert {len(weights_of(out)) for out in many} == {30}
        open_ones = [stub.ProcessAudioStream() for _ in range(16)]
        for call in open_ones:
            await call.write(header())
            assert (await call.read()).HasField("animation_data_stream_header")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await answers(stub, header(), *clip(pcm))
        assert caught.value.code() is Code.RESOURCE_EXHAUSTED
        for call in open_ones:
            call.cancel()


def test_both_orders_name_the_same_shapes() -> None:
    assert len(set(APPLE_NAMES)) == len(set(ARKIT_NAMES)) == 52
    assert sorted(IN_APPLES_ORDER) == list(range(52))
    ours = np.zeros(52, np.float32)
    ours[ARKIT_NAMES.index("mouthLeft")] = 0.7
    moved = Adjustment({}, {}, clamp=False).applied(ours)
    assert APPLE_NAMES[int(moved.argmax())] == "MouthLeft"
    assert APPLE_NAMES[0] == "EyeBlinkLeft" and APPLE_NAMES[14:18][-1] == "JawOpen"


def test_the_strongest_emotion_counts() -> None:
    assert style_of({}) == style_of({"joy": 0.1}) == "neutral"
    assert style_of({"joy": 0.4, "grief": 0.6}) == "sad"
    with pytest.raises(InvalidInputError, match="joy"):
        style_of({"joy": 1.2})
