"""No room: what visitors are told, and how they wait for it, over the public API."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import grpc
import httpx
import pytest
import websockets

from gateway.waiting import entrance
from tests.gateway.conftest import RunningGateway, until
from tests.gateway.doubles import Doubles
from visavis.serving.errors import BusError

pytestmark = pytest.mark.asyncio(loop_scope="module")
SETTINGS = {"max_sessions": 1, "queue_places": 2}
SESSIONS = "/v1/sessions"


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked often whether there is room for the next in line."""
    monkeypatch.setattr(entrance, "LOOK_S", 0.05)
    monkeypatch.setattr(entrance, "SEEN_S", 0.1)


async def post(http: httpx.AsyncClient, **body: Any) -> httpx.Response:
    return await http.post(SESSIONS, json=body)


async def first_session(http: httpx.AsyncClient) -> str:
    created = await post(http)
    assert created.status_code == 201
    return str(created.json()["id"])


def socket_of(gateway: RunningGateway, name: str) -> websockets.connect:
    return websockets.connect(f"ws{gateway.url[4:]}{SESSIONS}/{name}/place", proxy=None)


async def next_state(socket: websockets.ClientConnection, **wanted: Any) -> dict[str, Any]:
    """The next event that has all of this."""
    async with asyncio.timeout(5):
        while True:
            event: dict[str, Any] = json.loads(await socket.recv())
            if wanted.items() <= event.items():
                return event


async def test_who_is_not_let_in_is_told_what_has_no_room_and_what_to_do(
    http: httpx.AsyncClient,
) -> None:
    session = await first_session(http)
    refused = await post(http)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["service"]) == (429, "at_capacity", "gateway")
    assert int(refused.headers["Retry-After"]) > 0
    assert "queue" in error["message"]
    assert error["expected_wait_s"] is None, "nobody has left yet: nothing is known"
    await http.delete(f"{SESSIONS}/{session}")
    session = await first_session(http)
    told = (await post(http)).json()["error"]
    assert told["expected_wait_s"] is not None and "in about" in told["message"]


async def test_a_service_without_room_is_named(
    gateway: RunningGateway, http: httpx.AsyncClient, doubles: Doubles
) -> None:
    doubles.script.slots = 0
    await gateway.inside.registry.refresh()
    refused = await post(http)
    error = refused.json()["error"]
    assert (refused.status_code, error["service"]) == (429, "asr")
    assert "asr: no free slot" in error["message"]


async def test_who_comes_as_another_has_left_is_let_in(
    gateway: RunningGateway, http: httpx.AsyncClient, doubles: Doubles
) -> None:
    """Though the replica's newest report, a moment old, says that it is full."""
    there_was, doubles.script.slots = doubles.script.slots, 0
    doubles.script.capacity["refusal"] = "all slots are taken"
    await gateway.inside.registry.refresh()
    assert "asr: all slots are taken" in (await post(http)).json()["error"]["message"]
    doubles.script.slots = there_was
    del doubles.script.capacity["refusal"]
    await first_session(http)


async def test_the_line_moves_on_as_sessions_end_and_visitors_leave(
    gateway: RunningGateway, http: httpx.AsyncClient
) -> None:
    session = await first_session(http)
    places = [await post(http, queue=True) for _ in range(3)]
    assert [place.status_code for place in places] == [202, 202, 429]
    first, second = (place.json() for place in places[:2])
    assert (first["state"], first["position"], second["position"]) == ("waiting", 1, 2)
    assert (await post(http)).json()["error"]["service"] == "queue", "nobody jumps the line"

    async with socket_of(gateway, first["id"]) as one, socket_of(gateway, second["id"]) as two:
        assert (await next_state(one, type="place"))["position"] == 1
        await http.delete(f"{SESSIONS}/{session}")
        admitted = await next_state(one, state="admitted")
        assert (admitted["id"], admitted["position"]) == (first["id"], 0)
        assert (await http.get(f"{SESSIONS}/{first['id']}")).json()["id"] == first["id"]
        with pytest.raises(websockets.ConnectionClosedOK):
            await one.recv()
        assert (await next_state(two, position=1))["state"] == "waiting"
        asked = (await http.get(f"{SESSIONS}/{second['id']}/place")).json()
        assert (asked["state"], asked["position"]) == ("waiting", 1)
        assert "1 visitor waits already" in (await post(http)).json()["error"]["message"]
        assert (await http.delete(f"{SESSIONS}/{second['id']}")).status_code == 204
        assert (await next_state(two, state="left"))["position"] == 0
    assert gateway.inside.entrance.waiting == 0


