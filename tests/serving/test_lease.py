"""Leases, the error table and the life of an Attach stream, over real gRPC."""

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
    BusError,
    EngineError,
    InvalidInputError,
    UnknownNameError,
    VisavisError,
)
from visavis.serving.interceptor import ErrorInterceptor
from visavis.serving.lease import (
    CallLimit,
    EventStream,
    SlotTable,
    hearing_out,
    need_bus,
    read_config,
)
from visavis.serving.runtime import KEEPALIVE, SERVER_OPTIONS
from visavis.v1 import control_pb2, llm_pb2, llm_pb2_grpc


class Servicer(llm_pb2_grpc.LanguageModelServicer):
    """Raises what it is told to, and holds leases whose work never ends by itself."""

    address = ""

    def __init__(self) -> None:
        self.slots = SlotTable(1)
        self.error: BaseException | None = None
        self.running = 0
        self.heard: list[int] = []

    async def GetStatus(self, request: Any, context: Any) -> control_pb2.ServiceStatus:
        if self.error is not None:
            raise self.error
        return control_pb2.ServiceStatus(service="llm", free_slots=self.slots.free)

    async def Attach(self, requests: Any, context: Any) -> AsyncIterator[control_pb2.AttachEvent]:
        first = await read_config(requests, "Attach")
        with self.slots.hold(first.config.session):
            events = EventStream()
            await events.ready("llm-test")

            async def on_request(request: llm_pb2.LlmAttachRequest) -> None:
                self.heard.append(request.begin.turn)
                if request.begin.turn == 12:
                    await events.turn_failed(12, RuntimeError("secret"))
                    return
                if request.begin.turn == 13:
                    raise InvalidInputError("turn: 13 brings bad luck")
                await events.turn_started(request.begin.turn)

            async def work() -> None:
                self.running += 1
                try:
                    await asyncio.Event().wait()
                finally:
                    self.running -= 1

            async with contextlib.aclosing(events.serve(requests, on_request, work())) as stream:
                async for event in stream:
                    yield event


@pytest.fixture
async def peer() -> AsyncIterator[tuple[Servicer, llm_pb2_grpc.LanguageModelStub]]:
    servicer = Servicer()
    server = grpc.aio.server(interceptors=[ErrorInterceptor()], options=SERVER_OPTIONS)
    llm_pb2_grpc.add_LanguageModelServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    servicer.address = f"127.0.0.1:{port}"
    async with grpc.aio.insecure_channel(servicer.address) as channel:
        yield servicer, llm_pb2_grpc.LanguageModelStub(channel)
    await server.stop(0)


def config(session: str) -> llm_pb2.LlmAttachRequest:
    return llm_pb2.LlmAttachRequest(config=llm_pb2.LlmAttachConfig(session=session))


def begin(turn: int) -> llm_pb2.LlmAttachRequest:
    return llm_pb2.LlmAttachRequest(begin=llm_pb2.BeginTurn(turn=turn))


async def until(condition: Any) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  # waits for another task to be scheduled
            await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (InvalidInputError("field x"), grpc.StatusCode.INVALID_ARGUMENT, "field x"),
        (UnknownNameError("voice y"), grpc.StatusCode.NOT_FOUND, "voice y"),
        (AlreadyExistsError("z"), grpc.StatusCode.ALREADY_EXISTS, "z"),
        (AtCapacityError("full"), grpc.StatusCode.RESOURCE_EXHAUSTED, "full"),
        (EngineError("broken"), grpc.StatusCode.UNAVAILABLE, "broken"),
        (TimeoutError("late"), grpc.StatusCode.DEADLINE_EXCEEDED, "late"),
        (VisavisError("odd"), grpc.StatusCode.INTERNAL, "internal error"),
        (RuntimeError("secret"), grpc.StatusCode.INTERNAL, "internal error"),
    ],
)
async def test_errors_become_status_codes(
    peer: Any, error: BaseException, code: grpc.StatusCode, text: str
) -> None:
    servicer, stub = peer
    servicer.error = error
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await stub.GetStatus(control_pb2.GetStatusRequest())
    assert raised.value.code() is code
    assert text in (raised.value.details() or "")
    assert "secret" not in (raised.value.details() or "")


async def test_lease_ends_with_the_client(peer: Any) -> None:
    servicer, stub = peer
    call = stub.Attach()
    await call.write(config("s1"))
    assert (await call.read()).ready.instance == "llm-test"
    await call.write(begin(1))
    assert (await call.read()).turn_started.turn == 1
    assert (servicer.running, servicer.slots.free) == (1, 0)
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    await until(lambda: servicer.running == 0 and servicer.slots.free == 1)


async def test_client_that_vanishes_frees_everything(peer: Any) -> None:
    servicer, stub = peer
    call = stub.Attach()
    await call.write(config("s1"))
    await call.read()
    call.cancel()
    await until(lambda: servicer.running == 0 and servicer.slots.free == 1)


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


async def test_a_client_that_is_frozen_keeps_no_slot(peer: Any) -> None:
    servicer, _ = peer
    client = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _HOLDS_A_LEASE, servicer.address, stdout=asyncio.subprocess.PIPE
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


async def test_full_service_and_double_lease_are_refused(peer: Any) -> None:
    _, stub = peer
    first = stub.Attach()
    await first.write(config("s1"))
    await first.read()
    for session, code in (
        ("s2", grpc.StatusCode.RESOURCE_EXHAUSTED),
        ("s1", grpc.StatusCode.ALREADY_EXISTS),
        ("a.b", grpc.StatusCode.INVALID_ARGUMENT),
    ):
        other = stub.Attach()
        await other.write(config(session))
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await other.read()
        assert raised.value.code() is code
    first.cancel()


async def test_wrong_order_is_refused(peer: Any) -> None:
    _, stub = peer
    call = stub.Attach()
    await call.write(begin(1))
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call.read()
    assert raised.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "the first message of Attach must be the config" in (raised.value.details() or "")


async def test_bad_request_ends_the_lease_with_its_reason(peer: Any) -> None:
    servicer, stub = peer
    call = stub.Attach()
    await call.write(config("s1"))
    await call.read()
    await call.write(begin(13))
    with pytest.raises(grpc.aio.AioRpcError, match="bad luck"):
        await call.read()
    await until(lambda: servicer.running == 0 and servicer.slots.free == 1)


async def test_a_turn_that_fails_is_told_without_secrets_and_logged(
    peer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    _, stub = peer
    call = stub.Attach()
    await call.write(config("s1"))
    await call.read()
    await call.write(begin(12))
    failed = (await call.read()).turn_failed
    assert (failed.turn, failed.code) == (12, "INTERNAL")
    assert "secret" not in failed.message and "secret" in caplog.text
    await call.write(begin(14))
    assert (await call.read()).turn_started.turn == 14, "the lease lives on"
    call.cancel()


def test_no_more_calls_than_the_limit_run_at_once() -> None:
    limit = CallLimit(1, "recordings")
    with limit.hold():
        assert limit.running == 1
        with pytest.raises(AtCapacityError, match="recordings: 1"), limit.hold():
            pass
    with limit.hold():
        pass
    assert limit.running == 0


def test_without_a_bus_the_error_names_the_setting() -> None:
    with pytest.raises(BusError, match="nats_url"):
        need_bus(None)


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
