"""A deleted avatar is deleted everywhere: two gateways, two real faces with a disk of each, and the
object store that they share.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio

from gateway.settings import GatewaySettings
from services.face.avatar.avatar import Avatar
from services.face.servicer import FaceService
from services.face.settings import FaceSettings
from tests.face.portraits import encoded, portrait
from tests.gateway.conftest import HERE, SETTINGS, RunningGateway
from tests.gateway.doubles import Doubles
from tests.gateway.visiting import collect
from tests.serving.grpc_server import served
from visavis.client import GatewayClient, GatewaySession
from visavis.serving.discovery import Registration
from visavis.tools.stack.nats_server import NatsServer
from visavis.v1 import face_pb2, face_pb2_grpc, media_pb2
from visavis.wire.bus import Bus

pytestmark = pytest.mark.asyncio(loop_scope="module")

SAID = {"likeness": "Ann Lee", "agreed_to": "to greet visitors"}


@dataclass(frozen=True)
class House:
    """What runs, and where it keeps things."""

    folder: Path
    gateways: list[RunningGateway]
    faces: list[face_pb2_grpc.FaceAnimationStub]

    def files_with(self, needle: bytes) -> list[str]:
        """Names of all files, on whatever disk, that hold these bytes, or are called so."""
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        text = needle.decode(errors="replace")
        return [str(path) for path in files if needle in path.read_bytes() or text in str(path)]


@contextlib.asynccontextmanager
async def face(folder: Path, bus: Bus) -> AsyncIterator[face_pb2_grpc.FaceAnimationStub]:
    """A replica, with a disk of its own, that gateways find."""
    instance = f"face-{folder.name}"
    service = FaceService(FaceSettings(avatar_dir=folder, lanes=1, idle_life_s=6), bus, instance)
    async with served(service, "visavis.v1.FaceAnimation") as channel:
        registration = Registration(
            bus,
            "face",
            instance=instance,
            addresses={"grpc": channel._channel.target.decode()},
            states=lambda: (),
            wanted_device="",
        )
        await registration.start()
        yield face_pb2_grpc.FaceAnimationStub(channel)
        await registration.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def house(tmp_path: Path, bundle: Callable[[str], Path]) -> AsyncIterator[House]:
    bundle("face-landmarks")
    nats = NatsServer(tmp_path / "logs")
    (tmp_path / "logs").mkdir()
    nats.process.storage = tmp_path / "kept"
    async with contextlib.AsyncExitStack() as ending:
        await asyncio.to_thread(nats.start)
        ending.callback(nats.stop)
        bus = await Bus.connect(nats.url, name="house")
        ending.push_async_callback(bus.close)
        doubles = Doubles(bus)
        await doubles.start("asr", "llm", "tts")
        ending.push_async_callback(doubles.stop)
        faces = [await ending.enter_async_context(face(tmp_path / n, bus)) for n in ("1", "2")]
        gateways = []
        for _ in range(2):
            settings = {"nats_url": nats.url, **SETTINGS, "token_key": "s" * 32}
            gateways.append(RunningGateway(GatewaySettings.model_validate(settings)))
            await gateways[-1].start()
            ending.push_async_callback(gateways[-1].stop)
        await gateways[0].inside.registry.refresh()
        yield House(tmp_path, gateways, faces)


@contextlib.asynccontextmanager
async def wearing(gateway: RunningGateway, avatar: str) -> AsyncIterator[GatewaySession]:
    """A session of this gateway, whose events are read."""
    async with GatewayClient(gateway.url) as client:
        answer = await client.call("POST", "/v1/sessions", json={"avatar": avatar}, headers=HERE)
        session = answer.json()["id"]
        async with client.connect(f"/v1/sessions/{session}/events") as events:
            yield GatewaySession(client, session, events)


async def told_of_deletion(session: GatewaySession) -> list[dict[str, Any]]:
    """Events up to the one that says it."""
    events = []
    async with asyncio.timeout(30):
        async for event in session.events():
            events.append(event)
            if event["type"] == "warning":
                return events
    raise AssertionError("it was not told")


def in_memory(name: str) -> bool:
    gc.collect()
    return any(isinstance(held, Avatar) and held.name == name for held in gc.get_objects())


async def test_nothing_of_a_deleted_avatar_is_anywhere(house: House) -> None:
    photo = encoded(portrait())
    async with (
        httpx.AsyncClient(
            base_url=house.gateways[0].url, trust_env=False, verify=False, timeout=60
        ) as http,
        contextlib.AsyncExitStack() as open_sessions,
    ):
        form: dict[str, Any] = {
            "data": {"name": "annlee", **SAID},
            "files": {"photo": ("a", photo)},
        }
        assert (await http.post("/v1/avatars", **form)).status_code == 201
        for stub in house.faces:  # poses need no drawing, and are kept as pictures are
            request = face_pb2.RenderLoopRequest(avatar="annlee", codec=media_pb2.BLENDSHAPES)
            assert [part async for part in stub.RenderLoop(request)]
        assert len(list(house.folder.glob("*/annlee/.loops/*"))) == 2
        (aside := house.folder / "2" / ".replaced-0-annlee").mkdir()
        (aside / "portrait.png").write_bytes((house.folder / "2/annlee/portrait.png").read_bytes())
        sessions = [
            await open_sessions.enter_async_context(wearing(gateway, "annlee"))
            for gateway in house.gateways
        ]
        kept = house.folder / "1" / "annlee" / "portrait.png"
        needles = [kept.read_bytes()[5_000:5_060], b"Ann Lee", b"annlee"]
        for needle in needles[:2]:
            assert len(house.files_with(needle)) >= 3, "on two disks, and in the object store"
        shown = await http.get("/v1/avatars/annlee/portrait.jpg")
        assert shown.headers["cache-control"] == "no-store"

        assert (await http.delete("/v1/avatars/annlee")).status_code == 204

        assert not house.files_with(needles[0]) and not house.files_with(needles[1])
        names = house.files_with(needles[2])
        assert [path for path in names if "/kept/" not in path and "/logs/" not in path] == []
        assert (await http.get("/v1/avatars/annlee/portrait.jpg")).status_code == 404
        assert (await http.get("/v1/avatars/annlee/consent")).status_code == 404
        assert (await http.delete("/v1/avatars/annlee")).status_code == 404
        for session in sessions:
            events = await told_of_deletion(session)
            assert events[-1]["code"] == "avatar_deleted" and "annlee" in events[-1]["message"]
            assert [e["avatar"] for e in events if e["type"] == "session"] == ["annlee", ""]
            await session.ask("Who are you now?")
            assert [e for e in await collect(session, "finished") if e["type"] == "answer"]
        # A face that draws a loop of it lets go when that is done, which takes seconds; to look
        # through all of memory keeps it from that.
        async with asyncio.timeout(120):
            while in_memory("annlee"):  # noqa: ASYNC110  # nobody tells
                await asyncio.sleep(1)
        for stub in house.faces:
            listed = (await stub.ListAvatars(face_pb2.ListAvatarsRequest())).avatars
            assert listed and all(avatar.builtin for avatar in listed)
