"""Avatars of users reach every replica and outlive each one's disk, where the bus keeps things."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from nats.js.object_store import ObjectStore

from services.face.avatar.packing import new_mark
from tests.conftest import connected, server_with_users
from tests.face.engines.made_head import bundle_files, zipped
from tests.face.portraits import DEFAULT_FOLDER
from tests.face.test_servicer_studio import Stub, serving
from tests.full_disk import limited_files
from tests.gateway.conftest import until
from visavis.tools.stack.nats_server import NatsServer
from visavis.v1 import face_pb2
from visavis.wire.bucket import Bucket, digest_of, make_buckets
from visavis.wire.bus import Bus
from visavis.wire.permissions import BUCKETS, User
from visavis.wire.subjects import AVATARS


@pytest.fixture(autouse=True)
def _trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process looks through bundles first, as through a stranger's: these are our own."""
    monkeypatch.setattr("services.face.engines.head.engine.check", lambda packed, limit_s: None)


@pytest.fixture
def keeping(tmp_path: Path) -> Iterator[NatsServer]:
    with server_with_users(tmp_path) as server:
        yield server


@pytest.fixture
async def operator(keeping: NatsServer) -> AsyncIterator[Bus]:
    bus = await connected(keeping, User.OPERATOR)
    await make_buckets(bus, BUCKETS)
    yield bus
    await bus.close()


@pytest.fixture
async def keeping_bus(keeping: NatsServer, operator: Bus) -> AsyncIterator[Bus]:
    bus = await connected(keeping, User.FACE)
    yield bus
    await bus.close()


def made(folder: Path, name: str) -> None:
    shutil.copytree(DEFAULT_FOLDER, folder / name)


async def lose_disk(server: NatsServer, *connected: Bus) -> None:
    """It begins anew, with nothing."""
    await asyncio.to_thread(server.stop)
    assert server.process.storage is not None
    shutil.rmtree(server.process.storage)
    await asyncio.to_thread(server.start)
    await until(lambda: all(bus.connected for bus in connected))


async def names(stub: Stub) -> list[str]:
    listed = await stub.ListAvatars(face_pb2.ListAvatarsRequest())
    return [a.name for a in listed.avatars if a.engine == "warp" or not a.builtin]


