"""A gateway that dies without a word: another one goes on with its sessions."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
import websockets

from gateway.peers.peers import owner_of
from tests.gateway.conftest import Rig, RunningGateway, until
from tests.gateway.doubles import Doubles
from tests.gateway.test_handover import HERE, beside, joined, made_in
from tests.gateway.test_turns import collect
from visavis.client import GatewayClient, GatewayError
from visavis.wire.subjects import handover_subject

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def dying(rig: Rig, gateway: RunningGateway) -> AsyncIterator[RunningGateway]:
    async with beside(gateway, rig) as other:
        yield other


@pytest_asyncio.fixture(loop_scope="module")
async def told(rig: Rig, gateway: RunningGateway) -> AsyncIterator[list[dict[str, Any]]]:
    """What `gateway` is told by others."""
    heard: list[dict[str, Any]] = []

    async def hear(message: Any) -> None:
        heard.extend([json.loads(message.data)] if message.data else [])

    owner = owner_of(gateway.inside.peers._instance)
    listening = await rig.bus.client.subscribe(handover_subject(owner), cb=hear)
    await rig.bus.flush()
    yield heard
    await listening.unsubscribe()


async def die(gateway: RunningGateway) -> None:
    """As after a SIGKILL: nobody hears of it any more."""
    await gateway.inside.bus.close()
    await gateway.inside.registry.close()


async def test_its_sessions_go_on_where_they_stood(
    gateway: RunningGateway,
    dying: RunningGateway,
    told: list[dict[str, Any]],
    client: GatewayClient,
    doubles: Doubles,
) -> None:
    async with GatewayClient(dying.url) as theirs:
        made = await theirs.call("POST", "/v1/sessions", json={"persona": "A sage."}, headers=HERE)
        name = made.json()["id"]
        session = await joined(theirs, name)
        await session.ask("Who are you?")
        await collect(session, "finished")
        doubles.script.voice_s = 60.0
        await session.ask("What is it?")
        await collect(session, "speaking")
        await until(lambda: any(len(m["kept"]["said"]) == 3 for m in told if "kept" in m))
        await until(lambda: any(m["begun"].get(name) for m in told if "begun" in m))
        await die(dying)
        await session.aclose()
    doubles.script.voice_s = 0.5
    session = await joined(client, name)
    assert gateway.inside.sessions.has(name)
    async with client.connect(f"/v1/sessions/{name}/media?role=viewer"):
        # The answer goes on: it was written already, and nothing of it is asked for again.
        events = await collect(session, "finished")
    replaced, opened, *_ = [event for event in events if event["type"] == "turn"]
    assert (replaced["event"], opened["event"]) == ("replaced", "opened")
    assert not any(event["type"] == "transcript" for event in events)
    turns = (await client.call("GET", f"/v1/sessions/{name}/turns")).json()
    assert replaced["turn"] not in [turn["turn"] for turn in turns]
    assert (turns[-1]["transcript"], turns[-1]["answer"]) == ("What is it?", doubles.script.answer)
    assert len(doubles.seen.prompts) == 2
    assert doubles.seen.of("tts", "resume")[-1].resume.text == doubles.script.answer
    async with client.connect(f"/v1/sessions/{name}/media?role=viewer"):
        await session.ask("And now?")
        await collect(session, "finished")
    system, *said = doubles.seen.prompts[-1]
    assert "A sage." in system[1]
    answer = doubles.script.answer
    assert [text for _, text in said] == ["Who are you?", answer, "What is it?", answer, "And now?"]
    await session.aclose()


async def test_what_has_ended_does_not_come_back(
    gateway: RunningGateway, dying: RunningGateway, told: list[dict[str, Any]]
) -> None:
    first, second = await made_in(dying, 2)
    await until(lambda: {first, second} <= {m["kept"]["id"] for m in told if "kept" in m})
    async with GatewayClient(dying.url) as theirs:
        await theirs.call("DELETE", f"/v1/sessions/{first}")
    await until(lambda: any(first in m.get("ended", ()) for m in told))
    await die(dying)
    async with GatewayClient(gateway.url) as ours:
        await ours.call("GET", f"/v1/sessions/{second}")
        with pytest.raises(GatewayError, match="there is no"):
            await ours.call("GET", f"/v1/sessions/{first}")


async def test_a_client_of_realtime_takes_its_session_with_it(
    gateway: RunningGateway, dying: RunningGateway, told: list[dict[str, Any]]
) -> None:
    async with websockets.connect(f"{dying.url.replace('http', 'ws')}/v1/realtime") as socket:
        await socket.recv()
        (its,) = dying.inside.sessions.all()
        (name,) = await made_in(dying, 1)
        await until(lambda: any(m["kept"]["id"] == name for m in told if "kept" in m))
        assert not any(m["kept"]["id"] == its.id for m in told if "kept" in m)


async def test_one_that_ends_in_order_takes_its_sessions_with_it(
    gateway: RunningGateway, dying: RunningGateway, told: list[dict[str, Any]]
) -> None:
    (name,) = await made_in(dying, 1)
    await until(lambda: any(m["kept"]["id"] == name for m in told if "kept" in m))
    await dying.stop()
    async with GatewayClient(gateway.url) as ours:
        with pytest.raises(GatewayError, match="gone"):
            await ours.call("GET", f"/v1/sessions/{name}")
