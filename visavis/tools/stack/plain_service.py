"""One service alone, with no bus: for commands that need just its plain gRPC API."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import grpc.aio
from grpc_health.v1 import health_pb2, health_pb2_grpc

from visavis.serving.authentication.access import Access
from visavis.serving.authentication.channel import ServiceChannel
from visavis.serving.errors import VisavisError
from visavis.serving.runtime import MESSAGE_LIMITS
from visavis.serving.settings import ENV_PREFIX
from visavis.tools.stack.nats_server import free_port
from visavis.tools.stack.process import Child, python_child

_READY_TIMEOUT_S = 120.0
_POLL_S = 0.05


@contextlib.asynccontextmanager
async def plain_service(
    name: str, arguments: Sequence[str], log_dir: Path
) -> AsyncIterator[grpc.aio.Channel]:
    """Channel to `python -m services.<name>`, serving; the process ends with the context.

    Raises VisavisError with the end of its log if it does not come up.
    """
    port = free_port()
    # Whatever the environment says of services that belong to a stack.
    alone = ["--nats-url", "", "--host", "127.0.0.1", "--advertise", ""]
    flags = [*alone, "--port", str(port), "--metrics-port", "-1", *arguments]
    child = python_child(name, f"services.{name}", flags, log_dir)
    secret = secrets.token_hex()  # nobody else is to take its slots
    child.start({f"{ENV_PREFIX}{name.upper()}_STACK_SECRET": secret})
    address = f"127.0.0.1:{port}"
    try:
        async with ServiceChannel(address, Access(secret), name, MESSAGE_LIMITS) as channel:
            await _until_serving(channel, child)
            yield channel
    finally:
        await child.stop()


async def _until_serving(channel: grpc.aio.Channel, child: Child) -> None:
    stub = health_pb2_grpc.HealthStub(channel)
    ended = asyncio.create_task(child.wait())
    try:
        async with asyncio.timeout(_READY_TIMEOUT_S):
            while not ended.done():
                if await _serving(stub):
                    return
                await asyncio.sleep(_POLL_S)
        raise VisavisError(f"the {child.name} service ended:\n{child.log_tail()}")
    except TimeoutError:
        raise VisavisError(
            f"the {child.name} service is not ready after {_READY_TIMEOUT_S:.0f} s:\n"
            f"{child.log_tail()}"
        ) from None
    finally:
        ended.cancel()


async def _serving(stub: health_pb2_grpc.HealthStub) -> bool:
    try:
        answer = await stub.Check(health_pb2.HealthCheckRequest())
    except grpc.aio.AioRpcError:
        return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
