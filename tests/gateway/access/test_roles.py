"""Who may pass which door of the real application: every route and every WebSocket that it has."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from functools import partial
from itertools import cycle
from typing import Any

import httpx
import pytest
import pytest_asyncio
import websockets
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute

from gateway.access.callers import SOCKET, Role
from gateway.access.tokens import SessionTokens
from tests.gateway.conftest import HERE, Rig, RunningGateway, another, until
from tests.gateway.peers.test_handover import drain
from tests.gateway.visiting import problem
from visavis.client import GatewayClient, GatewayError
from visavis.wire.clock import through_sleep_s

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Some as our own tokens begin.
OPERATOR, APP, OTHER_APP = "an operator's key", "ek_the key of an app", "vs1.key of another app"
BUSY_APP, HASTY_APP = "the key of an app with one session", "the key of an app that is slow"
TOKEN_KEY = "what the gateways sign their tokens with"
KEYS = (
    ("boss", OPERATOR, "operator", ""),
    ("shop", APP, "app", ""),
    ("other", OTHER_APP, "app", ""),
    ("busy", BUSY_APP, "app", "max_sessions = 1"),
    ("hasty", HASTY_APP, "app", "sessions_per_minute = 2"),
)
FILE = "\n".join(
    f'[[key]]\nname = "{name}"\nkey = "{key}"\nrole = "{role}"\n{limit}'
    for name, key, role, limit in KEYS
)
OPEN = {"/", "/docs", "/openapi.json", "/healthz", "/livez", "/readyz", "/docs/x", "/static/x"}
CATALOGUE = {
    "/v1/voices",
    "/v1/avatars",
    "/v1/avatars/{name}/portrait.jpg",
    "/v1/avatars/{name}/head.glb",
    "/v1/avatars/{name}/head.json",
    "/v1/avatars/{name}/background.png",
}
REALTIME = "/v1/realtime"
WITHOUT_A_SESSION = {
    "/v1/models",
    "/v1/models/{name:path}",
    "/v1/chat/completions",
    "/v1/audio/speech",
    "/v1/audio/transcriptions",
    "/v1/audio/voices",
    REALTIME,
    "/v1/realtime/client_secrets",
    "/v1/realtime/calls",
    "/v1/realtime/sessions",
    "/v1/realtime/transcription_sessions",
}
HANG_UP = "/v1/realtime/calls/{session_id}/hangup"
SESSIONS, OF_A_SESSION = "/v1/sessions", "/v1/sessions/{session_id}"
ROOM = f"{OF_A_SESSION}/room"
"""Comments of many are an app's affair, or an operator's: no token of the session opens them."""
LOOKING_ON = {
    f"{OF_A_SESSION}{path}"
    for path in ("/token", "/webrtc", "/webrtc/{peer_id}", "/whep", "/whep/{peer_id}")
}
PUBLISHING = {
    ("POST", f"{OF_A_SESSION}/broadcasts"),
    ("DELETE", f"{OF_A_SESSION}/broadcasts/{{broadcast_id}}"),
}
SENDING = f"{OF_A_SESSION}/face-outputs/{{name}}"
"""Not for visitors: the gateway then talks to other hosts."""
BODIES: dict[str, Any] = {
    f"{ROOM}/comments": {"author": {"name": "Anna"}, "text": "Hi."},
    f"{ROOM}/commands": {"type": "resume"},
    f"{OF_A_SESSION}/text": {"text": "Hi."},
    f"{OF_A_SESSION}/say": {"text": "Hi."},
    f"{OF_A_SESSION}/webrtc": {"sdp": "none", "type": "offer", "role": "viewer"},
    f"{OF_A_SESSION}/recording": {"scope": "session"},
    f"{OF_A_SESSION}/broadcasts": {"url": "rtmp://127.0.0.1:1/live", "key": "secret"},
}

Door = tuple[str, str]
"""Method, and path as the route has it."""
Knock = Callable[[RunningGateway, Door, str, str | None], Awaitable[int]]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    file = tmp_path_factory.mktemp("access") / "access.toml"
    file.write_text(FILE)
    return {
        "access_file": file,
        "token_key": TOKEN_KEY,
        "max_sessions": 5,
        "broadcast_hosts": ["127.0.0.1"],
    }


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever knocks does not wait for the first segments of HLS."""
    monkeypatch.setattr("gateway.live.hls.on_demand._FIRST_WAIT_S", 0.01)


@pytest_asyncio.fixture(loop_scope="module")
async def made(gateway: RunningGateway) -> dict[str, Any]:
    """A session of the app's, as it was told of it."""
    return await new_session(gateway, APP)


