"""What a client sees of an error."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from visavis.serving.errors import UnknownNameError
from visavis.serving.interceptor import ErrorInterceptor
from visavis.serving.runtime import SERVER_OPTIONS


@pytest.mark.parametrize("letter", ["x", "名"])
async def test_an_error_with_much_to_say_keeps_its_status(letter: str) -> None:
    async def find(request: bytes, context: Any) -> bytes:
        raise UnknownNameError(20_000 * letter)

    methods = {"Find": grpc.unary_unary_rpc_method_handler(find, bytes, bytes)}
    server = grpc.aio.server(interceptors=[ErrorInterceptor()], options=SERVER_OPTIONS)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Names", methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary("/test.Names/Find")(b"")
    await server.stop(0)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    details = caught.value.details() or ""
    assert details.startswith(600 * letter) and details.endswith(f"{letter}…")
