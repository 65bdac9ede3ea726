"""A service of ours on a port of its own, as a client meets it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

import grpc

from visavis.serving.interceptor import ErrorInterceptor
from visavis.serving.runtime import SERVER_OPTIONS, Service


@contextlib.asynccontextmanager
async def served(service: Service, grpc_name: str) -> AsyncIterator[grpc.aio.Channel]:
    """Channel to `service`, loaded, which must offer `grpc_name`; closed at the end."""
    server = grpc.aio.server(interceptors=[ErrorInterceptor()], options=SERVER_OPTIONS)
    assert grpc_name in service.register(server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    await service.load()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield channel
    await server.stop(0)
    await service.close()
