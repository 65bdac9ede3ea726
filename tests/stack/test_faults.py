"""What goes wrong in the middle of an answer is told, and the next answer comes."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Any

import httpx
import psutil
import pytest

from tests.running_stack import RunningStack
from tests.stack.test_conversation import answer_of, until_turn
from visavis.client import GatewayClient, GatewayError, GatewaySession
from visavis.client.errors import may_pass
from visavis.wire.bucket import Records
from visavis.wire.bus import Bus
from visavis.wire.permissions import User
from visavis.wire.subjects import SESSIONS, begun_key

LONG = "Tell me a long story about a dragon and a castle."


@pytest.fixture(scope="module")
def fragile(stack: RunningStack) -> RunningStack:
    """The stack, when all others have done with it (`pytest_collection_modifyitems`): these tests
    kill parts of it."""
    stack.provoke()
    return stack


@pytest.fixture
async def gateway(fragile: RunningStack) -> AsyncIterator[GatewayClient]:
    async with GatewayClient(fragile.url) as client:
        yield client


async def all_services_free(client: GatewayClient) -> dict[str, Any]:
    """Services by name, once all four answer with every slot free."""
    async with asyncio.timeout(30):
        while True:
            answer = await client.call("GET", "/v1/services")
            services = {s["service"]: s for s in answer.json()["services"] if s["healthy"]}
            if len(services) == 4 and all(s["free_slots"] == s["slots"] for s in services.values()):
                return services
            await asyncio.sleep(0.2)


async def all_stages(client: GatewayClient, session: GatewaySession) -> None:
    """Returns once each stage of the session has a replica."""
    async with asyncio.timeout(40):
        while True:
            told = (await client.call("GET", f"/v1/sessions/{session.id}")).json()
            if all(told["stages"].values()):
                return
            await asyncio.sleep(0.1)


async def test_an_answer_is_heard_to_its_end_though_every_service_is_killed_in_its_midst(
    gateway: GatewayClient, fragile: RunningStack
) -> None:
    """No word of it is lost, and none is said twice."""
    await all_services_free(gateway)
    async with gateway.session(language="en") as session:
        await session.ask(LONG)
        events = await until_turn(session, "speaking", "failed")
        for service in ("asr", "llm", "tts", "face"):
            fragile.child(f"services.{service}").send_signal(signal.SIGKILL)
        events += await until_turn(session, "finished", "failed")
        check_whole(events)
        await all_stages(gateway, session)
        await session.ask("What is two plus two?")
        events = await until_turn(session, "finished", "failed")
        assert events[-1]["event"] == "finished", events[-1]
        assert answer_of(events).strip()


def check_whole(events: list[dict[str, Any]]) -> None:
    """The answer has come to its end, and each of its words is said once."""
    assert events[-1]["event"] == "finished", events[-1]
    words = [word["text"] for e in events if e["type"] == "words" for word in e["words"]]
    assert words == answer_of(events).split()


async def test_an_answer_goes_on_though_its_only_gateway_is_killed_in_its_midst(
    gateway: GatewayClient, fragile: RunningStack
) -> None:
    """In the same session, for who has its address and its token."""
    await all_services_free(gateway)
    async with gateway.session(language="en") as session:
        path = f"/v1/sessions/{session.id}"
        first = await session.ask(LONG)
        await until_turn(session, "speaking", "failed")
        await until_written(fragile, session.id)
        fragile.child("gateway").kill()
        await until_there(gateway, path)
        async with gateway.connect(f"{path}/media?role=viewer"):
            events = await until_turn(session, "finished", "failed")
        assert events[-1]["event"] == "finished" and events[-1]["turn"] > first, events[-1]
        (turn,) = (await gateway.call("GET", f"{path}/turns")).json()
        assert (turn["transcript"], turn["state"]) == (LONG, "finished")
        await session.ask("What is two plus two?")
        assert (await until_turn(session, "finished", "failed"))[-1]["event"] == "finished"


async def until_written(fragile: RunningStack, session: str) -> None:
    """Returns once the bus knows the answer that is under way in it."""
    login = fragile.login(User.OPERATOR)
    bus = await Bus.connect(fragile.keys.nats_url, name="test", wait_s=10, login=login)
    try:
        async with asyncio.timeout(30):
            # Another process writes it: nothing tells us.
            while await Records(bus, SESSIONS).get(begun_key(session)) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    finally:
        await bus.close()


async def until_there(client: GatewayClient, path: str) -> None:
    """Returns once a gateway answers for a session; raises GatewayError where it is no more."""
    async with asyncio.timeout(60):
        while True:
            try:
                await client.call("GET", path)
                return
            except GatewayError as error:
                if not may_pass(error):
                    raise
            await asyncio.sleep(0.05)


async def until_replaced(fragile: RunningStack, name: str, old: psutil.Process) -> None:
    """Returns once another process does the work of `old`, and a turn would work."""
    async with asyncio.timeout(40), httpx.AsyncClient(trust_env=False) as client:
        # Asked of another process: nothing tells us.
        while old.is_running() or not await ready(client, fragile):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    assert fragile.child(name).pid != old.pid


async def ready(client: httpx.AsyncClient, fragile: RunningStack) -> bool:
    try:
        return (await client.get(f"{fragile.url}/readyz")).is_success
    except httpx.HTTPError:
        return False


async def test_what_is_frozen_is_replaced(gateway: GatewayClient, fragile: RunningStack) -> None:
    frozen = {name: fragile.child(name) for name in ("services.tts", "gateway", "nats-server")}
    for process in frozen.values():
        process.suspend()
    for name, process in frozen.items():
        await until_replaced(fragile, name, process)
        assert f"{name.removeprefix('services.')} did not answer" in fragile.output()
    await all_services_free(gateway)
    async with gateway.session(language="en") as session:
        await session.ask("What is two plus two?")
        assert (await until_turn(session, "finished", "failed"))[-1]["event"] == "finished"


async def test_an_answer_is_heard_to_its_end_though_the_bus_is_killed_and_no_log_can_be_written(
    gateway: GatewayClient, fragile: RunningStack
) -> None:
    """A file stands where the folder of the logs was."""
    await all_services_free(gateway)
    async with gateway.session(language="en") as session:
        await session.ask(LONG)
        events = await until_turn(session, "speaking", "failed")
        moved = fragile.log_dir.with_name("moved")
        fragile.log_dir.rename(moved)
        fragile.log_dir.write_text("not a folder")
        killed = fragile.child("nats-server")
        killed.kill()
        try:
            events += await until_turn(session, "finished", "failed")
            await until_replaced(fragile, "nats-server", killed)
        finally:
            fragile.log_dir.unlink()
            moved.rename(fragile.log_dir)
        check_whole(events)
        assert "nats-server logs to the terminal" in fragile.output()
        assert "nats-server works again" in fragile.output()
        await session.ask("What is two plus two?")
        events = await until_turn(session, "finished", "failed")
        assert events[-1]["event"] == "finished", events[-1]


async def test_of_fifty_texts_at_once_the_last_is_answered_however_strange_its_signs(
    gateway: GatewayClient,
) -> None:
    await all_services_free(gateway)
    async with gateway.session(language="en") as session:
        for number in range(49):
            await session.ask(f"{LONG * 4} Its number is {number}.")
        last = await session.ask("Say hi \0\x1b[31m 👩‍🚀🎉 ‮ to \u200b me")
        events = await until_turn(session, "finished", "failed")
        assert (events[-1]["event"], events[-1]["turn"]) == ("finished", last), events[-1]
        assert answer_of(events).strip()
