"""Around every gRPC call: our errors become status codes, the call is measured, and traced where
the caller says which trace it belongs to."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from visavis.serving import metrics
from visavis.serving.errors import AtCapacityError, InvalidInputError, VisavisError, status_of
from visavis.serving.lifetime.supervision import read_whole
from visavis.serving.telemetry import traces
from visavis.wire.clock import monotonic_ns

log = logging.getLogger(__name__)

Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Admit: TypeAlias = "Callable[[str, grpc.aio.ServicerContext[Any, Any]], Awaitable[None]]"
"""Told a call's method and context."""


async def _everybody(method: str, context: grpc.aio.ServicerContext[Any, Any]) -> None:
    return


class ErrorInterceptor(grpc.aio.ServerInterceptor):
    """Aborts a call that raised with the status of the one table in `visavis.serving.errors`.

    admit: asked before a call comes to its servicer; raises where it is not to.
    """

    def __init__(self, admit: Admit | None = None) -> None:
        self._admit = admit or _everybody

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler | None]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler | None:
        handler = await continuation(handler_call_details)
        if handler is None:
            return handler
        door = partial(self._admit, handler_call_details.method)
        if handler.response_streaming:
            inner = handler.unary_stream or handler.stream_stream
            make = (
                grpc.stream_stream_rpc_method_handler
                if handler.request_streaming
                else grpc.unary_stream_rpc_method_handler
            )
            guard = _guard_stream
        else:
            inner = handler.unary_unary or handler.stream_unary
            make = (
                grpc.stream_unary_rpc_method_handler
                if handler.request_streaming
                else grpc.unary_unary_rpc_method_handler
            )
            guard = _guard_unary
        return make(
            guard(inner, door, streaming=handler.request_streaming),
            request_deserializer=_forgiving(handler.request_deserializer),
            response_serializer=handler.response_serializer,
        )


@dataclass(frozen=True, slots=True)
class _Garbage:
    """Stands for a request that could not be decoded."""

    why: str


def _forgiving(deserialize: Any) -> Any:
    """gRPC takes an error in a deserializer for the servicer's: let it surface as the client's."""

    def decode(payload: bytes) -> Any:
        try:
            return deserialize(payload)
        except DecodeError as error:
            return _Garbage(str(error))

    return decode


def _decoded(message: Any) -> Any:
    """`message` itself. Raises InvalidInputError if it is garbage."""
    if isinstance(message, _Garbage):
        raise InvalidInputError(f"the request is no such message: {message.why}")
    return message


class _Requests:
    """The client's stream, for one reader; ends with InvalidInputError at garbage."""

    def __init__(self, requests: AsyncIterator[Any]) -> None:
        self._requests = requests

    def __aiter__(self) -> _Requests:
        return self

    async def __anext__(self) -> Any:
        return _decoded(await read_whole(anext(self._requests)))


def _checked(request: Any, *, streaming: bool) -> Any:
    return _Requests(aiter(request)) if streaming else _decoded(request)


class ClientGoneError(Exception):
    """The client left in the middle of the answer: its business, and nobody is there to be told.

    gRPC's InternalError, where it cannot write, means the same.
    """


async def _write(response: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
    try:
        await context.write(response)
    except (asyncio.InvalidStateError, grpc.aio.UsageError) as error:
        raise ClientGoneError from error


def _guard_unary(inner: Any, door: partial[Awaitable[None]], *, streaming: bool) -> Any:
    async def behaviour(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        call = _Call(door.args[0], context)
        try:
            await door(context)
            response = await inner(_checked(request, streaming=streaming), context)
        except grpc.aio.InternalError as gone:
            call.finish(grpc.StatusCode.CANCELLED)
            raise asyncio.CancelledError from gone
        except BaseException as error:
            await call.fail(error, context)
            raise
        call.finish(grpc.StatusCode.OK)
        return response

    return behaviour


def _guard_stream(inner: Any, door: partial[Awaitable[None]], *, streaming: bool) -> Any:
    # A coroutine that writes, not a generator: gRPC drops a generator that it has cancelled
    # between two responses, and clean-up would wait for the collector, in another task.
    async def behaviour(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        call = _Call(door.args[0], context)
        try:
            await door(context)
            answering = inner(_checked(request, streaming=streaming), context)
            if not hasattr(answering, "__aiter__"):
                await answering  # one that writes, as gRPC's own health service is
            else:
                async with contextlib.aclosing(answering) as responses:
                    async for response in responses:
                        await _write(response, context)
        except (ClientGoneError, grpc.aio.InternalError):
            call.finish(grpc.StatusCode.CANCELLED)
            return
        except BaseException as error:
            await call.fail(error, context)
            raise
        call.finish(grpc.StatusCode.OK)

    return behaviour


RETRY_AFTER = "retry-after"
"""Behind RESOURCE_EXHAUSTED, as in HTTP: seconds until there is room, as far as that is known."""
_OTHERS = "nvidia"
"""How the packages begin of which services speak protocols of others."""


class _Call:
    def __init__(self, path: str, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        self._service, _, self._method = path.strip("/").rpartition("/")
        package, _, service = self._service.rpartition(".")
        # NVIDIA's clients ask for methods that are called as ours are.
        others = package.startswith(_OTHERS)
        self._label = f"{service}/{self._method}" if others else self._method
        self._started_ns = monotonic_ns()
        self._span = self._begin_span(context)

    def _begin_span(self, context: grpc.aio.ServicerContext[Any, Any]) -> traces.Span | None:
        tracer = traces.tracer()
        if tracer is None:
            return None
        parent = dict(context.invocation_metadata() or ()).get(traces.HEADER)
        if not isinstance(parent, str):
            return None
        name = f"{self._service}/{self._method}"
        return tracer.begin(name, self._started_ns, parent, kind="server")

    def finish(self, code: grpc.StatusCode) -> None:
        metrics.grpc_requests.labels(self._label, code.name).inc()
        ended_ns = monotonic_ns()
        took_s = (ended_ns - self._started_ns) / 1e9
        metrics.grpc_request_seconds.labels(self._label).observe(took_s)
        if self._span is not None:
            about = {"rpc.system.name": "grpc", "rpc.method": f"{self._service}/{self._method}"}
            status = {"rpc.response.status_code": code.name}
            error = "" if code is grpc.StatusCode.OK else code.name
            self._span.end(ended_ns, {**about, **status}, error=error)

    async def fail(self, error: BaseException, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        if isinstance(error, grpc.aio.AbortError):
            self.finish(grpc.StatusCode.CANCELLED)
            return
        code, message = status_of(error)
        self.finish(code)
        if isinstance(error, asyncio.CancelledError):
            return
        if not isinstance(error, (VisavisError, TimeoutError)):
            log.exception("%s failed", self._method, exc_info=error)
        wait_s = error.expected_wait_s if isinstance(error, AtCapacityError) else None
        later = () if wait_s is None else ((RETRY_AFTER, str(max(1, round(wait_s)))),)
        await context.abort(code, message, later)
