"""What is wrong with what `visavis up` is told, said before anything is pulled or started; and what
ends it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from visavis.serving.errors import SettingsError
from visavis.tools.cli import up
from visavis.tools.cli.main import app
from visavis.tools.cli.up import replica_counts
from visavis.tools.stack.control import ask_restart, socket_path
from visavis.tools.stack.nats_server import CannotListenError
from visavis.tools.stack.supervisor import StackOptions


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("nose=2", "no service 'nose'; known are asr, llm, tts, face, gateway"),
        ("face", "'face': a number from 1 to 32"),
        ("face=two", "'face=two': a number from 1 to 32"),
        ("face=0", "from 1 to 32"),
        ("face=-1", "from 1 to 32"),
        ("face=33", "from 1 to 32"),
        ("face=2,face=3", "face is named twice"),
    ],
)
def test_replicas_are_counted_by_service_and_what_is_wrong_is_named(wrong: str, said: str) -> None:
    with pytest.raises(typer.BadParameter, match=said):
        replica_counts(wrong)
    assert replica_counts("") == {}
    assert replica_counts("face=2, tts = 3,gateway=1") == {"face": 2, "tts": 3, "gateway": 1}


class BeganError(Exception):
    """All was in order: weights would be pulled now."""


@pytest.fixture(autouse=True)
def _nothing_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    def begin(*_: object) -> None:
        raise BeganError

    monkeypatch.setattr(up, "chosen_bundles", begin)
    for name in [name for name in os.environ if name.startswith("VISAVIS_GATEWAY_")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("option", "given", "said"),
    [
        ("--replicas", "nose=2", "nose"),
        ("--config", "nope", "'nope' does not exist"),
        ("--answers", "nope", "'nope' does not exist"),
        ("--knowledge", "nope", "'nope' does not exist"),
        ("--tls-cert", "nope", "'nope' does not exist"),
        ("--tls-key", "nope", "'nope' does not exist"),
    ],
)
def test_what_cannot_be_is_told_at_once(option: str, given: str, said: str) -> None:
    result = CliRunner().invoke(app, ["up", option, given])
    assert result.exit_code == 2
    assert option in result.output and said in result.output


@pytest.mark.parametrize(
    ("told", "said"), [("[gateway\n", "not TOML"), ("[gatway]\n", "unknown section 'gatway'")]
)
def test_a_configuration_that_cannot_be_is_told_at_once(
    tmp_path: Path, told: str, said: str
) -> None:
    file = tmp_path / "visavis.toml"
    file.write_text(told)
    error = CliRunner().invoke(app, ["up", "--port", "0", "--config", str(file)]).exception
    assert isinstance(error, SettingsError) and said in str(error)


def test_a_port_that_is_taken_is_told_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        error = CliRunner().invoke(app, ["up", "--port", port]).exception
    assert isinstance(error, CannotListenError) and port in str(error)


def test_a_stack_whose_logs_would_be_mixed_with_another_ones_is_told_so(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(socket_path(tmp_path, 8090)))
        other.listen()
        result = CliRunner().invoke(app, ["up", "--port", "0", "--logs", str(tmp_path)])
    assert "The stack at port 8090 has its logs in" in result.output
    assert "--logs" in result.output


@pytest.mark.parametrize(
    ("told", "environment", "wanted"),
    [
        ("", {}, SettingsError),
        ("[gateway]\nport = 8080\n", {}, SettingsError),
        ("[gateway]\naccess_file = 'keys.toml'\n", {}, BeganError),
        ("", {"VISAVIS_GATEWAY_API_KEY": "secret"}, BeganError),
        ("", {"VISAVIS_GATEWAY_ACCESS_FILE": "keys.toml"}, BeganError),
    ],
)
def test_who_would_be_reached_without_a_key_is_told_at_once(
    tmp_path: Path, told: str, environment: dict[str, str], wanted: type[Exception]
) -> None:
    file = tmp_path / "visavis.toml"
    file.write_text(told)
    flags = ["up", "--host", "0.0.0.0", "--port", "0", "--config", str(file)]
    error = CliRunner(env=environment).invoke(app, flags).exception
    assert isinstance(error, wanted), error
    if wanted is SettingsError:
        assert "0.0.0.0" in str(error) and "--api-key-file" in str(error)


@pytest.mark.parametrize(
    ("flags", "environment", "place"),
    [
        ([], {}, ("127.0.0.2", 9000)),
        ([], {"HOST": "127.0.0.3"}, ("127.0.0.3", 9000)),
        (["--port", "9002"], {"HOST": "127.0.0.3", "PORT": "9001"}, ("127.0.0.3", 9002)),
        (["--host", "127.0.0.4"], {"PORT": "9001"}, ("127.0.0.4", 9001)),
    ],
)
def test_the_pages_place_is_a_setting_like_others(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    flags: list[str],
    environment: dict[str, str],
    place: tuple[str, int],
) -> None:
    asked: list[tuple[str, int]] = []
    monkeypatch.setattr(up, "check_listening", lambda *place: asked.append(place))
    file = tmp_path / "visavis.toml"
    file.write_text("[gateway]\nhost = '127.0.0.2'\nport = 9000\n")
    variables = {f"VISAVIS_GATEWAY_{name}": value for name, value in environment.items()}
    for where, more in (({}, ["--config", str(file)]), ({"VISAVIS_GATEWAY_CONFIG": str(file)}, [])):
        command = ["up", "--logs", str(tmp_path / "logs"), *more, *flags]
        error = CliRunner(env=variables | where).invoke(app, command).exception
        assert isinstance(error, BeganError), error
    assert asked == [place, place]


@pytest.mark.parametrize(
    ("told", "environment", "said"),
    [
        ("[gateway]\nport = 'nine'\n", {}, "[gateway] port: not from 0 to 65535: 'nine'"),
        ("[gateway]\nhost = 8\n", {}, "[gateway] host: no address: 8"),
        ("[tts]\nprofile = 'tiny'\n", {}, "[tts] profile: tiny, but all services of a stack"),
        ("", {"VISAVIS_LLM_PROFILE": "edge"}, "take it away, or give --profile edge"),
    ],
)
def test_a_setting_that_a_stack_cannot_have_is_told_at_once(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    told: str,
    environment: dict[str, str],
    said: str,
) -> None:
    monkeypatch.setattr(up, "check_listening", lambda *place: None)
    file = tmp_path / "visavis.toml"
    file.write_text(told)
    command = ["up", "--config", str(file), "--logs", str(tmp_path / "logs")]
    error = CliRunner(env=environment).invoke(app, command).exception
    assert isinstance(error, SettingsError) and said in str(error), error


# ------------------------------------------------------------ what ends it


class ClosedTerminal(StringIO):
    """As its window leaves it."""

    def write(self, text: str) -> int:
        raise OSError(5, "Input/output error")


def stack_of(is_ready: Callable[[], None]) -> Any:
    """In the place of a stack: nothing of one but how it is begun and ended."""

    class Stack:
        ended = False

        replicas: Sequence[Any] = ()
        processes: Sequence[Any] = ()
        urls: Sequence[str] = ()
        url, scheme, port, ready_s = "http://x", "http", 1, 1.0
        anything_started, nats = True, SimpleNamespace(url="")

        def __init__(self, options: StackOptions) -> None:
            self.options = options
            self.starting = {"face": "compiling"}
            self.busy = ""

        async def __aenter__(self) -> None:
            is_ready()

        async def stop(self) -> None:
            Stack.ended = True

    return Stack


def run_up(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    stack: Any,
    hangup: signal.Handlers = signal.SIG_DFL,
) -> None:
    """hangup: what is left to it to do at one, whatever the tests themselves were begun with."""
    monkeypatch.setattr(up, "Stack", stack)
    for name in ("chosen_bundles", "pull_missing", "_tell_of_the_stack"):
        monkeypatch.setattr(up, name, lambda *_: [])
    before = signal.signal(signal.SIGHUP, hangup)
    try:
        up.up(port=0, logs=folder)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_stack_is_ended_in_order_where_the_terminal_was_closed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    stack = stack_of(lambda: os.kill(os.getpid(), signal.SIGHUP))
    monkeypatch.setattr(sys, "stdout", ClosedTerminal())
    run_up(monkeypatch, tmp_path, stack)
    assert stack.ended


def test_a_stack_that_is_to_outlive_its_terminal_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As nohup has it."""
    told: list[Any] = []

    def is_ready() -> None:
        told.append(signal.getsignal(signal.SIGHUP))
        os.kill(os.getpid(), signal.SIGTERM)

    run_up(monkeypatch, tmp_path, stack_of(is_ready), signal.SIG_IGN)
    assert told == [signal.SIG_IGN]


def test_who_restarts_a_stack_that_is_starting_is_told_and_waits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    steps: list[str] = []

    async def ask(told: asyncio.Event) -> None:
        async for step in ask_restart(socket_path(tmp_path, 1), ["face"]):
            steps.append(step)
            told.set()
        os.kill(os.getpid(), signal.SIGTERM)

    class Starting(stack_of(lambda: steps.append("ready"))):  # type: ignore[misc]
        async def __aenter__(self) -> None:
            while not socket_path(tmp_path, 1).exists():  # noqa: ASYNC110 - a socket, no event
                await asyncio.sleep(0)
            told = asyncio.Event()
            self.asking = asyncio.create_task(ask(told))
            await told.wait()
            await super().__aenter__()

    class Rolling:
        def __init__(self, stack: Any) -> None:
            pass

        async def run(self, names: list[str], tell: Callable[[str], None]) -> None:
            tell(f"{names} anew")

    monkeypatch.setattr(up, "RollingRestart", Rolling)
    run_up(monkeypatch, tmp_path, Starting)
    assert steps == ["the stack is starting; it is waited for", "ready", "['face'] anew"]
