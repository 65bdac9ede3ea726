"""How the gateway and the tools call a service of their stack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self
from weakref import WeakKeyDictionary

import grpc
import grpc.aio

from visavis.serving.authentication.access import Access
from visavis.serving.authentication.proof import ANSWER, CALL, call_proof, check_answer, new_nonce
from visavis.wire.clock import unix_s


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
        return grpc.aio.insecure_channel(address, options)
    # Replicas come and go, and so do their addresses: the certificate names the service.
    named = ("grpc.ssl_target_name_override", service)
    return grpc.aio.secure_channel(address, credentials, [*options, named])
