"""The door of a service: it answers those alone who prove themselves, and proves itself to them."""

from __future__ import annotations

import hmac
from typing import Any

import grpc.aio

from visavis.serving.authentication.proof import ANSWER, CALL, answer_proof, check_call
from visavis.serving.errors import UnauthenticatedError
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
