"""What keeps the gateway from starting is told in one line, with a status that says its kind."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from gateway.__main__ import main
from visavis.serving.errors import SETTINGS_EXIT_STATUS
from visavis.tools.stack.nats_server import NatsServer


@pytest.mark.parametrize("name", ["answers", "knowledge", "mcp", "room-words"])
def test_a_file_that_is_not_there_is_a_wrong_setting(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    """No bus is waited for: whoever started it is told at once, and does not try again."""
    monkeypatch.setattr("sys.argv", ["gateway", "--port", "0", f"--{name}", "nope"])
    with pytest.raises(SystemExit) as refusal:
        main()
    assert refusal.value.code == SETTINGS_EXIT_STATUS
    (told,) = capsys.readouterr().err.splitlines()
    assert told.startswith(f"gateway: {name.replace('-', '_')}: ") and "nope" in told


def test_what_fails_once_it_has_begun_is_told_without_a_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with NatsServer(tmp_path) as bus, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        flags = ["--port", "0", "--nats-url", bus.url, "--wyoming-port", port]
        monkeypatch.setattr("sys.argv", ["gateway", *flags])
        with pytest.raises(SystemExit) as refusal:
            main()
    assert refusal.value.code == 1
    told = capsys.readouterr().err
    assert told.splitlines()[-1].startswith("gateway: wyoming_port: cannot listen on ")
    assert "Traceback" not in told