async def new_session(gateway: RunningGateway, key: str) -> dict[str, Any]:
    async with GatewayClient(gateway.url, key) as client:
        body = {"persona": "Be kind."}
        answer = await client.call("POST", SESSIONS, json=body, headers=HERE)
    told: dict[str, Any] = answer.json()
    return told


def doors(routes: Iterable[BaseRoute]) -> Iterator[Door]:
    """Every door of an application, also where FastAPI keeps a router as it was included."""
    for route in routes:
        if (included := getattr(route, "original_router", None)) is not None:
            yield from doors(included.routes)
        elif isinstance(route, Mount):
            yield "GET", f"{route.path}/x"
        elif isinstance(route, WebSocketRoute):
            yield SOCKET, route.path
        else:
            assert isinstance(route, Route), f"a kind of route that is not walked: {route!r}"
            yield from ((method, route.path) for method in route.methods or ())


def closed_doors(gateway: RunningGateway) -> list[Door]:
    found = [door for door in doors(gateway.app.routes) if door[1] not in OPEN]
    assert {(SOCKET, f"{OF_A_SESSION}/media"), ("GET", "/metrics")} <= set(found)
    assert len(found) > 30
    return found


@pytest_asyncio.fixture(loop_scope="module")
async def knock(http: httpx.AsyncClient) -> Knock:
    return partial(_knock, http)


async def _knock(
    http: httpx.AsyncClient, gateway: RunningGateway, door: Door, session: str, shown: str | None
) -> int:
    """HTTP status of what is answered; 101 where a WebSocket opens."""
    method, path = door
    way = path.replace(":path", "").format(
        session_id=session, turn=1, name="eileen", peer_id="nobody", broadcast_id="none"
    )
    headers = {} if shown is None else {"Authorization": f"Bearer {shown}"}
    if method == SOCKET:
        url = f"ws{gateway.url.removeprefix('http')}{way}"
        try:
            async with websockets.connect(url, additional_headers=headers, proxy=None) as socket:
                if path == REALTIME:
                    # It opens before its session does, and tells when that is there.
                    await socket.recv()
                return 101
        except websockets.InvalidStatus as refusal:
            return refusal.response.status_code
    body = BODIES.get(path, {}) if method in ("POST", "PATCH") else None
    answer = await http.request(method, f"{gateway.url}{way}", json=body, headers=headers)
    return answer.status_code


async def test_what_is_open_shows_nothing_of_anybody(
    gateway: RunningGateway, knock: Knock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The description of the API takes a second to be made, and is the same for everybody.
    monkeypatch.setattr(gateway.app, "openapi_schema", {})
    for method, path in doors(gateway.app.routes):
        if path in OPEN:
            assert method in ("GET", "HEAD"), path
            assert await knock(gateway, (method, path), "", None) in (200, 404)


async def test_no_door_opens_without_the_right_thing_to_show(
    gateway: RunningGateway, knock: Knock, made: dict[str, Any]
) -> None:
    """Nothing, and in turn a wrong key, a token that has expired and one of somebody else's."""
    ours, theirs = SessionTokens(TOKEN_KEY, 900.0), SessionTokens("of somebody else", 900.0)
    expired = ours.issue(made["id"], Role.VISITOR, time.time() - 901.0).token
    forged = theirs.issue(made["id"], Role.VISITOR, time.time()).token
    for door, wrong in zip(closed_doors(gateway), cycle(("wrong", expired, forged)), strict=False):
        for shown in (None, wrong):
            assert await knock(gateway, door, made["id"], shown) == 401, (door, shown)
    assert gateway.inside.sessions.has(made["id"])


async def test_a_token_opens_no_other_session_and_nothing_else(
    gateway: RunningGateway, knock: Knock, made: dict[str, Any]
) -> None:
    foreign = await new_session(gateway, APP)
    for door in closed_doors(gateway):
        looks = door[0] in ("GET", "HEAD") and door[1] in CATALOGUE
        status = await knock(gateway, door, made["id"], foreign["token"])
        assert status in ((200, 404) if looks else (403,)), door
    assert gateway.inside.sessions.get(made["id"]).records.all() == []


async def test_an_app_has_no_session_of_another_and_no_operation(
    gateway: RunningGateway, knock: Knock, made: dict[str, Any]
) -> None:
    for door in closed_doors(gateway):
        if (door[0] in ("GET", "HEAD") and door[1] in CATALOGUE) or door[1] == SESSIONS:
            continue
        status = await knock(gateway, door, made["id"], OTHER_APP)
        if door[1] in WITHOUT_A_SESSION:
            assert status in (101, 200, 400, 404), door
            continue
        of_a_session = door[1].startswith(OF_A_SESSION) or door[1] == HANG_UP
        assert status == (404 if of_a_session else 403), door
    assert gateway.inside.sessions.get(made["id"]).records.all() == []
    # The session of a WebSocket ends only once its gateway has read that this is closed.
    await until(lambda: len(gateway.inside.sessions.all()) == 1)
    for key, listed in ((OTHER_APP, []), (APP, [made["id"]]), (OPERATOR, [made["id"]])):
        async with GatewayClient(gateway.url, key) as client:
            answer = (await client.call("GET", SESSIONS)).json()
        assert [session["id"] for session in answer["sessions"]] == listed


async def test_a_call_of_another_app_is_refused_as_clients_of_openai_read_it(
    gateway: RunningGateway, http: httpx.AsyncClient, made: dict[str, Any]
) -> None:
    answer = await http.post(
        HANG_UP.format(session_id=made["id"]), headers={"Authorization": f"Bearer {OTHER_APP}"}
    )
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "not_found")
    assert gateway.inside.sessions.has(made["id"])