async def test_what_one_replica_has_all_have_whatever_becomes_of_its_disk(
    tmp_path: Path, keeping_bus: Bus
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    made(ours, "ann")
    made(ours, "bob")
    async with serving(ours, bus=keeping_bus) as one, serving(theirs, bus=keeping_bus) as other:
        assert await names(other) == ["default", "ann", "bob"]
        shutil.rmtree(ours)
        asked = face_pb2.GetAvatarPortraitRequest(name="ann")
        portrait = (await other.GetAvatarPortrait(asked)).jpeg
        assert portrait == (DEFAULT_FOLDER / "portrait.jpg").read_bytes()
        assert await names(one) == ["default", "ann", "bob"]
        assert (ours / "ann" / "mesh.npz").read_bytes() == (
            DEFAULT_FOLDER / "mesh.npz"
        ).read_bytes()
        await one.DeleteAvatar(face_pb2.DeleteAvatarRequest(name="bob"))
        with pytest.raises(grpc.aio.AioRpcError) as gone:
            await other.GetAvatarPortrait(face_pb2.GetAvatarPortraitRequest(name="bob"))
        assert gone.value.code() is grpc.StatusCode.NOT_FOUND
        assert await names(other) == ["default", "ann"]
        await other.RenameAvatar(face_pb2.RenameAvatarRequest(name="ann", new_name="anna"))
        assert await names(one) == ["default", "anna"]
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await one.RenameAvatar(face_pb2.RenameAvatarRequest(name="default", new_name="eve"))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    async with serving(ours, bus=keeping_bus) as again:
        assert await names(again) == ["default", "anna"], "what was deleted has come back"


async def test_a_name_for_which_the_disk_has_no_room_is_refused_in_words(tmp_path: Path) -> None:
    made(tmp_path, "ann")
    async with serving(tmp_path) as one:
        with limited_files(1000), pytest.raises(grpc.aio.AioRpcError) as refused:
            await one.RenameAvatar(face_pb2.RenameAvatarRequest(name="ann", new_name="anna"))
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert refused.value.details() == "avatar 'anna' could not be kept: File too large"
        assert await names(one) == ["default", "ann"]


async def test_what_is_deleted_where_there_is_no_bus_does_not_come_back_from_it(
    tmp_path: Path, keeping_bus: Bus
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    made(ours, "ann")
    made(ours, "bob")
    async with serving(ours, bus=keeping_bus), serving(theirs, bus=keeping_bus) as other:
        assert await names(other) == ["default", "ann", "bob"]
        async with serving(ours) as alone:  # as the command line does
            await alone.DeleteAvatar(face_pb2.DeleteAvatarRequest(name="ann"))
            await alone.DeleteAvatar(face_pb2.DeleteAvatarRequest(name="bob"))
        made(ours, "bob")
        async with serving(ours, bus=keeping_bus) as again:
            assert await names(again) == ["default", "bob"]
        assert await names(other) == ["default", "bob"]
    assert not list(ours.glob(".deleted-*"))


async def test_of_two_that_met_under_one_name_the_shared_one_is_worn_and_the_other_kept(
    tmp_path: Path, keeping_bus: Bus
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    made(ours, "ann")
    made(theirs, "ann")
    about = theirs / "ann" / "avatar.toml"
    about.write_text(about.read_text().replace("licence = ", 'licence = "theirs" # '))
    async with serving(ours, bus=keeping_bus), serving(theirs, bus=keeping_bus) as other:
        listed = (await other.ListAvatars(face_pb2.ListAvatarsRequest())).avatars
    assert "ann" in [avatar.name for avatar in listed]
    assert "theirs" not in [avatar.licence for avatar in listed]
    [kept] = theirs.glob(".replaced-*-ann")  # nobody else runs on this loop
    assert "theirs" in (kept / "avatar.toml").read_text()


async def test_a_bus_that_lost_its_disk_has_them_again_from_any_replica(
    tmp_path: Path, keeping: NatsServer, operator: Bus, keeping_bus: Bus
) -> None:
    """What each has, and what it has got meanwhile; another one comes when neither is there."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    made(ours, "ann")
    async with serving(ours, bus=keeping_bus) as one, serving(theirs, bus=keeping_bus) as other:
        await lose_disk(keeping, keeping_bus, operator)
        assert await names(one) == ["default", "ann"], "until there are buckets, too"
        made(theirs, "bob")
        await make_buckets(operator, BUCKETS)
        assert await names(one) == ["default", "ann"]
        assert await names(other) == ["default", "ann", "bob"]
        assert await names(one) == ["default", "ann", "bob"]
    async with serving(tmp_path / "new", bus=keeping_bus) as new:
        assert await names(new) == ["default", "ann", "bob"]


async def test_one_that_is_damaged_in_the_store_keeps_none_of_the_others_away(
    tmp_path: Path, operator: Bus, keeping_bus: Bus
) -> None:
    """As where a face was killed, and its disk lost, while it deleted one."""
    made(tmp_path / "ours", "ann")
    made(tmp_path / "ours", "bob")
    async with serving(tmp_path / "ours", bus=keeping_bus) as one:
        assert await names(one) == ["default", "ann", "bob"]
    js, stream = operator.client.jetstream(), f"OBJ_{AVATARS}"
    about = await ObjectStore(AVATARS, stream, js).get_info("ann")
    await js.purge_stream(stream, subject=f"$O.{AVATARS}.C.{about.nuid}")
    async with serving(tmp_path / "new", bus=keeping_bus) as new:
        assert await names(new) == ["default", "bob"]
        asked = face_pb2.CreateAvatarRequest(name="ann", image=zipped(bundle_files()))
        assert (await new.CreateAvatar(asked)).name == "ann"


@pytest.mark.parametrize("first", ["who deleted it", "who was away"])
async def test_what_was_deleted_stays_so_though_the_bus_has_forgotten_it(
    first: str,
    tmp_path: Path,
    keeping: NatsServer,
    operator: Bus,
    keeping_bus: Bus,
) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for name in ("ann", "bob"):
        made(ours, name)
        (ours / name / ".mark").write_text(new_mark())  # what has none is not buried
    async with serving(ours, bus=keeping_bus) as one:
        async with serving(theirs, bus=keeping_bus) as other:
            assert await names(other) == ["default", "ann", "bob"]
        await one.RenameAvatar(face_pb2.RenameAvatarRequest(name="bob", new_name="eve"))
        await one.RenameAvatar(face_pb2.RenameAvatarRequest(name="eve", new_name="bob"))
        await one.DeleteAvatar(face_pb2.DeleteAvatarRequest(name="ann"))
        await lose_disk(keeping, keeping_bus, operator)
        await make_buckets(operator, BUCKETS)
        if first == "who deleted it":
            assert await names(one) == ["default", "bob"]
        async with serving(theirs, bus=keeping_bus) as other:
            await names(other)  # comes first, and can know of nothing
            assert await names(one) == ["default", "bob"]
            assert await names(other) == ["default", "bob"]
            assert not list(theirs.glob("*ann*"))
            asked = face_pb2.CreateAvatarRequest(name="ann", image=zipped(bundle_files()))
            await other.CreateAvatar(asked)
            assert await names(one) == ["default", "bob", "ann"], "another one of that name"


async def test_whoever_leaves_while_his_avatar_is_shared_has_made_none(
    tmp_path: Path, keeping_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = face_pb2.CreateAvatarRequest(name="balls", image=zipped(bundle_files()))
    sharing = asyncio.Event()

    async def slowly(*_: object, **__: object) -> str:
        sharing.set()
        await asyncio.Event().wait()
        return ""

    async with serving(tmp_path, bus=keeping_bus) as stub:
        with monkeypatch.context() as slow:
            slow.setattr(Bucket, "put", slowly)
            leaving = stub.CreateAvatar(asked)
            await sharing.wait()
            assert (tmp_path / "balls").exists()
            leaving.cancel()
            await until(lambda: not (tmp_path / "balls").exists())
        assert (await stub.CreateAvatar(asked)).name == "balls"


async def test_of_two_who_make_one_of_the_same_name_at_once_one_is_told_so(
    tmp_path: Path, keeping_bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = bundle_files()
    both = asyncio.Barrier(2)
    put = Bucket.put

    async def side_by_side(*told: Any, **how: Any) -> str:
        await both.wait()
        return await put(*told, **how)

    def made_by(who: str) -> face_pb2.CreateAvatarRequest:
        about = files["head.toml"].replace(b"licence = ", f'licence = "{who}" # '.encode())
        packed = zipped({**files, "head.toml": about})
        return face_pb2.CreateAvatarRequest(name="balls", image=packed)

    async def worn(stub: Stub) -> list[str]:
        listed = await stub.ListAvatars(face_pb2.ListAvatarsRequest())
        return [avatar.licence for avatar in listed.avatars if avatar.name == "balls"]

    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    async with serving(ours, bus=keeping_bus) as one, serving(theirs, bus=keeping_bus) as other:
        with monkeypatch.context() as race:
            race.setattr(Bucket, "put", side_by_side)
            making = [one.CreateAvatar(made_by("one")), other.CreateAvatar(made_by("other"))]
            ended = await asyncio.gather(*making, return_exceptions=True)
        [refused] = [end for end in ended if isinstance(end, grpc.aio.AioRpcError)]
        assert refused.code() is grpc.StatusCode.ALREADY_EXISTS
        [kept] = [end.licence for end in ended if isinstance(end, face_pb2.Avatar)]
        assert await worn(one) == await worn(other) == [kept]


async def test_what_was_deleted_long_ago_is_not_asked_for_each_time(
    tmp_path: Path, keeping_bus: Bus
) -> None:
    bucket = Bucket(keeping_bus, AVATARS, 1)
    for number in range(100):
        await bucket.bury(digest_of(bytes([number])))
    made(tmp_path, "ann")
    async with serving(tmp_path, bus=keeping_bus) as stub:
        assert await names(stub) == ["default", "ann"]
        asked = keeping_bus.client.stats["out_msgs"]
        assert await names(stub) == ["default", "ann"]
        assert keeping_bus.client.stats["out_msgs"] - asked < 10


async def test_without_a_bus_that_keeps_things_avatars_stay_where_they_are(
    tmp_path: Path, bus: Bus, caplog: pytest.LogCaptureFixture
) -> None:
    made(tmp_path, "ann")
    async with serving(tmp_path, bus=bus) as stub:
        assert await names(stub) == ["default", "ann"]
        await stub.DeleteAvatar(face_pb2.DeleteAvatarRequest(name="ann"))
        assert await names(stub) == ["default"]
    assert caplog.text.count("this machine's disk alone") == 1
    assert "no JetStream (-js)" in caplog.text
