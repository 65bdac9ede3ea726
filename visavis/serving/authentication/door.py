"""The door of a service: it answers those alone who prove themselves, and proves itself to them."""

from __future__ import annotations

from typing import Any

import grpc.aio

from visavis.serving.authentication.proof import ANSWER, CALL, answer_proof, check_call
from visavis.wire.clock import unix_s

# Probes of Kubernetes and Docker cannot prove anything, and learn no more than yes or no.
_OPEN = "/grpc.health.v1.Health/"


class Door:
    """Lets calls in that prove to know the stack's secret; without a secret, all calls."""

    def __init__(self, secret: str) -> None:
        self._secret = secret
        self.address = ""
        """Where others are told that this process is; set before it serves."""

    @property
    def locked(self) -> bool:
        """Whether it asks for a proof."""
        return bool(self._secret)

    async def admit(self, method: str, context: grpc.aio.ServicerContext[Any, Any]) -> None:
        """Raises UnauthenticatedError where the call is not the stack's own."""
        if not self._secret or method.startswith(_OPEN):
            return
        told = next((str(v) for k, v in context.invocation_metadata() or () if k == CALL), "")
        nonce = check_call(self._secret, method, self.address, told, unix_s())
        answer = answer_proof(self._secret, nonce, self.address)
        await context.send_initial_metadata(((ANSWER, answer),))
