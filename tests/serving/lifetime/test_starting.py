"""What is said of a start, by services and to whoever started them; and an end in its middle."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import gateway.__main__ as gateway_main
from services.llm.servicer import LlmService
from services.llm.settings import LlmSettings
from visavis.serving import runtime
from visavis.serving.lifetime.starting import tell_starting
from visavis.tools.stack.process import python_child
from visavis.tools.stack.supervisor import Stack, StackOptions


class Loading:
    """A service whose load lasts until it is cancelled."""

    name = "slow"
    languages: Sequence[str] = ()
    engine_states = ()

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.cancelled = False

    async def load(self) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise

    def register(self, server: object) -> Sequence[str]:
        return ()

    async def close(self) -> None: ...


async def test_a_service_that_is_told_to_end_stops_loading() -> None:
    service, stop = Loading(), asyncio.Event()
    task = asyncio.create_task(runtime._loaded(service, None, stop))
    await service.begun.wait()
    stop.set()
    assert await task is False
    assert service.cancelled


@contextlib.contextmanager
def silent_bus(signum: signal.Signals) -> Iterator[str]:
    """The address of one that says nothing: who connects to it is told to end."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(25)

        def tell() -> None:
            with listening.accept()[0]:
                os.kill(os.getpid(), signum)
                ended.wait()

        telling = threading.Thread(target=tell)
        telling.start()
        yield f"nats://127.0.0.1:{listening.getsockname()[1]}"
        ended.set()
        telling.join()


@pytest.mark.parametrize("module", [runtime, gateway_main])
def test_who_waits_for_a_bus_ends_when_told_to(
    module: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Which may never come: the signal reaches it before it has begun to load. One that waits on
    gives up after half a minute, and complains."""
    monkeypatch.setattr(module, "configure_logging", lambda *_: None)
    # What is sent to a gateway is sent on to its process as it has ended.
    with silent_bus(signal.SIGTERM if module is runtime else signal.SIGINT) as url:
        flags = ["--nats-url", url, "--port", "0"]
        if module is runtime:
            runtime.main(LlmService, LlmSettings, flags)
        else:
            with pytest.raises(SystemExit):
                gateway_main.serve(flags, prog="gateway")
    assert [r for r in caplog.records if r.levelno >= logging.WARNING] == []


async def test_a_load_that_fails_is_told() -> None:
    class Failing(Loading):
        async def load(self) -> None:
            raise ValueError("no such file")

    with pytest.raises(ValueError, match="no such file"):
        await runtime._loaded(Failing(), None, asyncio.Event())


async def test_without_a_bus_nobody_is_told() -> None:
    await tell_starting(None, "llm", "reading")


async def test_who_gets_on_is_waited_for_and_who_repeats_is_not(tmp_path: Path) -> None:
    stack = Stack(StackOptions(log_dir=tmp_path, ready_timeout_s=100.0))
    stack.children["llm"] = python_child("llm", "services.llm", [], tmp_path)
    async with asyncio.timeout(1.0) as deadline:
        stack._deadline = deadline
        first = deadline.when()
        stack._note_starting("somebody", "1 %")
        assert deadline.when() == first
        stack._note_starting("llm", "1 %")
        later = deadline.when()
        assert first is not None and later is not None and later > first + 90
        stack._note_starting("llm", "1 %")
        assert deadline.when() == later
        await asyncio.sleep(0)
    assert stack.starting == {"llm": "1 %"}
