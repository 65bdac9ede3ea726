"""Who may talk to the gateway: a gateway with an API key."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import httpx
import pytest
import websockets

from gateway.__main__ import main
from gateway.settings import GatewaySettings, check_exposure
from tests.gateway.conftest import Rig, RunningGateway, another
from tests.gateway.visiting import problem
from visavis.client import GatewayClient
from visavis.serving.errors import SETTINGS_EXIT_STATUS, SettingsError

SETTINGS = {"api_key": "secret", "allowed_hosts": ["Avatar.Example", "::1"]}


@pytest.mark.asyncio(loop_scope="module")
async def test_everything_but_the_page_wants_the_key(http: httpx.AsyncClient) -> None:
    response = await http.get("/v1/sessions")
    assert "Bearer" in problem(response, 401)
    assert response.headers["WWW-Authenticate"] == "Bearer"
    assert (await http.get("/metrics")).status_code == 401
    assert (await http.get("/healthz")).status_code == 200
    assert "needs an API key" in problem(response, 401)
    for wrong in ("Bearer wrong", "Basic secret", "secret"):
        headers = {"Authorization": wrong}
        assert (await http.get("/v1/sessions", headers=headers)).status_code == 401
    mistyped = await http.get("/v1/sessions", headers={"Authorization": "Bearer wrong"})
    assert "unknown here" in problem(mistyped, 401)
    right = {"Authorization": "Bearer secret"}
    assert (await http.get("/v1/sessions", headers=right)).status_code == 200


@pytest.mark.asyncio(loop_scope="module")
async def test_a_socket_wants_the_key(gateway: RunningGateway) -> None:
    async with GatewayClient(gateway.url, "secret") as client:
        session = (await client.call("POST", "/v1/sessions", json={})).json()["id"]
    url = f"ws{gateway.url.removeprefix('http')}/v1/sessions/{session}/events"
    for wrong in ([], ["visavis"], ["visavis", "bearer.wrong"], ["secret"]):
        with pytest.raises(websockets.InvalidStatus) as refusal:
            await connected(url, *wrong)
        assert refusal.value.response.status_code == 401
    for right, confirmed in (
        (["visavis", "bearer.se%63ret"], "visavis"),
        (["bearer.secret", "visavis"], "visavis"),
        (["bearer.secret"], None),
    ):
        async with connected(url, *right) as socket:
            assert await socket.recv()
            assert socket.subprotocol == confirmed, "the key is not said again"


def connected(url: str, *protocols: str) -> websockets.connect:
    wanted = [websockets.Subprotocol(protocol) for protocol in protocols]
    return websockets.connect(url, subprotocols=wanted or None, proxy=None)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_key_in_an_address_is_refused_and_not_logged(
    rig: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    """However much is logged."""
    caplog.set_level(logging.DEBUG)
    async with (
        another(rig, api_key="secret") as gateway,
        httpx.AsyncClient(base_url=gateway.url, trust_env=False, verify=False) as http,
    ):
        url = f"ws{gateway.url.removeprefix('http')}/v1/sessions/x/media"
        sockets = [(url, 404, b"session")]
        for query in ("api_key=secret", "role=viewer&%61pi_key=secret"):
            assert "Authorization" in problem(await http.get(f"/v1/sessions?{query}"), 400)
            sockets.append((f"{url}?{query}", 400, b"bearer.KEY"))
        for asked, status, said in sockets:
            with pytest.raises(websockets.InvalidStatus) as refusal:
                await connected(asked, "visavis", "bearer.secret")
            assert refusal.value.response.status_code == status
            assert said in (refusal.value.response.body or b"")
    logged = [record for record in caplog.records if record.name.startswith("uvicorn")]
    assert any("/v1/sessions/x/media" in record.getMessage() for record in logged)
    clients = ("httpx", "httpcore", "websockets")
    gateways = [record for record in caplog.records if not record.name.startswith(clients)]
    assert not [record for record in gateways if "secret" in record.getMessage()]
    assert not [record for record in logged if record.levelno >= logging.WARNING]


@pytest.mark.asyncio(loop_scope="module")
async def test_a_foreign_page_is_refused(http: httpx.AsyncClient) -> None:
    for headers, named in (
        ({"Origin": "https://evil.example"}, "evil"),
        ({"Origin": "null"}, "null"),  # as of a sandboxed frame
        ({"Host": "evil.example"}, "evil"),  # as of a name that leads elsewhere now
    ):
        assert named in problem(await http.get("/healthz", headers=headers), 403)
    own = str(http.base_url).rstrip("/")
    # Allowed, however it is written, and what no name can lead to.
    for headers in ({"Origin": own}, {"Host": "avatar.example"}, {"Host": "127.0.0.2:8080"}):
        assert (await http.get("/healthz", headers=headers)).status_code == 200


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("name", ["[", "a]", "[::1", "\u2100".encode().decode("latin-1")])
async def test_a_name_that_cannot_be_one_is_foreign(http: httpx.AsyncClient, name: str) -> None:
    for header, value in (("Host", name), ("Origin", f"http://{name}")):
        response = await http.get("/healthz", headers={header: value.encode("latin-1")})
        assert header.lower() in problem(response, 403)


def test_the_outside_needs_a_key() -> None:
    def settings(**values: str) -> GatewaySettings:
        return GatewaySettings.model_validate(values)

    for host in ("0.0.0.0", "192.168.1.5", "example.org", "::"):
        with pytest.raises(SettingsError, match="VISAVIS_GATEWAY_API_KEY"):
            check_exposure(settings(host=host))
        check_exposure(settings(host=host, api_key="secret"))
    for host in ("127.0.0.1", "::1", "localhost"):
        check_exposure(settings(host=host))
    # Behind a proxy everybody comes from this machine.
    for proxied in ({"allowed_hosts": ["avatar.example"]}, {"trusted_proxies": ["127.0.0.1"]}):
        with pytest.raises(SettingsError, match="API key"):
            check_exposure(settings(**proxied))
        check_exposure(settings(**proxied, api_key="secret"))


def test_the_process_refuses_with_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["gateway", "--host", "0.0.0.0"])
    with pytest.raises(SystemExit) as refusal:
        main()
    assert refusal.value.code == SETTINGS_EXIT_STATUS
    assert "API key" in capsys.readouterr().err


def test_a_key_that_is_none_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "visavis.toml"
    file.write_text("[gateway]\napi_key = 314159\n")
    monkeypatch.setattr("sys.argv", ["gateway", "--config", str(file)])
    with pytest.raises(SystemExit):
        main()
    told = capsys.readouterr().err
    assert "api_key: " in told and "314159" not in told


def test_the_key_may_stand_in_a_file(tmp_path: Path) -> None:
    def settings(**values: Any) -> GatewaySettings:
        made = GatewaySettings.model_validate({"host": "0.0.0.0", **values})
        check_exposure(made)
        return made

    file = tmp_path / "key"
    file.write_text("open sesame\n")
    assert settings(api_key_file=file).key() == "open sesame"
    given = settings(api_key_file=file, api_key="abracadabra")
    assert given.key() == "abracadabra"
    assert "abracadabra" not in repr(given)
    for content in (None, "", "two\nlines"):
        file.unlink() if content is None else file.write_text(content)
        with pytest.raises(SettingsError, match="api_key_file"):
            settings(api_key_file=file)


@pytest.mark.parametrize("name", ["", "https://avatar.example", "cafe:8443", "*.example"])
def test_a_name_that_no_browser_could_ask_for_is_told_at_once(name: str) -> None:
    with pytest.raises(ValueError, match="is not a name such as"):
        GatewaySettings.model_validate({"allowed_hosts": [name]})
