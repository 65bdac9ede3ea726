"""The service with the product's own avatar, renderer, encoders and network."""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import av
import cv2
import grpc
import numpy as np
import psutil
import pytest

from services.face.avatar.store import LOOPS
from services.face.draw.pictures import Encoded
from services.face.kept_loops import KeptLoops
from services.face.servicer import FaceService
from services.face.settings import FaceSettings
from services.face.studio import open_studio
from tests.face.draw.test_animator import mel_chunks
from tests.face.portraits import DEFAULT_FOLDER, encoded, portrait
from tests.face.serving import creation
from tests.fakes import MetricGrowth
from tests.full_disk import limited_files
from tests.gateway.conftest import until
from tests.serving.grpc_server import served
from visavis.serving.errors import InvalidInputError, SettingsError, UnknownNameError
from visavis.v1 import face_pb2, face_pb2_grpc, media_pb2
from visavis.wire.bus import Bus
from visavis.wire.media import VideoCodec

Stub = face_pb2_grpc.FaceAnimationStub
WORD = [("sil", 0.2), ("M", 0.1), ("AA1", 0.2), ("M", 0.1), ("sil", 0.2)]


@contextlib.asynccontextmanager
async def serving(avatar_dir: Path, bus: Bus | None = None, **wanted: Any) -> AsyncIterator[Stub]:
    settings: dict[str, Any] = {"avatar_dir": avatar_dir, "lanes": 1, **wanted}
    service = FaceService(FaceSettings(**{"admission": "slots", **settings}), bus, "face-test")
    async with served(service, "visavis.v1.FaceAnimation") as channel:
        yield Stub(channel)


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


def fill(folder: Path, count: int) -> list[str]:
    """So many avatars, as if they had been made. Their meshes are not readable."""
    names = [f"guest-{i:02}" for i in range(count)]
    for name in names:
        made = folder / name
        made.mkdir(parents=True)
        for file in ("avatar.toml", "portrait.jpg"):
            (made / file).write_bytes((DEFAULT_FOLDER / file).read_bytes())
        (made / "mesh.npz").write_bytes(b"not looked at")
    return names


async def test_any_number_of_avatars_is_listed_from_their_records(tmp_path: Path) -> None:
    names = fill(tmp_path, 40)
    async with serving(tmp_path) as stub:
        answer = await stub.ListAvatars(face_pb2.ListAvatarsRequest())
        asked = face_pb2.GetAvatarPortraitRequest(name=names[-1])
        portrait_ = await stub.GetAvatarPortrait(asked)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.GetAvatarPortrait(face_pb2.GetAvatarPortraitRequest(name="nobody"))
        with pytest.raises(grpc.aio.AioRpcError) as stays:
            await stub.DeleteAvatar(face_pb2.DeleteAvatarRequest(name="default"))
    photos = [avatar for avatar in answer.avatars if avatar.engine == "warp"]
    assert [avatar.name for avatar in photos] == ["default", *names]
    assert {(avatar.width, avatar.builtin) for avatar in photos[1:]} == {(512, False)}
    assert answer.ByteSize() < 10_000
    assert portrait_.jpeg == (DEFAULT_FOLDER / "portrait.jpg").read_bytes()
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    assert stays.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert photos[0].builtin and photos[0].licence


async def test_there_is_a_most_of_avatars(tmp_path: Path) -> None:
    fill(tmp_path, 2)
    async with serving(tmp_path, max_avatars=2) as stub:
        error = await refused(stub, encoded(portrait()))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "2 are allowed: delete one first, or raise the face's max_avatars" in said(error)


async def test_a_slow_upload_holds_up_nobody_and_ends_with_its_client(
    tmp_path: Path, bundle: Callable[[str], Path]
) -> None:
    bundle("face-landmarks")
    good = encoded(portrait())
    async with serving(tmp_path) as stub:
        error = await refused(stub, b"PK\x03\x04 not a picture")
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert await photographs(stub) == {"default": True}
        slow = stub.CreateAvatar(creation("slow", good))
        decoder = await until(decoders)
        decoder.suspend()
        made = await stub.CreateAvatar(creation("good", good))
        assert made.name == "good" and not slow.done()
        slow.cancel()
        await until(lambda: not decoder.is_running())
        assert await photographs(stub) == {"default": True, "good": False}
        asked = face_pb2.GetAvatarPortraitRequest(name="good")
        assert (await stub.GetAvatarPortrait(asked)).jpeg.startswith(b"\xff\xd8")
        loop = stub.RenderLoop(face_pb2.RenderLoopRequest(avatar="good", codec=media_pb2.H264))
        assert (await loop.read()).loop.width == made.width
        loop.cancel()
        again = await refused(stub, good, "good")
        assert again.code() is grpc.StatusCode.ALREADY_EXISTS
        await stub.DeleteAvatar(face_pb2.DeleteAvatarRequest(name="good"))
        assert await photographs(stub) == {"default": True}


async def photographs(stub: Stub) -> dict[str, bool]:
    """Whether each ships, by its name."""
    listed = (await stub.ListAvatars(face_pb2.ListAvatarsRequest())).avatars
    return {avatar.name: avatar.builtin for avatar in listed if avatar.engine == "warp"}


