"""Between the network and the doors: TLS, what every answer says, clients that hold others up."""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
import websockets
from aiortc.rtcicetransport import connection_kwargs
from fastapi.routing import APIRoute

from gateway.api.access import origins_pattern
from gateway.edge import self_signed
from gateway.edge.patience import ConnectionGuard, Look, Patience, Verdict, Waits, Watch
from gateway.edge.tls import Tls, open_tls
from gateway.playout.sinks.ice import IceServers
from gateway.playout.sinks.webrtc import configuration
from gateway.settings import GatewaySettings
from tests.gateway.conftest import Rig, RunningGateway, another
from visavis.client import GatewayClient, GatewayError
from visavis.serving.addresses import machine_addresses
from visavis.serving.errors import SettingsError
from visavis.serving.settings import load_settings
from visavis.serving.trust import client_context, own_certificate

SHOP = "https://shop.example"
APP_PAGE = "https://one.apps.example"
SETTINGS: dict[str, Any] = {
    "host": "0.0.0.0",
    "tls_self_signed": True,
    "embed_origins": [SHOP],
    "allowed_origins": ["https://*.apps.example", "http://localhost:5173"],
    "head_timeout_s": 0.2,
    "body_timeout_s": 0.2,
    "ice_servers": [
        "stun:turn.example",
        "turn:turn.example",
        {"urls": ["turn:other.example"], "username": "u", "credential": "p"},
    ],
    "turn_key": "secret",
}
SAID = {
    "content-security-policy",
    "x-content-type-options",
    "referrer-policy",
    "permissions-policy",
    "cross-origin-resource-policy",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    folder = tmp_path_factory.mktemp("edge")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder))
        rig = Rig(folder)
        await rig.start(**SETTINGS)
        yield rig
        await rig.stop()


@pytest_asyncio.fixture(loop_scope="module")
async def http(gateway: RunningGateway) -> AsyncIterator[httpx.AsyncClient]:
    tls = client_context()
    async with httpx.AsyncClient(base_url=gateway.url, trust_env=False, verify=tls) as http:
        yield http


# ------------------------------------------------------------ TLS


@pytest.mark.asyncio(loop_scope="module")
async def test_a_client_of_this_machine_knows_the_certificate_that_was_made(
    gateway: RunningGateway,
) -> None:
    """At every address: over https, and over wss."""
    port = gateway.url.rpartition(":")[2]
    for host in ("127.0.0.1", "localhost", *machine_addresses(v6=False)[:1]):
        async with GatewayClient(f"https://{host}:{port}") as client:
            assert await client.answers()
            async with client.session() as session:
                assert (await anext(session.events()))["type"] == "session"


