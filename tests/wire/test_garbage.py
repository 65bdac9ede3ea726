"""Bytes that are no message, and messages that lie about where they belong."""

import logging
from collections.abc import AsyncIterator
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from visavis.serving.errors import InvalidInputError
from visavis.serving.interceptor import ErrorInterceptor
from visavis.v1 import llm_pb2_grpc
from visavis.wire.bus import Bus
from visavis.wire.media import MAX_PTS, PcmChunk, Place, TokenChunk, decode, encode
from visavis.wire.subjects import Kind, turn_of

GARBAGE = [b"\xff", b"\x0a\x7fshort", b"\x08" + b"\x80" * 20]


class Servicer(llm_pb2_grpc.LanguageModelServicer):
    async def GetStatus(self, request: Any, context: Any) -> Any:
        raise AssertionError("garbage has reached the servicer")

    async def Generate(self, request: Any, context: Any) -> AsyncIterator[Any]:
        raise AssertionError("garbage has reached the servicer")
        yield

    async def Attach(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        async for request in requests:
            raise AssertionError(f"garbage has reached the servicer: {request}")
        yield


@pytest.fixture
async def channel() -> AsyncIterator[grpc.aio.Channel]:
    server = grpc.aio.server(interceptors=[ErrorInterceptor()])
    llm_pb2_grpc.add_LanguageModelServicer_to_server(Servicer(), server)
    health_pb2_grpc.add_HealthServicer_to_server(health.aio.HealthServicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as open_channel:
        yield open_channel
    await server.stop(0)


@pytest.mark.parametrize(
    "method",
    [
        "/visavis.v1.LanguageModel/GetStatus",
        "/visavis.v1.LanguageModel/Generate",
        "/visavis.v1.LanguageModel/Attach",
        "/grpc.health.v1.Health/Check",
    ],
)
async def test_garbage_is_the_clients_mistake(
    channel: grpc.aio.Channel, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    for payload in GARBAGE:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            if method.endswith("Attach"):
                call = channel.stream_stream(method)()
                await call.write(payload)
                await call.read()
            elif method.endswith("Generate"):
                await channel.unary_stream(method)(payload).read()
            else:
                await channel.unary_unary(method)(payload)
        assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT, payload
        assert "request" in (raised.value.details() or "")
    # gRPC's poller may still tell asyncio of an event loop that an earlier test has closed.
    ours = [record for record in caplog.records if record.name != "asyncio"]
    assert [record for record in ours if record.levelno >= logging.ERROR] == []


async def test_health_service_still_works(channel: grpc.aio.Channel) -> None:
    stub = health_pb2_grpc.HealthStub(channel)
    request = health_pb2.HealthCheckRequest()
    assert (await stub.Check(request)).status == health_pb2.HealthCheckResponse.SERVING
    watch = stub.Watch(request)
    assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
    watch.cancel()
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await stub.Check(health_pb2.HealthCheckRequest(service="nobody"))
    assert raised.value.code() is grpc.StatusCode.NOT_FOUND


async def test_client_that_leaves_while_it_is_answered_is_no_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """gRPC raises one of these where the call ended between two responses."""
    ended = []

    async def generate(_request: Any, _context: Any) -> AsyncIterator[str]:
        try:
            yield "a"
            yield "b"
        finally:
            ended.append(True)

    class Gone:
        async def write(self, _response: str) -> None:
            raise grpc.aio.UsageError("the call is over")

    async def found(_details: Any) -> Any:
        return grpc.unary_stream_rpc_method_handler(generate)

    details = type("Details", (), {"method": "/visavis.v1.LanguageModel/Generate"})()
    handler = await ErrorInterceptor().intercept_service(found, details)
    assert handler is not None
    await handler.unary_stream(b"", Gone())
    assert ended
    assert caplog.records == []


@pytest.mark.parametrize("pts", [-1, MAX_PTS + 1, 2**63 - 1, -(2**63)])
def test_media_time_has_bounds(pts: int) -> None:
    chunk = PcmChunk(Place("s1", 1, 0, pts), 16_000, np.zeros(2, np.int16))
    with pytest.raises(InvalidInputError, match="pts"):
        decode(Kind.MIC, encode(chunk))


@pytest.mark.parametrize("turn", ["abc", "-1", "1e3", "", "²", "9" * 5000])
def test_subject_without_a_turn(turn: str) -> None:
    assert turn_of(f"vv.s1.{turn}.mic") is None


async def test_chunk_that_belongs_elsewhere_is_skipped(bus: Bus) -> None:
    """A header may not carry a chunk into another session or turn than its subject."""
    async with bus.subscribe("s1", Kind.TOKENS) as tokens:
        for place in (Place("s2", 1, 0, 0), Place("s1", 7, 0, 0)):
            await bus.client.publish("vv.s1.1.tokens", encode(TokenChunk(place, "stolen")))
        await bus.client.publish("vv.s1.one.tokens", b"")
        await bus.publish(Kind.TOKENS, TokenChunk(Place("s1", 1, 0, 0), "mine"))
        chunk = await anext(tokens)
    assert isinstance(chunk, TokenChunk) and chunk.text == "mine"
    assert tokens.dropped == 3
