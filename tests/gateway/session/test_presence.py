"""Who is with a session: it holds slots for visitors who are there, and finds them on return."""

from __future__ import annotations

import asyncio
import contextlib

import grpc
import httpx
import pytest
import websockets
from aiortc import RTCConfiguration, RTCPeerConnection

from gateway.playout.pacing import RATE_HZ, TICK_S
from gateway.playout.sinks import webrtc
from gateway.session import presence, ticks
from tests.gateway.conftest import RunningGateway, eventually, meets, next_event, until
from tests.gateway.doubles import Doubles
from tests.gateway.visiting import Browser, new_session, problem
from visavis.client import GatewayClient, GatewaySession
from visavis.wire.clock import MonotonicClock

SETTINGS = {"idle_release_s": 0.3, "max_sessions": 8, "max_viewers": 1}
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked often who is there."""
    monkeypatch.setattr(presence, "CHECK_S", 0.05)


async def finished(http: httpx.AsyncClient, session: str, turn: int) -> None:
    async def ended() -> bool:
        record = await http.get(f"/v1/sessions/{session}/turns/{turn}")
        return record.status_code == 200 and record.json()["state"] == "finished"

    await eventually(ended)


async def say(http: httpx.AsyncClient, session: str, text: str) -> int:
    answer = await http.post(f"/v1/sessions/{session}/text", json={"text": text})
    assert answer.status_code == 202, answer.text
    return int(answer.json()["turn"])


async def test_visitors_who_vanish_give_up_their_slots_and_find_their_talk_again(
    client: GatewayClient, http: httpx.AsyncClient, doubles: Doubles
) -> None:
    sessions = [await new_session(http) for _ in range(2)]
    sockets = [await client.connect(f"/v1/sessions/{s}/events") for s in sessions]
    await until(lambda: doubles.leases() == 8)
    await finished(http, sessions[0], await say(http, sessions[0], "My name is Ada."))
    doubles.script.voice_s = 9.0
    last = [await say(http, session, "And now a long story.") for session in sessions]
    for socket in sockets:
        await next_event(socket, "answer")
        socket.transport.abort()
    await until(lambda: doubles.leases() == 0)
    newcomer = await new_session(http)
    doubles.script.voice_s = 0.2
    async with (
        client.connect(f"/v1/sessions/{newcomer}/events"),
        client.connect(f"/v1/sessions/{sessions[0]}/events") as socket,
    ):
        await until(lambda: doubles.leases() == 8)
        turn = await say(http, sessions[0], "What is my name?")
        assert turn > last[0]
        await next_event(socket, "answer")
    assert doubles.seen.prompts[-1][0][1] == "My name is Ada."


async def test_a_session_that_nobody_is_with_has_no_ticks_and_keeps_its_time(
    monkeypatch: pytest.MonkeyPatch,
    gateway: RunningGateway,
    client: GatewayClient,
    http: httpx.AsyncClient,
    doubles: Doubles,
) -> None:
    monkeypatch.setattr(ticks, "REST_TICKS", 3)
    doubles.script.silent = {"face"}
    inside = gateway.inside.sessions.get(await new_session(http))
    playout, clock = inside._playout, MonotonicClock()
    await until(lambda: doubles.leases() == 0 and inside.rests)
    slept_at, slept_at_s = playout.now_samples, clock.now()
    other = await new_session(http)  # whose ticks go on meanwhile
    await finished(http, other, await say(http, other, "Hello?"))
    assert playout.now_samples == slept_at
    slept_s = clock.now() - slept_at_s
    async with client.connect(f"/v1/sessions/{inside.id}/events"):
        await until(lambda: playout.now_samples > slept_at)
        assert playout.now_samples - slept_at >= (slept_s - TICK_S) * RATE_HZ


async def test_a_return_without_a_free_slot_is_told(
    monkeypatch: pytest.MonkeyPatch,
    client: GatewayClient,
    http: httpx.AsyncClient,
    doubles: Doubles,
) -> None:
    monkeypatch.setattr(presence, "RETRY_S", 0.2)
    doubles.script.slots = 1
    session = await new_session(http)
    path = f"/v1/sessions/{session}"
    await until(lambda: doubles.leases() == 0)
    other = await new_session(http)
    async with client.connect(f"/v1/sessions/{other}/events"):
        assert "slot" in problem(await http.post(f"{path}/text", json={"text": "Hi."}), 429)
        with pytest.raises(websockets.InvalidStatus) as refusal:
            async with client.connect(f"{path}/media"):
                pass
        assert refusal.value.response.status_code == 429
        assert int(refusal.value.response.headers["Retry-After"]) > 0
        async with client.connect(f"{path}/events") as socket:
            assert (await next_event(socket, "error"))["code"] == "at_capacity"
            before = doubles.seen.attached["face"]
            await http.delete(f"/v1/sessions/{other}")
            await until(lambda: doubles.seen.attached["face"] > before)
            await say(http, session, "Hi.")
            await next_event(socket, "answer")


async def test_who_was_let_in_is_no_newcomer_where_his_session_could_not_leave(
    monkeypatch: pytest.MonkeyPatch,
    gateway: RunningGateway,
    client: GatewayClient,
    http: httpx.AsyncClient,
    doubles: Doubles,
) -> None:
    monkeypatch.setattr(presence, "RETRY_S", 0.2)
    inside = gateway.inside.sessions.get(await new_session(http))
    async with client.connect(f"/v1/sessions/{inside.id}/events") as socket:
        await until(lambda: doubles.leases() == 4)
        known = len(doubles.seen.of("llm", "config"))  # a slow machine may have let go of it before
        doubles.script.refuse["face"] = grpc.StatusCode.RESOURCE_EXHAUSTED
        async with inside.presence.departing():
            pass  # nobody takes it
        assert (await next_event(socket, "error"))["code"] == "at_capacity"
        doubles.script.refuse.clear()
        await until(lambda: inside.stages.attached and doubles.leases() == 4)
    admitted = [request.config.admitted for request in doubles.seen.of("llm", "config")]
    assert not any(admitted[:known])
    assert len(admitted) >= known + 2 and all(admitted[known:])


async def test_an_answer_that_is_asked_for_over_http_alone_comes_to_its_end(
    http: httpx.AsyncClient, doubles: Doubles
) -> None:
    session = await new_session(http)
    await until(lambda: doubles.leases() == 0)
    doubles.script.voice_s = 0.6  # twice as long as slots are held for nobody
    await finished(http, session, await say(http, session, "Hello?"))
    await until(lambda: doubles.leases() == 0)


async def test_no_more_viewers_than_allowed_however_fast_they_come(
    gateway: RunningGateway, client: GatewayClient, http: httpx.AsyncClient
) -> None:
    session = await new_session(http)
    viewer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    for kind in ("audio", "video"):
        viewer.addTransceiver(kind, direction="recvonly")
    await viewer.setLocalDescription(await viewer.createOffer())
    offer = {"sdp": viewer.localDescription.sdp, "type": "offer", "role": "viewer"}
    path = f"/v1/sessions/{session}/webrtc"
    answers = await asyncio.gather(*(http.post(path, json=offer) for _ in range(3)))
    assert sorted(answer.status_code for answer in answers) == [200, 503, 503]
    inside = gateway.inside.sessions.get(session)
    assert inside.audience.present == 1
    with pytest.raises(websockets.InvalidStatus):
        async with client.connect(f"/v1/sessions/{session}/media?role=speaker"):
            pass
    assert inside.microphone.holder is None
    await viewer.close()


async def test_no_more_listen_to_a_session_than_may_watch_it_and_some_programs(
    client: GatewayClient, http: httpx.AsyncClient
) -> None:
    path = f"/v1/sessions/{await new_session(http)}/events"
    async with contextlib.AsyncExitStack() as all_:
        for _ in range(17):
            await all_.enter_async_context(client.connect(path))
        with pytest.raises(websockets.InvalidStatus) as refusal:
            await client.connect(path)
    assert refusal.value.response.status_code == 503
    assert b"listeners: " in (refusal.value.response.body or b"")


async def test_a_browser_that_vanishes_gives_up_its_slots_before_its_connection_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
    gateway: RunningGateway,
    client: GatewayClient,
    http: httpx.AsyncClient,
    doubles: Doubles,
) -> None:
    monkeypatch.setattr(webrtc, "SILENT_S", 2.0)
    monkeypatch.setattr(webrtc, "_LOOK_EVERY_S", 0.5)
    session = await new_session(http)
    browser = Browser(client, GatewaySession(client, session, None))  # type: ignore[arg-type]
    await browser.connect("viewer")
    audience = gateway.inside.sessions.get(session).audience
    with pytest.raises(TimeoutError):
        await until(lambda: doubles.leases() == 0, timeout_s=3)
    for transport in browser.pc._RTCPeerConnection__iceTransports:  # type: ignore[attr-defined]
        for protocol in transport._connection._protocols:
            protocol.transport.abort()
    await until(lambda: doubles.leases() == 0, timeout_s=20)
    assert audience.present == 1
    await browser.pc.close()


async def test_who_returns_is_served_by_the_replica_that_served_before(
    gateway: RunningGateway, client: GatewayClient, http: httpx.AsyncClient, doubles: Doubles
) -> None:
    await doubles.start("llm")
    await meets(gateway, doubles)
    async with client.session() as neighbour:
        created = (await http.post("/v1/sessions", json={})).json()
        told = (await http.get(f"/v1/sessions/{neighbour.id}")).json()
        assert created["stages"]["llm"] != told["stages"]["llm"]
        await until(lambda: doubles.leases() == 4)
    await until(lambda: doubles.leases() == 0)
    async with client.connect(f"/v1/sessions/{created['id']}/events"):

        async def served_as_before() -> bool:
            told = (await http.get(f"/v1/sessions/{created['id']}")).json()
            return bool(told["stages"] == created["stages"])

        # A stage has its lease a moment before the gateway knows.
        await eventually(served_as_before)