@pytest.mark.parametrize("shown", ["token", APP, OPERATOR])
async def test_the_right_one_opens_every_door_of_its_session(
    gateway: RunningGateway, knock: Knock, made: dict[str, Any], shown: str
) -> None:
    secret, session = made.get(shown, shown), made["id"]
    found = [door for door in closed_doors(gateway) if door[1].startswith(OF_A_SESSION)]
    last = ("DELETE", OF_A_SESSION)
    speaking = ("POST", f"{OF_A_SESSION}/text")
    assert await knock(gateway, speaking, session, secret) == 202
    statuses = {door: await knock(gateway, door, session, secret) for door in found if door != last}
    closed = {door for door, status in statuses.items() if status in (401, 403)}
    apps = {door for door in found if door[1].startswith(ROOM) or door[1] == SENDING}
    apps = apps if shown == "token" else set()
    assert closed == apps | (PUBLISHING if shown == "token" else set())
    assert len(apps) in (0, 8)
    assert 500 not in statuses.values(), statuses
    for socket in ("events", "media", "face", "audio"):
        assert statuses[SOCKET, f"{OF_A_SESSION}/{socket}"] == 101
    assert await knock(gateway, last, session, secret) == 204
    assert await knock(gateway, ("GET", OF_A_SESSION), session, secret) == 404


async def test_a_viewer_sees_and_hears_and_changes_nothing(
    gateway: RunningGateway, knock: Knock, made: dict[str, Any]
) -> None:
    path = f"{SESSIONS}/{made['id']}"
    async with GatewayClient(gateway.url, made["token"]) as visitor:
        told = (await visitor.call("POST", f"{path}/token", json={"role": "viewer"})).json()
    assert told["token_role"] == "viewer"
    for door in closed_doors(gateway):
        if not door[1].startswith(OF_A_SESSION):
            continue
        may = door[0] in ("GET", "HEAD", SOCKET) or door[1] in LOOKING_ON
        may = may and not door[1].startswith(ROOM)
        status = await knock(gateway, door, made["id"], told["token"])
        assert (status == 403) is (not may), door
    async with GatewayClient(gateway.url, told["token"]) as viewer:
        async with viewer.connect(f"{path}/events") as events:
            await events.send('{"type": "text", "text": "Hello?"}')
            await events.send('{"type": "ping"}')
            answers = []
            async with asyncio.timeout(10):
                while '"pong"' not in (answers[-1] if answers else ""):
                    answers.append(str(await events.recv()))
        assert any("a viewer looks on" in answer for answer in answers)
        with pytest.raises(websockets.InvalidStatus) as refused:
            await viewer.connect(f"{path}/media?role=speaker")
        assert refused.value.response.status_code == 403
        offer = {"sdp": "none", "type": "offer", "role": "speaker"}
        for where, body in (("webrtc", offer), ("token", {"role": "visitor"})):
            with pytest.raises(GatewayError) as forbidden:
                await viewer.call("POST", f"{path}/{where}", json=body)
            assert forbidden.value.code == "forbidden"
        renewed = (await viewer.call("POST", f"{path}/token")).json()
        assert renewed["token_role"] == "viewer"
        shown = (await viewer.call("GET", path)).json()["persona"]
        assert (made["persona"], shown) == ("Be kind.", "")
    assert gateway.inside.sessions.get(made["id"]).records.all() == []


async def test_an_app_broadcasts_where_the_operator_lets_it(
    gateway: RunningGateway, made: dict[str, Any]
) -> None:
    path = f"{SESSIONS}/{made['id']}/broadcasts"
    body = {"url": "rtmp://other.example/live", "key": "secret"}
    async with GatewayClient(gateway.url, APP) as app:
        with pytest.raises(GatewayError, match="broadcast_hosts") as refused:
            await app.call("POST", path, json=body)
    assert refused.value.code == "forbidden"