async def test_who_asks_for_what_cannot_be_is_told_so_when_his_turn_has_come(
    gateway: RunningGateway, http: httpx.AsyncClient, doubles: Doubles
) -> None:
    session = await first_session(http)
    place = (await post(http, queue=True, avatar="nobody")).json()
    doubles.script.refuse["face"] = grpc.StatusCode.NOT_FOUND
    await http.delete(f"{SESSIONS}/{session}")

    async def standing() -> dict[str, Any]:
        return dict((await http.get(f"{SESSIONS}/{place['id']}/place")).json())

    await until(lambda: gateway.inside.entrance.waiting == 0)
    told = await standing()
    assert told["state"] == "refused" and "face" in told["message"] and not told["again"]
    doubles.script.refuse.clear()
    last = await first_session(http)
    place = (await post(http, queue=True)).json()
    gateway.inside.sessions.leaving.set()
    await until(lambda: gateway.inside.entrance.waiting == 0)
    gateway.inside.sessions.leaving.clear()
    assert (await standing())["again"], "another gateway may let him in"
    await http.delete(f"{SESSIONS}/{last}")


async def test_what_may_pass_costs_nobody_his_place_and_what_is_unforeseen_one_alone(
    monkeypatch: pytest.MonkeyPatch, gateway: RunningGateway, http: httpx.AsyncClient
) -> None:
    monkeypatch.setattr(entrance, "AFTER_REFUSAL_S", 0.0)
    session, sessions = await first_session(http), gateway.inside.sessions
    losses: list[Exception] = [RuntimeError("unforeseen"), BusError("it is not connected")]
    asked, create = list[str](), sessions.create

    async def failing(*wish: Any, name: str) -> Any:
        asked.append(name)
        if losses:
            raise losses.pop()
        return await create(*wish, name=name)

    monkeypatch.setattr(sessions, "create", failing)
    first, second = [(await post(http, queue=True)).json()["id"] for _ in range(2)]
    await http.delete(f"{SESSIONS}/{session}")
    await until(lambda: gateway.inside.entrance.waiting == 0)
    assert asked == [first, first, second]
    told = [(await http.get(f"{SESSIONS}/{one}/place")).json() for one in (first, second)]
    assert [one["state"] for one in told] == ["refused", "admitted"]
    assert "internal error" in told[0]["message"]


async def test_who_does_not_know_yet_that_he_was_let_in_keeps_his_stages(
    gateway: RunningGateway, http: httpx.AsyncClient
) -> None:
    session, sessions = await first_session(http), gateway.inside.sessions
    place = (await post(http, queue=True)).json()["id"]
    await http.delete(f"{SESSIONS}/{session}")
    await until(lambda: sessions.has(place))
    presence = sessions.get(place).presence
    made_s = presence.touched_at_s
    await until(lambda: presence.touched_at_s > made_s)


async def test_nobody_waits_where_there_is_no_such_place(
    gateway: RunningGateway, http: httpx.AsyncClient
) -> None:
    assert (await http.get(f"{SESSIONS}/unknown/place")).status_code == 404
    with pytest.raises(websockets.InvalidStatus) as refusal:
        async with socket_of(gateway, "unknown"):
            pass
    assert refusal.value.response.status_code == 404
