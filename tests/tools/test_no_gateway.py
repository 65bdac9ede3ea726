"""Commands that talk to a gateway which is not there say so, and what to do."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.api.access import _HOW_TO_SEND_IT as HOW
from visavis.client import GatewayClient, GatewayError
from visavis.client.errors import NoGatewayError
from visavis.serving.errors import VisavisError
from visavis.serving.settings import SERVICES
from visavis.tools.cli import running_gateway
from visavis.tools.cli.main import main
from visavis.tools.cli.running_gateway import gateway_at
from visavis.tools.stack.control import announced
from visavis.tools.stack.nats_server import free_port


@pytest.mark.parametrize(
    "command", [["timeline"], ["cache", "list"], ["cache", "warm"], ["live", "start", "rtmp://x/y"]]
)
def test_who_is_not_there_is_named_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setattr("sys.argv", ["visavis", *command, "--url", url])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    told = capsys.readouterr().err
    assert f"no gateway answers at {url}; start one with `visavis up`" in told and "--url" in told


def served_by(
    monkeypatch: pytest.MonkeyPatch, respond: Callable[[httpx.Request], httpx.Response]
) -> None:
    """Whatever is asked of a gateway is answered so."""

    def client(**options: Any) -> httpx.AsyncClient:
        return real(transport=httpx.MockTransport(respond), base_url=options["base_url"])

    real = httpx.AsyncClient
    monkeypatch.setattr(httpx, "AsyncClient", client)


async def test_bytes_of_a_command_line_that_are_no_text_are_told() -> None:
    async with GatewayClient("http://127.0.0.1:1") as client:
        with pytest.raises(GatewayError, match="a character that is none"):
            await client.call("POST", "/v1/sessions/x/text", json={"text": os.fsdecode(b"\xff")})


@pytest.mark.parametrize(
    ("url", "key", "expected"),
    [
        ("http://127.0.0.1:99999", "", "http://127.0.0.1:99999: ports end at 65535"),
        ("http://[::1:8080", "", "http://[::1:8080: not an address"),
        ("http://127.0.0.1:abc", "", "http://127.0.0.1:abc: not an address"),
        ("127.0.0.1:8080", "", "127.0.0.1:8080: not an address as http://HOST:PORT is one"),
        ("http://127.0.0.1:1", "schlüssel", "the key cannot be sent"),
        ("http://127.0.0.1:1", "secret\n", "the key cannot be sent"),
    ],
)
def test_an_address_or_key_that_is_none_is_told_in_a_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    url: str,
    key: str,
    expected: str,
) -> None:
    monkeypatch.setenv("VISAVIS_GATEWAY_API_KEY", key)
    monkeypatch.setattr("sys.argv", ["visavis", "cache", "list", "--url", url])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().err
    assert (ended.value.code, told.count("\n")) == (1, 1) and expected in told


FULL = 'no room now; try again in about 7 s, or ask for a place in the queue with "queue": true'


@pytest.mark.parametrize(
    ("status", "code", "message", "said", "not_said"),
    [
        (401, "unauthenticated", f"it is unknown here: {HOW}", "--api-key", "Bearer"),
        (429, "at_capacity", FULL, "try again in about 7 s", "queue"),
    ],
)
def test_who_is_refused_is_told_what_a_command_can_do(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    status: int,
    code: str,
    message: str,
    said: str,
    not_said: str,
) -> None:
    def respond(request: httpx.Request) -> httpx.Response:
        wrong = {"code": code, "message": message}
        asked = request.url.path == "/healthz"
        return httpx.Response(200 if asked else status, json={"error": wrong})

    served_by(monkeypatch, respond)
    monkeypatch.setattr("sys.argv", ["visavis", "cache", "list", "--api-key", "wrong"])
    with pytest.raises(SystemExit):
        main()
    told = capsys.readouterr().err
    assert message[:11] in told and said in told and not_said not in told


# ------------------------------------------------------------ one that is not ready yet

URL = "http://127.0.0.1:8080"
NOBODY = httpx.ConnectError("refused")
HERE, READY = httpx.Response(200, json={"status": "ok"}), httpx.Response(200, json={"status": "ok"})
LACKS = httpx.Response(503, json={"status": "…", "missing": {"face": "no replica is running"}})


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[Any]]:
    """What a gateway at URL answers to one request after the other; all of it is asked for."""
    told: list[Any] = []

    def respond(request: httpx.Request) -> httpx.Response:
        answer = told.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    served_by(monkeypatch, respond)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(running_gateway, "_LOOK_S", 0.0)
    yield told
    assert not told


async def test_a_stack_that_is_starting_is_waited_for_with_a_line(
    says: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(running_gateway, "_PATIENCE_S", 0.0)  # as long as it says that it starts
    says += [NOBODY, NOBODY, HERE, LACKS, HERE, LACKS, HERE, READY]
    with announced(8080):
        async with gateway_at(URL, "", SERVICES):
            pass
    assert capsys.readouterr().err == f"The stack at {URL} is starting: waiting for it …\n"


async def test_who_is_not_there_or_does_not_get_ready_is_not_waited_for_for_ever(
    says: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with announced(8081), pytest.raises(NoGatewayError):
        says.append(NOBODY)
        async with gateway_at(URL, "", SERVICES):
            pass
    says += [HERE, LACKS]
    async with gateway_at(URL, "", ["tts"]):
        pass  # which it has
    monkeypatch.setattr(running_gateway, "_PATIENCE_S", 0.0)
    says += [HERE, LACKS, HERE, LACKS]
    with pytest.raises(VisavisError, match="does not get ready: face: no replica is running"):
        async with gateway_at(URL, "", SERVICES):
            pass
