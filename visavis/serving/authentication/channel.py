"""A call of a stack's service, at both ends.

The gateway and the tools call by a channel; the service has a door, which answers those alone who
prove themselves, and proves itself to them.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from typing import Any, Self
from weakref import WeakKeyDictionary

import grpc
import grpc.aio

from visavis.serving.authentication.access import Access
from visavis.serving.authentication.proof import (
    ANSWER,
    CALL,
    answer_proof,
    call_proof,
    check_answer,
    check_call,
    new_nonce,
)
from visavis.serving.errors import UnauthenticatedError
from visavis.serving.way_out import PAST_PROXIES
from visavis.wire.clock import unix_s

# Probes of Kubernetes and Docker cannot prove anything, and learn no more than yes or no.
_OPEN = "/grpc.health.v1.Health/"
_OF_OTHERS = ("/nvidia.riva.", "/nvidia_ace.")
"""Protocols whose clients know nothing of a stack's secret."""
_LISTS = (
    "/nvidia.riva.asr.RivaSpeechRecognition/GetRivaSpeechRecognitionConfig",
    "/nvidia.riva.tts.RivaSpeechSynthesis/GetRivaSynthesisConfig",
)
"""Names of models and voices: Riva's clients ask for them without the key that they have."""
_BEARER = "bearer "


class ServiceChannel(grpc.aio.Channel):
    """A gRPC channel to one process, for stubs: each call on it proves that it is the stack's own.

    Without a secret it proves nothing, and believes everybody; with certificates it speaks TLS, and
    the replica's has to be made out to its service. It wraps a channel instead of intercepting its
    calls: those that grpc.aio intercepts are of another kind, which hands messages on by a queue.
    """

    def __init__(
        self,
        address: str,
        access: Access,
        service: str,
        options: Sequence[tuple[str, Any]] = (),
    ) -> None:
        """address: as the process tells it, "host:port". Raises SettingsError."""
        self._address = address
        self._secret = access.secret
        self._channel = _opened(address, access.certificates.client(), service, options)
        self._nonces: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        """Of the calls that somebody still holds."""

    async def check(self, call: Any) -> None:
        """Wait for a call's initial metadata. Raises UnauthenticatedError unless they prove that
        who answers belongs to the stack.
        """
        if self._secret:
            told = await call.initial_metadata()
            proof = next((str(value) for key, value in told or () if key == ANSWER), "")
            check_answer(self._secret, self._nonces[call], self._address, proof)

    async def close(self, grace: float | None = None) -> None:
        """End all its calls."""
        await self._channel.close(grace)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self._channel.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self._channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self._channel.channel_ready()

    def unary_unary(self, method: str, *how: Any, **more: Any) -> Any:
        return self._proven(method, self._channel.unary_unary(method, *how, **more))

    def unary_stream(self, method: str, *how: Any, **more: Any) -> Any:
        return self._proven(method, self._channel.unary_stream(method, *how, **more))

    def stream_unary(self, method: str, *how: Any, **more: Any) -> Any:
        return self._proven(method, self._channel.stream_unary(method, *how, **more))

    def stream_stream(self, method: str, *how: Any, **more: Any) -> Any:
        return self._proven(method, self._channel.stream_stream(method, *how, **more))

    def _proven(self, method: str, start: Callable[..., Any]) -> Callable[..., Any]:
        def call(*request: Any, metadata: Sequence[tuple[str, str]] = (), **options: Any) -> Any:
            if not self._secret:
                return start(*request, metadata=metadata or None, **options)
            nonce = new_nonce()
            proof = call_proof(self._secret, method, self._address, nonce, unix_s())
            made = start(*request, metadata=(*metadata, (CALL, proof)), **options)
            self._nonces[made] = nonce
            return made

        return call


def _opened(
    address: str,
    credentials: grpc.ChannelCredentials | None,
    service: str,
    options: Sequence[tuple[str, Any]],
) -> grpc.aio.Channel:
    if credentials is None:
        return grpc.aio.insecure_channel(address, [*options, PAST_PROXIES])
    # Replicas come and go, and so do their addresses: the certificate names the service.
    named = ("grpc.ssl_target_name_override", service)
    return grpc.aio.secure_channel(address, credentials, [*options, PAST_PROXIES, named])


class Door:
    """Lets calls in that prove to know the stack's secret; without a secret, all calls.

    client_key: what programs written for other servers show instead, at their own protocols alone;
    "": there they are treated as everybody is.
    """

    def __init__(self, secret: str, client_key: str = "") -> None:
        self._secret = secret
        self._client_key = client_key
        self.address = ""
        """Where others are told that this process is; set before it serves."""

    @property
    def locked(self) -> bool:
        """Whether it asks for a proof."""
        return bool(self._secret)

    async def admit(self, method: str, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        """Raises UnauthenticatedError where the call is neither the stack's own nor a client's."""
        if method.startswith(_OPEN) or (self._client_key and method in _LISTS):
            return
        if method.startswith(_OF_OTHERS) and (self._client_key or self._secret):
            self._admit_client(context)
            return
        if not self._secret:
            return
        told = next((str(v) for k, v in context.invocation_metadata() or () if k == CALL), "")
        nonce = check_call(self._secret, method, self.address, told, unix_s())
        answer = answer_proof(self._secret, nonce, self.address)
        await context.send_initial_metadata(((ANSWER, answer),))

    def _admit_client(self, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        if not self._client_key:
            raise UnauthenticatedError(
                "this service answers its own stack alone: give it a client_key, and have the "
                "client send it as authorization: Bearer …"
            )
        metadata = context.invocation_metadata() or ()
        told = next((str(v) for k, v in metadata if k == "authorization"), "")
        key = told[len(_BEARER) :] if told.lower().startswith(_BEARER) else ""
        if not hmac.compare_digest(key.encode(), self._client_key.encode()):
            raise UnauthenticatedError(
                "authorization: 'Bearer' and the service's client_key are wanted"
            )