async def test_a_token_is_renewed_while_the_session_lives(
    gateway: RunningGateway, made: dict[str, Any]
) -> None:
    path = f"{SESSIONS}/{made['id']}"
    async with GatewayClient(gateway.url, made["token"]) as visitor:
        told = (await visitor.call("POST", f"{path}/token")).json()
        assert told["token_role"] == "visitor" and told["token_expires_in_s"] > 0
        async with GatewayClient(gateway.url, told["token"]) as again:
            await again.call("DELETE", path)
        with pytest.raises(GatewayError, match="there is no"):
            await visitor.call("POST", f"{path}/token")


async def test_a_program_whose_machine_has_slept_goes_on_with_another_token(
    gateway: RunningGateway, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with GatewayClient(gateway.url, APP) as app, app.session() as session:
        awake_s = through_sleep_s() + 86_400
        monkeypatch.setattr("visavis.client.gateway.through_sleep_s", lambda: awake_s)
        path = f"{SESSIONS}/{session.id}"
        with caplog.at_level(logging.INFO, "httpx"):
            for _ in range(2):
                assert (await app.call("GET", path)).json()["id"] == session.id
        asked = [record.getMessage() for record in caplog.records if record.name == "httpx"]
        assert sum(f"{path}/token" in told for told in asked) == 1


async def test_a_place_in_line_is_its_visitors_and_his_apps(
    gateway: RunningGateway, http: httpx.AsyncClient, knock: Knock
) -> None:
    foreign = place = await new_session(gateway, APP)
    while "position" not in place:
        key = {"Authorization": f"Bearer {APP}"}
        place = (await http.post(SESSIONS, json={"queue": True}, headers=key)).json()
    shown = ((place["token"], 200), (APP, 200), (OTHER_APP, 404), (foreign["token"], 403))
    for secret, status in shown:
        for method, path, right in (
            ("GET", f"{OF_A_SESSION}/place", 200),
            (SOCKET, f"{OF_A_SESSION}/place", 101),
            ("POST", f"{OF_A_SESSION}/token", 200),
        ):
            answer = await knock(gateway, (method, path), place["id"], secret)
            assert answer == (right if status == 200 else status), (method, path)
    leaving = ("DELETE", OF_A_SESSION)
    assert await knock(gateway, leaving, place["id"], place["token"]) == 204
    assert gateway.inside.entrance.waiting == 0


async def test_no_token_in_an_address(gateway: RunningGateway, made: dict[str, Any]) -> None:
    async with httpx.AsyncClient(base_url=gateway.url, trust_env=False) as http:
        for name in ("token", "access_token"):
            asked = await http.get(f"{SESSIONS}/{made['id']}?{name}={made['token']}")
            assert "no secret in an address" in problem(asked, 400)


async def test_sessions_keep_their_owner_and_their_tokens_in_another_gateway(
    gateway: RunningGateway, knock: Knock, rig: Rig, settings: dict[str, Any]
) -> None:
    async with another(rig, **settings) as leaving:
        await gateway.inside.registry.refresh()
        made = await new_session(leaving, APP)
        door = ("GET", OF_A_SESSION)
        wanted = ((made["token"], 200), (APP, 200), (OTHER_APP, 404), (OPERATOR, 200))
        for shown, status in wanted:
            assert await knock(gateway, door, made["id"], shown) == status
        await leaving.inside.registry.refresh()
        await drain(leaving)
        assert gateway.inside.sessions.has(made["id"])
        for where in (gateway, leaving):
            for shown, status in wanted:
                assert await knock(where, door, made["id"], shown) == status


async def test_an_app_is_told_when_it_has_enough(
    gateway: RunningGateway, rig: Rig, settings: dict[str, Any]
) -> None:
    """Also of what it has at another gateway."""
    async with another(rig, **settings) as other:
        await gateway.inside.registry.refresh()
        made = await new_session(other, BUSY_APP)
        async with httpx.AsyncClient(base_url=gateway.url, trust_env=False) as http:
            key = {"Authorization": f"Bearer {BUSY_APP}"}
            refused = await http.post(SESSIONS, json={"queue": True}, headers=key | HERE)
            assert "1 open" in problem(refused, 429)
            assert refused.json()["error"]["code"] == "over_limit"
            assert int(refused.headers["Retry-After"]) > 0
            assert (await http.delete(f"{SESSIONS}/{made['id']}", headers=key)).is_success
            assert (await http.post(SESSIONS, json={}, headers=key | HERE)).status_code == 201
        await new_session(gateway, HASTY_APP)
        await new_session(other, HASTY_APP)
        await until(lambda: gateway.inside.sessions.all())
        with pytest.raises(GatewayError, match="2 a minute") as hasty:
            await new_session(gateway, HASTY_APP)
        assert hasty.value.code == "over_limit"
