"""What nginx and Caddy hand on with the configurations of docs/proxies.md."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import pytest
import websockets

from gateway.edge import server
from gateway.settings import GatewaySettings
from tests.gateway.conftest import RunningGateway
from tests.gateway.edge.test_edge import SAID
from tests.proxies.conftest import KEY, Pausing, ProxiedRig
from tests.proxies.programs import NAME, Proxy, behind_a_proxy, needs, proxy, written

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHOWN = {"Authorization": f"Bearer {KEY}"}
# A minute of nginx's patience and the gateway's pings, both so many times as fast.
FASTER = 30
PHOTO_BYTES, RECORDING_BYTES, TOO_LARGE_BYTES = 3_000_000, 24_900_000, 20_200_000


@asynccontextmanager
async def visiting(
    front: Proxy, *, name: str = NAME, address: str = "127.0.0.1"
) -> AsyncIterator[httpx.AsyncClient]:
    """Who asks the proxy from `address` for this name."""
    transport = httpx.AsyncHTTPTransport(verify=False, local_address=address)
    async with httpx.AsyncClient(
        base_url=f"https://127.0.0.1:{front.port}",
        headers={"Host": f"{name}:{front.port}", **SHOWN},
        transport=transport,
        timeout=30,
        event_hooks={"request": [_named]},
    ) as http:
        yield http


async def _named(request: httpx.Request) -> None:
    request.extensions["sni_hostname"] = NAME


def events_of(
    front: Proxy, session: str, token: str, *, address: str = "127.0.0.1", **headers: str
) -> websockets.connect:
    """The events' WebSocket by the proxy, as a page opens it, which sends no pings of its own."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    return websockets.connect(
        f"wss://{NAME}:{front.port}/v1/sessions/{session}/events",
        host="127.0.0.1",
        port=front.port,
        local_addr=(address, 0),
        ssl=tls,
        subprotocols=[websockets.Subprotocol(p) for p in ("visavis", f"bearer.{token}")],
        additional_headers=headers,
        origin=websockets.Origin(front.url),
        ping_interval=None,
        proxy=None,
    )


# ------------------------------------------------------------ what a proxy has to hand on


async def test_photos_and_recordings_pass(
    rig: ProxiedRig, gateway: RunningGateway, front: Proxy
) -> None:
    async with visiting(front) as http:
        form = {"name": f"of-{front.kind}", "consent": "true"}
        made = await http.post(
            "/v1/avatars", data=form, files={"photo": b"\xff\xd8" + bytes(PHOTO_BYTES)}
        )
        assert made.is_success, made.text
        refused = await http.post(
            "/v1/avatars", data=form, files={"photo": b"\xff\xd8" + bytes(TOO_LARGE_BYTES)}
        )
        assert refused.status_code == 413
        assert refused.json()["error"]["message"], "the gateway says so, not the proxy"
        recording = {"file": ("a.wav", bytes(RECORDING_BYTES))}
        heard = await http.post(
            "/v1/audio/transcriptions", data={"model": "whisper-1"}, files=recording
        )
        assert heard.status_code != 413, heard.text


async def test_an_answer_leaves_as_it_comes(gateway: RunningGateway, front: Proxy) -> None:
    Pausing.go_on = asyncio.Event()
    asked = {"model": "visavis", "stream": True, "messages": [{"role": "user", "content": "Hello"}]}
    async with visiting(front) as http, asyncio.timeout(20):
        async with http.stream("POST", "/v1/chat/completions", json=asked) as answer:
            assert answer.status_code == 200
            lines = answer.aiter_lines()
            async for line in lines:
                if "Hello" in line:
                    break
            Pausing.go_on.set()
            assert "[DONE]" in "".join([line async for line in lines])


async def test_answers_say_what_browsers_may_do(gateway: RunningGateway, front: Proxy) -> None:
    async with visiting(front) as http:
        for path in ("/", "/v1/services", "/v1/nothing"):
            said = (await http.get(path)).headers
            assert SAID <= {*said}, path
            assert said.get_list("strict-transport-security") == ["max-age=31536000"]
            assert said["cross-origin-opener-policy"] == "same-origin"


