"""`visavis up --replicas face=2,gateway=2`: visitors are spread, and notice nothing of it."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator

import psutil

from tests.face.portraits import DEFAULT_FOLDER
from tests.running_stack import RunningStack
from tests.stack.test_conversation import answer_of, until_turn
from visavis.client import GatewayClient, GatewaySession

QUESTION = "What is two plus two?"


@contextlib.asynccontextmanager
async def joined(url: str, session: str) -> AsyncIterator[GatewaySession]:
    """A session that is there already, through a gateway at `url`."""
    async with (
        GatewayClient(url) as client,
        client.connect(f"/v1/sessions/{session}/events") as events,
    ):
        yield GatewaySession(client, session, events)


async def answered(url: str, session: str) -> None:
    async with joined(url, session) as there:
        await there.say(QUESTION)
        events = await until_turn(there, "finished", "failed")
    assert (events[-1]["event"], answer_of(events) != "") == ("finished", True)


async def face_of(client: GatewayClient, session: str) -> str:
    told = (await client.call("GET", f"/v1/sessions/{session}")).json()
    return str(told["stages"]["face"])


async def until_face(client: GatewayClient, session: str, *, not_by: str) -> str:
    """The face of a session once it is another one."""
    async with asyncio.timeout(20):
        # Asked over HTTP: nothing tells us.
        while (face := await face_of(client, session)) in (not_by, "None"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return face


async def both_gateways(client: GatewayClient) -> list[str]:
    """Where each of them can be reached by itself, once they know each other."""
    async with asyncio.timeout(20):
        while True:
            targets = (await client.call("GET", "/v1/metrics-targets")).json()
            own = [t["targets"][0] for t in targets if t["labels"]["service"] == "gateway"]
            if len(own) == 2:
                return [f"http://{address}" for address in own]
            await asyncio.sleep(0.05)


def process_of(stack: RunningStack, instance: str) -> psutil.Process:
    return stack.child(instance.rpartition("-")[0])


async def test_visitors_are_spread_and_any_gateway_serves_them(
    gpu_stack: RunningStack,
) -> None:
    stack, avatars = gpu_stack, gpu_stack.log_dir / "avatars"
    shutil.copytree(DEFAULT_FOLDER, avatars / "guest")
    async with GatewayClient(stack.url) as client:
        gateways = await both_gateways(client)
        listed = (await client.call("GET", "/v1/avatars")).json()["avatars"]
        assert "guest" in [avatar["name"] for avatar in listed]
        shutil.rmtree(avatars)  # what a session needs lies on no disk alone
        made = [
            (await client.call("POST", "/v1/sessions", json={"avatar": "guest"})).json()["id"]
            for _ in range(2)
        ]
        assert len({session.rpartition("-")[2] for session in made}) == 2, "one gateway has both"
        faces = [await face_of(client, session) for session in made]
        assert sorted(face[:7] for face in faces) == ["face-1-", "face-2-"]
        # One and the same gateway is asked for both.
        await asyncio.gather(*(answered(gateways[0], session) for session in made))
        for session in made:
            await client.call("DELETE", f"/v1/sessions/{session}")


async def test_a_session_goes_on_with_another_face_while_its_own_is_frozen(
    gpu_stack: RunningStack,
) -> None:
    """Long before that one is ended for it and started anew."""
    stack = gpu_stack
    async with GatewayClient(stack.url) as client, client.session() as session:
        face = await face_of(client, session.id)
        frozen = process_of(stack, face)
        frozen.suspend()
        try:
            await until_face(client, session.id, not_by=face)
            assert frozen.status() == psutil.STATUS_STOPPED, "it went on only with a new process"
            await answered(stack.url, session.id)
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                frozen.resume()
