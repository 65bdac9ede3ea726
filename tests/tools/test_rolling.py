"""`visavis restart`: in which order processes are exchanged, and what is said if that cannot be."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from visavis.serving.errors import VisavisError
from visavis.tools.cli.main import app
from visavis.tools.stack import control, rolling
from visavis.tools.stack.rolling import RollingRestart

MIB = 2**20


class OneStack:
    """A stack that notes what is asked of it; each process of it has 100 MiB."""

    def __init__(self, *names: str) -> None:
        self.done: list[str] = []
        self.children = {name: SimpleNamespace(name=name) for name in names}
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    def processes_of(self, service: str) -> list[str]:
        return [name for name in self.children if service in ("all", name, name.partition("-")[0])]

    def siblings(self, name: str) -> list[str]:
        return [other for other in self.processes_of(name.partition("-")[0]) if other != name]

    async def start_spare(self, name: str) -> str:
        await self.goes_on.wait()
        self.done.append(f"start {name}")
        return f"another {name}"

    async def retire(self, name: str, spare: str) -> None:
        self.done.append(f"{spare} for {name}")

    async def restart_in_place(self, name: str) -> None:
        self.done.append(f"in place {name}")


def restart_of(
    stack: OneStack, monkeypatch: pytest.MonkeyPatch, *, free_mib: int = 1000
) -> RollingRestart:
    monkeypatch.setattr(rolling, "free_memory_bytes", lambda: free_mib * MIB)
    monkeypatch.setattr(rolling, "memory_bytes", lambda asked: {asked[0].name: 100 * MIB})
    given: Any = stack
    return RollingRestart(given)


async def test_each_process_is_replaced_before_the_next_one_is_touched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stack, told = OneStack("tts", "face-1", "face-2"), list[str]()
    await restart_of(stack, monkeypatch).run(["face", "face-1", "tts"], told.append)
    assert stack.done == [
        "start face-1",
        "another face-1 for face-1",
        "start face-2",
        "another face-2 for face-2",
        "start tts",
        "another tts for tts",
    ]
    assert (told[0], told[-1]) == ("1/3 face-1: a new process starts", "3/3 tts: done")


async def test_without_memory_for_two_the_others_take_over_and_nobody_loses_the_only_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stack = OneStack("tts", "face-1", "face-2")
    restart = restart_of(stack, monkeypatch, free_mib=110)
    await restart.run(["face-1"], print)
    assert stack.done == ["in place face-1"]
    with pytest.raises(VisavisError, match="needs 120 MiB, and 110"):
        await restart.run(["tts"], print)
    assert stack.done == ["in place face-1"]


async def test_one_restart_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    stack = OneStack("tts")
    restart = restart_of(stack, monkeypatch)
    stack.goes_on.clear()
    first = asyncio.create_task(restart.run(["all"], print))
    await asyncio.sleep(0)
    with pytest.raises(VisavisError, match="under way"):
        await restart.run(["tts"], print)
    stack.goes_on.set()
    await first
    await restart.run(["tts"], print)


@pytest.mark.parametrize("deep", ["", "long" * 30], ids=["", "longer than a socket's address"])
async def test_the_one_who_asks_is_told_each_step_and_why_it_failed(
    tmp_path: Path, deep: str
) -> None:
    async def restart(names: list[str], tell: Any) -> None:
        tell(f"{names[0]} starts")
        if names[0] == "nose":
            raise VisavisError("there is no nose")

    folder = tmp_path / deep
    folder.mkdir(exist_ok=True)
    path = control.socket_path(folder, 8080)
    async with control.listening(path, restart):
        assert list(control.running_stacks(folder)) == [8080]
        async with control.listening(path, restart):
            pass  # of a stack with this port of another host
        assert [step async for step in control.ask_restart(path, ["face"])] == ["face starts"]
        with pytest.raises(VisavisError, match="there is no nose"):
            async for _ in control.ask_restart(path, ["nose"]):
                pass
    assert not path.exists()


def test_where_no_stack_runs_that_is_said(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(str(control.socket_path(tmp_path, 8080)))
    for which, said in ([], "no stack runs here that"), (["--port", "8080"], "here at port 8080"):
        result = CliRunner().invoke(app, ["restart", "all", "--logs", str(tmp_path), *which])
        assert isinstance(result.exception, VisavisError)
        assert said in str(result.exception)