async def test_the_visitors_address_is_the_proxys_word(
    gateway: RunningGateway, front: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    """A trusted proxy tells it; visitors who send the header themselves are not believed."""
    caplog.set_level(logging.INFO, "uvicorn.error")
    lie = {"X-Forwarded-For": "203.0.113.9", "X-Forwarded-Proto": "https"}
    async with visiting(front) as http:
        made = (await http.post("/v1/sessions", json={})).json()
    async with events_of(front, made["id"], made["token"], address="127.0.0.2", **lie):
        pass
    straight = httpx.AsyncHTTPTransport(local_address="127.0.0.3")
    async with httpx.AsyncClient(transport=straight) as http:
        answer = await http.get(f"{gateway.url}/healthz", headers={**SHOWN, **lie})
    assert "strict-transport-security" not in answer.headers
    path = f"{gateway.url.replace('http', 'ws')}/v1/sessions/{made['id']}/events"
    async with websockets.connect(
        path, additional_headers={**SHOWN, **lie}, local_addr=("127.0.0.3", 0), proxy=None
    ):
        pass
    came = [record.getMessage() for record in caplog.records]
    addresses = [line.split(" ", 1)[0].rpartition(":")[0] for line in came if "/events" in line]
    assert addresses == ["127.0.0.2", "127.0.0.3"]


async def test_tokens_open_their_session_alone(gateway: RunningGateway, front: Proxy) -> None:
    async with visiting(front) as http:
        made, other = [(await http.post("/v1/sessions", json={})).json() for _ in range(2)]
        shown = {"Authorization": f"Bearer {made['token']}"}
        own, foreign = (f"/v1/sessions/{session['id']}" for session in (made, other))
        assert (await http.get(own, headers=shown)).status_code == 200
        assert (await http.get(foreign, headers=shown)).status_code == 403
        assert (await http.get(own, headers={"Authorization": ""})).status_code == 401
    async with events_of(front, made["id"], made["token"]) as events:
        assert events.subprotocol == "visavis"
        assert json.loads(await events.recv())["type"] == "session"
    with pytest.raises(websockets.InvalidStatus) as refused:
        await events_of(front, other["id"], made["token"])
    assert refused.value.response.status_code == 403


async def test_another_name_is_refused(gateway: RunningGateway, front: Proxy) -> None:
    async with visiting(front, name="other.test") as http:
        answer = await http.get("/v1/services")
    if front.kind == "nginx":
        assert answer.status_code == 403
        assert answer.json()["error"]["code"] == "forbidden_host"
    else:  # it has no such site, and asks the gateway nothing
        assert answer.content == b"" and "nosniff" not in str(answer.headers)


async def test_caddy_closes_connections_before_the_gateway_does(tmp_path: Path) -> None:
    """Else a request that cannot be sent twice meets the closing: Caddy answers 502."""
    needs("caddy")
    (tmp_path / "Caddyfile").write_text(written("caddyfile"))
    command = ["caddy", "adapt", "--config", str(tmp_path / "Caddyfile")]
    told = await asyncio.to_thread(subprocess.run, command, capture_output=True, check=True)
    (nanoseconds,) = re.findall(rb'"keep_alive":\{"idle_timeout":(\d+)', told.stdout)
    assert int(nanoseconds) / 1e9 < GatewaySettings.model_fields["keep_alive_s"].default - 5


# ------------------------------------------------------------ what nginx does unless it is told


async def test_quiet_sockets_live_by_the_gateways_pings(
    rig: ProxiedRig,
    gateway: RunningGateway,
    certificate: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All times are shorter by FASTER: of two sockets nginx ends the one that is never pinged."""
    needs("nginx")
    settings = {"nats_url": rig.nats.url, "api_key": KEY, **behind_a_proxy()}
    shorter = {"proxy_read_timeout 60s": f"proxy_read_timeout {60_000 // FASTER}ms"}
    async with AsyncExitStack() as stack:
        sockets = []
        for name, every_s in (("pinged", server._PING_EVERY_S / FASTER), ("silent", 3600)):
            monkeypatch.setattr(server, "_PING_EVERY_S", every_s)
            running = RunningGateway(GatewaySettings.model_validate(settings))
            await running.start()
            stack.push_async_callback(running.stop)
            front = await stack.enter_async_context(
                proxy("nginx", tmp_path / name, running.url, certificate, shorter)
            )
            async with visiting(front) as http:
                made = (await http.post("/v1/sessions", json={})).json()
            socket = await stack.enter_async_context(events_of(front, made["id"], made["token"]))
            assert json.loads(await socket.recv())["type"] == "session"
            sockets.append(socket)
        pinged, silent = sockets
        async with asyncio.timeout(20 + 60 / FASTER):
            with pytest.raises(websockets.ConnectionClosedError):
                while True:
                    await silent.recv()
        await asyncio.sleep(0.5)  # the other was opened before it, and nginx is as late with both
        async with asyncio.timeout(5):
            await (await pinged.ping())


async def test_a_proxy_that_hides_the_name_is_told_by_the_page(
    rig: ProxiedRig, gateway: RunningGateway, certificate: tuple[Path, Path], tmp_path: Path
) -> None:
    """nginx's default `Host` is the gateway's own: what gives it away is the page's origin."""
    needs("nginx")
    hidden = {"proxy_set_header Host $http_host;": ""}
    statuses = []
    for number, named in enumerate(({}, {"allowed_hosts": [NAME]})):
        settings = {"nats_url": rig.nats.url, "api_key": KEY, **named}
        running = RunningGateway(GatewaySettings.model_validate(settings))
        await running.start()
        folder = tmp_path / str(number)
        async with (
            proxy("nginx", folder, running.url, certificate, hidden) as front,
            visiting(front) as http,
        ):
            assert (await http.get("/v1/services")).status_code == 200
            answer = await http.get("/v1/services", headers={"Origin": front.url})
            statuses.append(answer.json().get("error", {}).get("code", answer.status_code))
        await running.stop()
    assert statuses == ["forbidden_origin", 200]
