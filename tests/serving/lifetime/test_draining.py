"""When a process that was told to stop ends, and what those who are attached to it are told."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import sys

import grpc
import pytest

from tests.llm.http_server import Exchange, HttpServer
from tests.serving.test_stage import attached, leases_of
from visavis.serving.addresses import in_address
from visavis.serving.errors import DrainingError, status_of
from visavis.serving.lifetime.draining import Drain, Phase
from visavis.v1 import control_pb2, llm_pb2, llm_pb2_grpc
from visavis.wire.bus import Bus


def test_it_ends_once_nobody_is_left() -> None:
    drain = Drain(limit_s=30.0)
    assert drain.look(100.0, sessions=2) is Phase.SERVING
    drain.told_to_stop(100.0)
    assert (drain.look(100.0, 2), drain.look(120.0, 1)) == (Phase.DRAINING, Phase.DRAINING)
    assert drain.look(120.0, 0) is Phase.ENDED
    assert drain.look(120.0, 1) is Phase.ENDED, "who comes now is too late"


def test_it_ends_at_its_limit() -> None:
    drain = Drain(limit_s=30.0)
    drain.told_to_stop(100.0)
    assert (drain.look(129.9, 1), drain.left_s(129.0)) == (Phase.DRAINING, 1.0)
    assert (drain.look(130.0, 1), drain.left_s(131.0)) == (Phase.ENDED, 0.0)


def test_told_again_or_to_end_at_once_it_waits_for_nobody() -> None:
    drain = Drain(limit_s=30.0)
    drain.told_to_stop(100.0)
    drain.told_to_stop(101.0)
    assert drain.look(101.0, 1) is Phase.ENDED
    drain = Drain(limit_s=30.0)
    drain.told_to_stop(100.0, at_once=True)
    assert drain.look(100.0, 1) is Phase.ENDED


async def test_sessions_are_told_to_leave_their_turns_go_on_and_nobody_new_is_taken(
    bus: Bus,
) -> None:
    leases = leases_of(bus, slots=2)
    async with attached(leases, bus, "drained") as client:
        await client.say(1, "wait")
        assert await client.next_kinds(1) == ["turn_started"]
        leases.drain()
        assert await client.next_kinds(1) == ["draining"]
        assert (leases.held, leases.status([], ["en"]).free_slots) == (1, 0)
        with pytest.raises(DrainingError) as refused, leases.attach("late"):
            pass
        assert status_of(refused.value)[0].name == "RESOURCE_EXHAUSTED", "another one is asked"
        await client.say(2, "said between the notice and the leave")
        assert await client.next_kinds(3) == ["turn_finished", "turn_started", "turn_finished"]
        leases.slots.left.clear()
    assert (leases.held, leases.slots.left.is_set()) == (0, True)


def loopback() -> str:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return "127.0.0.1"
    return "::1"


async def test_a_call_without_a_session_is_answered_to_its_end() -> None:
    """By IPv6, where this machine has it."""
    stopping = asyncio.Event()

    async def write(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.event({"choices": [{"delta": {"content": "One."}}]})
        await stopping.wait()
        await exchange.event({"choices": [{"delta": {"content": " Two."}}]})
        await exchange.event({"choices": [{"delta": {}, "finish_reason": "stop"}]})

    async with HttpServer(write).running() as model:
        flags = ["--backend", "openai", "--url", model.url, "--model", "first", "--grace-s", "0"]
        flags += ["--host", host := loopback()]
        service = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "services.llm", "--nats-url", "", "--metrics-port", "-1"),
            *flags,
            stderr=asyncio.subprocess.PIPE,
        )
        assert service.stderr is not None
        async for line in service.stderr:
            if ready := re.search(rb"gRPC on \S+:(\d+)", line):
                break
        assert ready is not None
        address = f"{in_address(host)}:{int(ready[1])}"
        async with grpc.aio.insecure_channel(address) as channel:
            stub = llm_pb2_grpc.LanguageModelStub(channel)
            said = [llm_pb2.Message(role=llm_pb2.Message.USER, content="Count.")]
            answer = aiter(stub.Generate(llm_pb2.GenerateRequest(messages=said)))
            text = (await anext(answer)).text
            service.send_signal(signal.SIGTERM)
            with pytest.raises(grpc.aio.AioRpcError):  # nothing new is taken
                while True:
                    await stub.GetStatus(control_pb2.GetStatusRequest())
            stopping.set()
            try:
                async for piece in answer:
                    text += piece.text
            finally:
                ended = await service.wait()
        assert (text, ended) == ("One. Two.", 0)
