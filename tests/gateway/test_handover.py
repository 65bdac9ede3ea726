"""A gateway that is about to end: its sessions go on in another one, between two turns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
import websockets

from gateway.settings import GatewaySettings
from tests.gateway.conftest import Rig, RunningGateway, until
from tests.gateway.doubles import Doubles
from tests.gateway.test_turns import collect
from visavis.serving.draining import Drain
from visavis.tools.client import GatewayClient, GatewayError, GatewaySession
from visavis.wire.clock import MonotonicClock

pytestmark = pytest.mark.asyncio(loop_scope="module")
HERE = {"X-Visavis-Passed-On": "1"}


@pytest_asyncio.fixture(loop_scope="module")
async def leaving(rig: Rig, gateway: RunningGateway) -> AsyncIterator[RunningGateway]:
    """Beside `gateway`; each knows the other."""
    settings = {"nats_url": rig.nats.url, "max_sessions": 3, "port": 0}
    other = RunningGateway(GatewaySettings.model_validate(settings))
    await other.start()
    await gateway.inside.registry.refresh()
    yield other
    await other.stop()


def drain(gateway: RunningGateway, limit_s: float = 20.0) -> asyncio.Task[None]:
    """As on SIGTERM."""
    draining = Drain(limit_s)
    draining.told_to_stop(MonotonicClock().now())
    return asyncio.create_task(gateway.inside.handover.leave(draining))


async def joined(client: GatewayClient, session: str) -> GatewaySession:
    events = await client.connect(f"/v1/sessions/{session}/events")
    return GatewaySession(client, session, events)


async def test_a_session_goes_on_where_it_stood(
    gateway: RunningGateway, leaving: RunningGateway, client: GatewayClient, doubles: Doubles
) -> None:
    doubles.script.voice_s = 1.0
    async with GatewayClient(leaving.url) as theirs:
        made = await theirs.call(
            "POST", "/v1/sessions", json={"language": "zh", "persona": "A sage."}, headers=HERE
        )
        name = made.json()["id"]
        session = await joined(theirs, name)
        first = await session.say("Who are you?")
        await collect(session, "speaking")
        leaving.inside.registry.gateways = []  # the one that takes its place has just begun
        left = drain(leaving)
        await until(lambda: leaving.inside.sessions.draining)
        assert (await collect(session, "finished", "failed"))[-1]["event"] == "finished"
        with pytest.raises(websockets.ConnectionClosed) as closed:
            while True:
                await session._events.recv()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1012
        await left
        assert not leaving.inside.sessions.all()
        # Whoever still asks the old one is sent on; what is new is made elsewhere.
        assert (await theirs.call("GET", f"/v1/sessions/{name}")).json()["language"] == "zh"
        made = await theirs.call("POST", "/v1/sessions", json={})
        assert gateway.inside.sessions.has(made.json()["id"])
        with pytest.raises(GatewayError, match="about to end"):
            await theirs.call("POST", "/v1/sessions", json={}, headers=HERE)
    session = await joined(client, name)
    second = await session.say("And I?")
    events = await collect(session, "finished", "failed")
    assert events[-1]["event"] == "finished" and second > first
    assert [e for e in events if e["type"] == "error"] == []
    told = [text for _, text in doubles.seen.prompts[-1]]
    assert told[-3:] == ["Who are you?", doubles.script.answer, "And I?"]
    assert "sage" in told[0]
    turns = (await client.call("GET", f"/v1/sessions/{name}/turns")).json()
    assert [(t["turn"], t["state"]) for t in turns] == [(first, "finished"), (second, "finished")]
    await client.call("GET", f"/v1/sessions/{name}/turns/{first}/timeline")
    await leaving.stop()
    await session.say("Still here?")
    assert (await collect(session, "finished", "failed"))[-1]["event"] == "finished"
    gone = f"nobody-{name.rpartition('-')[2]}"
    with pytest.raises(GatewayError) as unknown:
        await client.call("GET", f"/v1/sessions/{gone}")
    assert unknown.value.code == "not_found"
    await session._events.close()


async def test_what_is_said_while_it_changes_hands_is_answered_once(
    gateway: RunningGateway,
    leaving: RunningGateway,
    client: GatewayClient,
    doubles: Doubles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taking, may_take = asyncio.Event(), asyncio.Event()
    take = gateway.inside.sessions.adopt

    async def slowly(*arguments: Any) -> Any:
        taking.set()
        await may_take.wait()
        return await take(*arguments)

    monkeypatch.setattr(gateway.inside.sessions, "adopt", slowly)
    async with GatewayClient(leaving.url) as theirs:
        made = await theirs.call("POST", "/v1/sessions", json={}, headers=HERE)
        name = made.json()["id"]
        session = await joined(theirs, name)
        left = drain(leaving)
        await taking.wait()
        await session._events.send('{"type": "text", "text": "Over the socket?"}')
        asked = asyncio.create_task(session.say("Over HTTP?"))
        await asyncio.sleep(0)
        may_take.set()
        await asked
        await left
    await until(lambda: len(doubles.seen.prompts) == 2)
    said = sorted(prompt[-1][1].rpartition("? ")[2] for prompt in doubles.seen.prompts)
    assert said == ["Over HTTP?", "Over the socket?"]


async def test_a_session_that_nobody_can_take_is_kept_until_its_turn_is_over(
    leaving: RunningGateway, gateway: RunningGateway, doubles: Doubles, tmp_path: Path
) -> None:
    doubles.script.voice_s = 1.0
    gateway.inside.sessions.draining = True
    try:
        async with GatewayClient(leaving.url) as theirs:
            made = await theirs.call("POST", "/v1/sessions", json={}, headers=HERE)
            session = await joined(theirs, made.json()["id"])
            await session.say("Who are you?")
            await collect(session, "speaking")
            left = drain(leaving)
            assert (await collect(session, "finished", "failed"))[-1]["event"] == "finished"
            await left
            with pytest.raises(websockets.ConnectionClosed) as closed:
                while True:
                    await session._events.recv()
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 4410
            async with httpx.AsyncClient(trust_env=False) as http:
                ready = await http.get(f"{leaving.url}/readyz")
            assert ready.json()["status"] == "draining"
    finally:
        gateway.inside.sessions.draining = False