@pytest.mark.asyncio(loop_scope="module")
async def test_one_that_does_not_is_told_what_to_do(
    gateway: RunningGateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    certificate = own_certificate()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with GatewayClient(gateway.url) as client:
        with pytest.raises(GatewayError, match=r"SSL_CERT_FILE") as told:
            await client.answers()
        assert told.value.code == "untrusted"
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with GatewayClient(gateway.url) as client:
        assert await client.answers()
    async with GatewayClient(gateway.url.replace("https", "http")) as client:
        with pytest.raises(GatewayError, match="https"):
            await client.answers()


@pytest.mark.asyncio(loop_scope="module")
async def test_gateways_know_each_other_by_their_certificate(
    rig: Rig, gateway: RunningGateway
) -> None:
    async with (
        another(rig, **SETTINGS) as other,
        GatewayClient(gateway.url) as client,
        client.session() as session,
        GatewayClient(other.url) as there,
    ):
        await other.inside.registry.refresh()
        path = f"/v1/sessions/{session.id}"
        answer = await there.call("GET", path)
        assert answer.json()["id"] == session.id
        assert answer.headers.get_list("x-content-type-options") == ["nosniff"]
        async with there.connect(f"{path}/events") as events:
            assert '"session"' in str(await events.recv())
        targets = (await there.call("GET", "/v1/metrics-targets")).json()
        schemes = [t["labels"].get("__scheme__") for t in targets]
        assert schemes.count("https") == 2


def test_a_certificate_of_our_own_is_kept_while_it_will_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    now = datetime.now(UTC)
    files = self_signed.ensure(now)
    first = [file.read_bytes() for file in files]
    assert [file.stat().st_mode & 0o777 for file in files] == [0o600, 0o600]
    assert self_signed.ensure(now + timedelta(days=300)) == files
    assert [file.read_bytes() for file in files] == first
    self_signed.ensure(now + timedelta(days=340))
    assert all(file.read_bytes() != before for file, before in zip(files, first, strict=True))
    ahead = files[0].read_bytes()
    self_signed.ensure(now)
    assert files[0].read_bytes() != ahead, "no browser would take it once the clock is set right"
    files[1].write_bytes(first[1])  # written in part, by a process that was killed
    self_signed.ensure(now)
    Tls(lambda: files)


def test_an_address_that_the_machine_has_now_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    certificate, _ = self_signed.ensure()
    before = certificate.read_bytes()
    monkeypatch.setattr(self_signed, "machine_addresses", lambda **_: ["198.51.100.7"])
    self_signed.ensure()
    assert certificate.read_bytes() != before


def test_a_certificate_that_changes_is_shown_without_a_restart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    files = self_signed.ensure(datetime.now(UTC) - timedelta(days=340))
    tls = Tls(lambda: files)
    assert not tls.look()
    old = shown(tls.server, tls.peers)
    self_signed.ensure()
    tls.look_again()
    assert shown(tls.server, tls.peers) != old
    files[0].write_text("no certificate")
    new = shown(tls.server, tls.peers)
    tls.look_again()
    assert shown(tls.server, tls.peers) == new


def shown(server: ssl.SSLContext, client: ssl.SSLContext) -> bytes | None:
    """The certificate that a client gets to see, and believes."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours, theirs = server.wrap_bio(up, down, server_side=True), client.wrap_bio(down, up)
    waiting = [theirs, ours]
    while waiting:
        side = waiting.pop(0)
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            waiting.append(side)
    return theirs.getpeercert(binary_form=True)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"tls_cert": "x.pem"}, "both are needed"),
        ({"tls_cert": "x.pem", "tls_key": "y.pem"}, "cannot read x.pem"),
        ({"tls_cert": __file__, "tls_key": __file__}, "are not a certificate and its key"),
        ({"tls_cert": "x.pem", "tls_key": "y.pem", "tls_self_signed": True}, "given already"),
    ],
)
def test_settings_that_give_no_tls_are_told(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        open_tls(GatewaySettings.model_validate(settings))


@pytest.mark.parametrize("origin", ["shop.example", "https://a b", "https://a; x", "https://a/b"])
def test_an_origin_that_is_none_is_refused(origin: str) -> None:
    with pytest.raises(ValueError, match="is not an origin"):
        GatewaySettings(embed_origins=[origin])


def test_an_origin_that_no_browser_sends_is_refused() -> None:
    with pytest.raises(ValueError, match="leave its port out"):
        GatewaySettings(allowed_origins=["https://shop.example:443"])
    GatewaySettings(allowed_origins=["http://shop.example:443", "http://[fd00::1]:5173"])
    with pytest.raises(ValueError, match="is not an origin"):  # no policy can name it
        GatewaySettings(embed_origins=["http://[fd00::1]:5173"])


# ------------------------------------------------------------ what answers say


@pytest.mark.asyncio(loop_scope="module")
async def test_every_answer_says_what_browsers_may_do_with_it(
    gateway: RunningGateway, http: httpx.AsyncClient
) -> None:
    """Of whatever route, whether it can answer or not."""
    asked = [("GET", path) for path in ("/", "/docs", "/static/main.js", "/nowhere", "/livez")]
    for route in gateway.app.routes:
        if isinstance(route, APIRoute):
            path = re.sub(r"\{\w+\}", "none", route.path)
            asked += [(method, path) for method in sorted(route.methods)]
    for method, path in asked:
        async with http.stream(method, path) as answer:
            missing = {*SAID, "strict-transport-security", "cross-origin-opener-policy"} - {
                *answer.headers
            }
            assert not missing, f"{method} {path}: {answer.status_code} lacks {missing}"
            assert len(answer.headers.get_list("content-security-policy")) == 1
            if path.startswith("/v1/sessions"):
                assert answer.headers["cache-control"] == "no-store"
            if path.startswith("/static"):  # or a page would be of two versions after an upgrade
                assert answer.headers["cache-control"] == "no-cache"
            framed_by = answer.headers["content-security-policy"].partition("frame-ancestors ")[2]
            assert framed_by == f"'self' {SHOP}"
            assert f'microphone=(self "{SHOP}")' in answer.headers["permissions-policy"]


@pytest.mark.asyncio(loop_scope="module")
async def test_pages_of_allowed_origins_use_the_api_and_no_others(
    gateway: RunningGateway, http: httpx.AsyncClient
) -> None:
    before = {
        "Origin": APP_PAGE,
        "Access-Control-Request-Method": "POST",
        # As OpenAI's SDK for JavaScript asks.
        "Access-Control-Request-Headers": "authorization,content-type,x-stainless-lang",
    }
    for origin, may in ((APP_PAGE, True), ("https://apps.example", False), (SHOP, False)):
        answer = await http.options("/v1/sessions", headers={**before, "Origin": origin})
        assert answer.is_success is may, origin
        answer = await http.get("/v1/sessions", headers={"Origin": origin})
        assert answer.status_code == (200 if may else 403)
        assert answer.headers.get("access-control-allow-origin") == (origin if may else None)
        assert answer.headers["cross-origin-resource-policy"] == "cross-origin"
    async with GatewayClient(gateway.url) as client, client.session() as session:
        url = f"wss{gateway.url.removeprefix('https')}/v1/sessions/{session.id}/events"
        for origin, may in ((APP_PAGE, True), (SHOP, False)):
            opening = websockets.connect(
                url, origin=websockets.Origin(origin), ssl=client.tls, proxy=None
            )
            if may:
                async with opening as events:
                    assert '"session"' in str(await events.recv())
            else:
                with pytest.raises(websockets.InvalidStatus):
                    await opening


def test_an_origin_is_matched_whole() -> None:
    known = ["https://a.shop.example", "https://a.b.shop.example", "http://here:8"]
    foreign = [
        "https://shop.example",
        "https://evilshop.example",
        "https://a.shop.example.evil",
        "http://a.shop.example",
        "https://a.shopxexample",
        "http://here:80",
        "null",
    ]
    pattern = origins_pattern(["https://*.shop.example", "http://here:8"])
    assert [origin for origin in [*known, *foreign] if re.fullmatch(pattern, origin)] == known
    assert not any(re.fullmatch(origins_pattern([]), origin) for origin in known)


@pytest.mark.asyncio(loop_scope="module")
async def test_by_plain_http_nothing_is_said_of_tls(rig: Rig) -> None:
    """Nor is anybody but a proxy of ours believed who says that he was asked by https."""
    async with another(rig, trusted_proxies=["127.0.0.2"]) as gateway:
        for address, believed in (("127.0.0.1", False), ("127.0.0.2", True)):
            way = httpx.AsyncHTTPTransport(local_address=address)
            told = {"X-Forwarded-Proto": "https"}
            async with httpx.AsyncClient(transport=way, headers=told) as http:
                answer = await http.get(f"{gateway.url}/healthz")
            assert {*SAID} <= {*answer.headers}
            assert ("strict-transport-security" in answer.headers) is believed
            assert "frame-ancestors 'self'" in answer.headers["content-security-policy"]
            assert "server" not in answer.headers


@pytest.mark.asyncio(loop_scope="module")
async def test_a_page_is_told_the_servers_of_its_session(gateway: RunningGateway) -> None:
    async with GatewayClient(gateway.url) as client, client.session() as session:
        told = await client.call("GET", f"/v1/sessions/{session.id}/ice-servers")
    stun, turn, own = told.json()["ice_servers"]
    assert stun == {"urls": ["stun:turn.example"], "username": "", "credential": ""}
    assert turn["username"].endswith(f":{session.id}")
    assert int(turn["username"].partition(":")[0]) > time.time() + 86_000
    assert turn["credential"]
    assert own["username"] == "u"


def test_a_turn_servers_password_is_what_it_makes_of_its_secret() -> None:
    """As `printf 1700086400:abc | openssl dgst -sha1 -hmac secret -binary | base64` has it."""
    (told,) = IceServers(["turn:turn.example"], "secret", 86_400).of("abc", 1_700_000_000.5)
    assert told.username == "1700086400:abc"
    assert told.credential == "0OrSUldgWXBwpUJwwothdtlrU8w="


def test_a_turn_server_by_ipv6_is_for_browsers_alone() -> None:
    told = IceServers(["turn:[fd00::1]:3478", "turn:turn.example"], "secret", 60).of("abc", 0)
    assert [server.urls for server in told] == [["turn:[fd00::1]:3478"], ["turn:turn.example"]]
    assert connection_kwargs(configuration(told).iceServers)["turn_server"] == (
        "turn.example",
        3478,
    )


@pytest.mark.parametrize(
    "url",
    [
        *("stun.example:3478", "stun:h:x", "stun://h", "stun:h?transport=udp", "turn:"),
        *("turn:h?transport=sctp", "turn:h:65536", "turn:u:p@h"),
        *("stun:turn..example", f"stun:{'h' * 64}.example"),
    ],
)
def test_a_server_that_nobody_could_ask_is_told_at_once(url: str) -> None:
    for server in (url, {"urls": ["stun:turn.example", url]}):
        with pytest.raises(ValueError, match="none such as"):
            GatewaySettings.model_validate({"ice_servers": ["turns:h?transport=tcp", server]})


def test_a_password_that_is_not_understood_is_not_told() -> None:
    with pytest.raises(SettingsError, match="ice_servers") as told:
        wrong = '[{"urls": ["turn:x"], "password": "hush"}]'
        load_settings(GatewaySettings, ["--ice-servers", wrong], prog="gateway")
    assert "hush" not in str(told.value)


# ------------------------------------------------------------ who holds others up


POST = "POST /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\n"


class Raw:
    """A connection that says what it is told to, and no more."""

    def __init__(self, gateway: RunningGateway) -> None:
        self._port = int(gateway.url.rpartition(":")[2])
        self._tls = client_context() if gateway.url.startswith("https") else None

    async def __aenter__(self) -> Raw:
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", self._port, ssl=self._tls
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        self.writer.close()

    async def say(self, text: str) -> None:
        self.writer.write(text.encode())
        await self.writer.drain()

    async def rest(self) -> str:
        """All that comes until the gateway closes, or is not to be told any more."""
        came = b""
        with contextlib.suppress(ConnectionError):
            while some := await self.reader.read(65_536):
                came += some
        return came.decode()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "begun",
    [
        "GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
        "POST /v1/sessions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{",
    ],
    ids=["head", "body"],
)
async def test_a_request_that_drips_is_ended(gateway: RunningGateway, begun: str) -> None:
    async with Raw(gateway) as raw:
        await raw.say(begun)

        async def drip() -> None:
            while True:
                await raw.say("x")
                await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        answer = await raw.rest()
        dripping.cancel()
        await asyncio.gather(dripping, return_exceptions=True)
    assert answer.startswith("HTTP/1.1 408 ")
    assert '"code": "timeout"' in answer
    assert "Content-Security-Policy: " in answer


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "head", ["nonsense", f"{POST}Content-Length: 3\r\nTransfer-Encoding: chunked"]
)
async def test_what_is_no_http_is_told_so(gateway: RunningGateway, head: str) -> None:
    async with Raw(gateway) as raw:
        await raw.say(f"{head}\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n")
        answer = await raw.rest()
    assert answer.startswith("HTTP/1.1 400 ")
    assert '"code": "bad_request"' in answer
    assert "X-Content-Type-Options: nosniff" in answer


@pytest.mark.asyncio(loop_scope="module")
async def test_a_connection_too_many_is_told_so_and_a_sign_of_life_is_given(rig: Rig) -> None:
    ask = "GET {} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    async with (
        another(rig, max_connections=4, api_key="secret") as gateway,
        contextlib.AsyncExitStack() as many,
    ):
        for _ in range(4):
            raw = await many.enter_async_context(Raw(gateway))
            await raw.say("G")  # so that it is known there before the next one
        for path, answer in (("/healthz", "503"), ("/livez", "200")):
            async with Raw(gateway) as late:
                await late.say(ask.format(path))
                told = await late.rest()
            assert told.startswith(f"HTTP/1.1 {answer} ")
            assert (
                ('"code": "at_capacity"' in told) is ("Retry-After: " in told) is (answer != "200")
            )


PATIENCE = Patience(connections=4, head_s=10, body_s=20, body_bytes_s=1000, stalled_s=30)


class Open:
    """A connection that does nothing."""

    def look(self) -> Look:
        return Look(Waits.NOTHING, None, 0, 0)

    def late(self) -> None: ...

    def cut_off(self) -> None: ...


@pytest.mark.asyncio
async def test_one_client_leaves_half_of_the_connections_to_others() -> None:
    guard = ConnectionGuard(PATIENCE, ["10.0.0.0/8"])
    one, again = Open(), Open()
    assert guard.add(one, "2001:db8::1") and guard.add(Open(), "2001:db8::2")
    assert not guard.add(Open(), "2001:db8::3")
    guard.drop(one)
    assert guard.add(again, "2001:db8::3")
    assert guard.add(Open(), "2001:db8:0:1::1") and guard.add(Open(), "::ffff:192.0.2.1")
    assert not guard.add(Open(), "192.0.2.2"), "there are no more of them"

    for many in ("10.1.2.3", "127.0.0.1", ""):
        guard = ConnectionGuard(PATIENCE, ["10.0.0.0/8"])
        assert [guard.add(Open(), many) for _ in range(5)] == [True] * 4 + [False]
    for mapped in ("::ffff:192.0.2.1", "192.0.2.1"):
        guard = ConnectionGuard(PATIENCE)
        assert [guard.add(Open(), mapped) for _ in range(3)] == [True, True, False]


def test_a_body_that_comes_fast_enough_may_take_long() -> None:
    watch, request = Watch(0.0), object()
    for second in range(0, 300, 5):
        fast = Look(Waits.BODY, request, second * 1000, 0)
        assert watch.judge(fast, PATIENCE, second) is Verdict.STAYS
    slow = Watch(0.0)
    verdicts = [slow.judge(Look(Waits.BODY, request, 0, 0), PATIENCE, i) for i in range(30)]
    assert verdicts.index(Verdict.LATE) == 21


def test_requests_that_follow_each_other_are_not_taken_for_one() -> None:
    watch = Watch(0.0)
    for second in range(0, 100, 4):
        look = Look(Waits.HEAD, object(), 10 * second, 0)
        assert watch.judge(look, PATIENCE, second) is Verdict.STAYS


def test_who_reads_slowly_stays_and_who_reads_nothing_does_not() -> None:
    slow, stalled = Watch(0.0), Watch(0.0)
    verdicts = []
    for second in range(100):
        left = 60_000 - 100 * (second % 20)
        look = Look(Waits.NOTHING, None, 0, left)
        assert slow.judge(look, PATIENCE, second) is Verdict.STAYS
        verdicts.append(stalled.judge(Look(Waits.NOTHING, None, 0, 60_000), PATIENCE, second))
    assert verdicts.index(Verdict.STALLED) == 31
