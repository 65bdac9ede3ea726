"""What is said of a start, by services and to whoever started them; and an end in its middle."""

import asyncio
import re
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from visavis.serving import runtime
from visavis.serving.lifetime.starting import tell_starting
from visavis.tools.stack.nats_server import free_port
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


@pytest.mark.parametrize("module", ["services.llm", "gateway"])
async def test_who_waits_for_a_bus_ends_soon_when_told_to(module: str, tmp_path: Path) -> None:
    """Which may never come: the signal reaches it before it has begun to load."""
    flags = ["--nats-url", f"nats://127.0.0.1:{free_port()}", "--port", str(free_port())]
    child = python_child("waiting", module, flags, tmp_path)
    child.start()
    async with asyncio.timeout(25):
        while not await child.beats():
            assert child.runs(), child.log_tail()
            await asyncio.sleep(0.05)
    began_s = time.monotonic()
    await child.stop()
    took_s = time.monotonic() - began_s
    assert not re.search('"level": "(warning|error)"|Traceback', child.log_tail())
    assert took_s < 5, f"ended after {took_s:.1f} s"


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
