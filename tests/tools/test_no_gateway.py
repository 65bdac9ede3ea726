"""Commands that talk to a gateway which is not there say so, and what to do."""

from __future__ import annotations

import os

import pytest

from visavis.client import GatewayClient, GatewayError
from visavis.tools.cli.main import main
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