def decoders() -> psutil.Process | None:
    """A process that decodes an upload."""
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if "services.face.avatar.making.decode_process" in child.cmdline():
                return child
    return None


async def refused(stub: Stub, image: bytes, name: str = "me") -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.CreateAvatar(creation(name, image))
    return caught.value


def said(error: grpc.aio.AioRpcError) -> str:
    return str(error.details())


async def test_a_loop_that_was_broken_off_goes_on_where_it_was(tmp_path: Path) -> None:
    request = face_pb2.RenderLoopRequest(codec=media_pb2.H264)
    folder = tmp_path / ".loops" / "default"
    async with serving(tmp_path, idle_life_s=6) as stub:
        gone = stub.RenderLoop(request)
        for _ in range(3):  # what is told of it, and two seconds
            await gone.read()
        gone.cancel()
        await until(lambda: folder.exists() and [*folder.glob("*.h264-resting")])
        drawn, kept = (MetricGrowth("face_frames_total", mode=mode) for mode in ("loop", "kept"))
        packets = [
            picture.data
            async for answer in stub.RenderLoop(request)
            for picture in answer.pictures.pictures
        ]
    assert kept.value >= 49
    assert drawn.value + kept.value == len(packets) == 150
    pictures = decoded("h264", packets)
    assert len(pictures) == 150
    steps = [cv2.PSNR(one, other) for one, other in itertools.pairwise(pictures)]
    assert min(steps) > 30, "nothing jumps where it goes on"


def loops_below(folder: Path) -> list[Path]:
    return [*folder.glob("**/*resting")]


@pytest.mark.parametrize("taken", [False, True], ids=["gone", "anothers_name"])
async def test_of_a_face_that_was_deleted_no_part_of_a_loop_is_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, taken: bool
) -> None:
    shutil.copytree(Path(__file__).parent / "astronaut", tmp_path / "ann")
    studio = open_studio(FaceSettings(avatar_dir=tmp_path, lanes=1, idle_life_s=6))
    pictures = studio.loop("ann", VideoCodec.H264, fps=25, busy=lambda: False)
    for _ in range(30):
        await anext(pictures)
    await studio.delete("ann")
    if taken:
        shutil.copytree(DEFAULT_FOLDER, tmp_path / "ann")
    await pictures.aclose()
    await studio.close()
    assert not loops_below(tmp_path)
    assert not caplog.records, "and no disk is said to fail"


async def test_the_avatar_that_the_settings_name_keeps_its_name_and_stays(tmp_path: Path) -> None:
    shutil.copytree(Path(__file__).parent / "astronaut", tmp_path / "ann")
    studio = open_studio(FaceSettings(avatar_dir=tmp_path, lanes=1, avatar="ann"))
    with pytest.raises(InvalidInputError, match="start the face with another one"):
        await studio.delete("ann")
    with pytest.raises(InvalidInputError, match="start the face with another one"):
        await studio.rename("ann", "bo")
    assert [avatar.name for avatar in await studio.avatars()][:2] == ["ann", "default"]
    shutil.rmtree(tmp_path / "ann")
    codecs = [VideoCodec.H264]
    for name in ("", "default"):
        pictures = await studio.pictures(name, fps=25, codecs=codecs, blendshapes=False)
        await pictures.close()
    with pytest.raises(UnknownNameError):
        await studio.pictures("ann", fps=25, codecs=codecs, blendshapes=False)
    with pytest.raises(SettingsError, match="avatar: no avatar 'ann'; there are: default"):
        await studio.load()
    await studio.close()


async def test_a_renamed_avatar_keeps_its_loops(tmp_path: Path) -> None:
    shutil.copytree(Path(__file__).parent / "astronaut", tmp_path / "ann")
    loop = tmp_path / "ann" / LOOPS / "0.h264-resting"
    loop.parent.mkdir()
    loop.write_bytes(b"drawn")
    studio = open_studio(FaceSettings(avatar_dir=tmp_path, lanes=1))
    await studio.rename("ann", "bo")
    await studio.close()
    assert loops_below(tmp_path) == [tmp_path / "bo" / LOOPS / loop.name]


def test_of_two_processes_that_draw_a_loop_the_longer_part_is_kept(tmp_path: Path) -> None:
    loops, file = KeptLoops(tmp_path, 1_000), tmp_path / "default" / "0.h264-resting"
    one, other, third = (Encoded(bytes([k]), keyframe=True) for k in range(3))
    loops.keep(file, [one, other])
    loops.keep(file, [one])
    assert loops.read(file) == [one, other]
    loops.keep(file, [third])
    assert loops.read(file) == [third], "another version draws it otherwise"


def test_where_a_disk_is_full_the_loops_that_were_kept_stay(tmp_path: Path) -> None:
    loops = KeptLoops(tmp_path, 5_000)
    longer = [Encoded(bytes(1_000), keyframe=True)] * 4
    files = [tmp_path / name / LOOPS / "0.h264-resting" for name in ("ann", "bo")]
    for file in files:
        file.parent.mkdir(parents=True)
        loops.keep(file, longer[:2])
    with limited_files(3_000):
        loops.keep(files[1], longer)
    assert [loops.read(file) for file in files] == [longer[:2], longer[:2]]
    loops.keep(files[1], longer)
    assert [loops.read(file) for file in files] == [[], longer], "the limit holds"
