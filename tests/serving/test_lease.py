"""The error table, and the end of an Attach stream whose client is frozen, over real gRPC."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from visavis.serving.errors import (
    AlreadyExistsError,
    AtCapacityError,
    EngineError,
    InvalidInputError,
    UnknownNameError,
    VisavisError,
)
from visavis.serving.interceptor import ErrorInterceptor
from visavis.serving.lease import EventStream, SlotTable, hearing_out, read_config
from visavis.serving.runtime import KEEPALIVE, SERVER_OPTIONS
from visavis.v1 import control_pb2, llm_pb2_grpc


class Servicer(llm_pb2_grpc.LanguageModelServicer):
    """Raises what it is told to, and holds leases whose work never ends by itself."""

    def __init__(self) -> None:
        self.slots = SlotTable(1)
        self.error: BaseException | None = None
        self.running = 0

    async def GetStatus(self, request: Any, context: Any) -> control_pb2.ServiceStatus:
        assert self.error is not None
        raise self.error

    async def Attach(self, requests: Any, context: Any) -> AsyncIterator[control_pb2.AttachEvent]:
        first = await read_config(requests, "Attach")
        with self.slots.hold(first.config.session):
            events = EventStream()
            await events.ready("llm-test")

            async def work() -> None:
                self.running += 1
                try:
                    await asyncio.Event().wait()
                finally:
                    self.running -= 1

            async with contextlib.aclosing(events.serve(requests, _nothing, work())) as stream:
                async for event in stream:
                    yield event


async def _nothing(request: Any) -> None:
    raise AssertionError("nothing is asked")


@contextlib.asynccontextmanager
async def served() -> AsyncIterator[tuple[Servicer, str]]:
    """One, and its address."""
    servicer = Servicer()
    server = grpc.aio.server(interceptors=[ErrorInterceptor()], options=SERVER_OPTIONS)
    llm_pb2_grpc.add_LanguageModelServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield servicer, f"127.0.0.1:{port}"
    await server.stop(0)


async def test_errors_become_status_codes() -> None:
    table: list[tuple[BaseException, grpc.StatusCode, str]] = [
        (InvalidInputError("field x"), grpc.StatusCode.INVALID_ARGUMENT, "field x"),
        (UnknownNameError("voice y"), grpc.StatusCode.NOT_FOUND, "voice y"),
        (AlreadyExistsError("z"), grpc.StatusCode.ALREADY_EXISTS, "z"),
        (AtCapacityError("full"), grpc.StatusCode.RESOURCE_EXHAUSTED, "full"),
        (EngineError("broken"), grpc.StatusCode.UNAVAILABLE, "broken"),
        (TimeoutError("late"), grpc.StatusCode.DEADLINE_EXCEEDED, "late"),
        (VisavisError("odd"), grpc.StatusCode.INTERNAL, "internal error"),
        (RuntimeError("secret"), grpc.StatusCode.INTERNAL, "internal error"),
    ]
    async with served() as (servicer, address), grpc.aio.insecure_channel(address) as channel:
        stub = llm_pb2_grpc.LanguageModelStub(channel)
        for servicer.error, code, text in table:
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await stub.GetStatus(control_pb2.GetStatusRequest())
            assert raised.value.code() is code
            assert text in (raised.value.details() or "")
            assert "secret" not in (raised.value.details() or "")


_HOLDS_A_LEASE = """
import sys, threading
import grpc
from visavis.v1 import llm_pb2, llm_pb2_grpc

def requests():
    yield llm_pb2.LlmAttachRequest(config=llm_pb2.LlmAttachConfig(session="s1"))
    threading.Event().wait()

for event in llm_pb2_grpc.LanguageModelStub(grpc.insecure_channel(sys.argv[1])).Attach(requests()):
    print("attached", flush=True)
"""


async def test_a_client_that_is_frozen_keeps_no_slot() -> None:
    async with served() as (servicer, address):
        client = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _HOLDS_A_LEASE, address, stdout=asyncio.subprocess.PIPE
        )
        try:
            assert client.stdout is not None
            assert await client.stdout.readline() == b"attached\n"
            assert (servicer.running, servicer.slots.free) == (1, 0)
            client.send_signal(signal.SIGSTOP)
            async with asyncio.timeout(20):
                await servicer.slots.left.wait()
            assert (servicer.running, servicer.slots.free) == (0, 1)
        finally:
            client.kill()
            await client.wait()


def test_a_replica_that_is_frozen_is_given_up_within_three_seconds() -> None:
    """That it is given up at all is seen elsewhere; when, depends there on the machine."""
    limits_ms = dict(KEEPALIVE)
    silent_ms = limits_ms["grpc.keepalive_time_ms"]
    for answer in ("grpc.keepalive_timeout_ms", "grpc.http2.ping_timeout_ms"):
        assert silent_ms + limits_ms[answer] < 3000


async def test_a_client_that_still_sends_is_heard_out_before_it_is_refused() -> None:
    heard = 0

    async def sent_by_a_busy_machine() -> AsyncIterator[bytes]:
        nonlocal heard
        for _ in range(5):
            await asyncio.sleep(0.1)
            heard += 1
            yield b""

    with pytest.raises(InvalidInputError):
        async with hearing_out(sent_by_a_busy_machine()):
            raise InvalidInputError("language: nobody hears it")
    assert heard == 5
