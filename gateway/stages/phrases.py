"""The sound that tts replicas keep of texts which will be said: made, listed, forgotten."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import grpc.aio

from gateway.stages.registry import Registry
from visavis.serving.discovery import Replica
from visavis.serving.errors import without_addresses
from visavis.v1 import tts_pb2

log = logging.getLogger(__name__)

# Four thousand characters are five minutes of speech, half a minute of work on one core.
PRERENDER_TIMEOUT_S = 180.0
LIST_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Prerendered:
    """One text on one replica. error: why it could not be made; "": it was."""

    replica: str
    text: str
    phrases: int = 0
    made: int = 0
    evicted: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class KeptPhrases:
    """What one replica keeps, and how often it was of use."""

    entries: int
    seconds: float
    bytes: int
    limit_bytes: int
    hits: int
    misses: int
    evictions: int


class Phrases:
    """Asks tts replicas to keep the sound of phrases: each has a memory of its own."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def replicas(self) -> list[Replica]:
        """The tts replicas that answer."""
        return [s.replica for s in self._registry.replicas("tts") if s.healthy]

    async def make(
        self,
        replica: Replica,
        language: str,
        text: str,
        *,
        voice: str = "",
        speed: float = 1.0,
        style: str = "",
    ) -> Prerendered:
        """Have a replica make the sound of `text`. An empty voice, style: the service's choice."""
        config = tts_pb2.SynthesisConfig(language=language, voice=voice, speed=speed, style=style)
        request = tts_pb2.PrerenderRequest(config=config, text=text)
        try:
            stub = self._registry.stub(replica)
            made = await stub.Prerender(request, timeout=PRERENDER_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            reason = without_addresses(error.details() or error.code().name, replica.instance)
            return Prerendered(replica.instance, text, error=reason)
        return Prerendered(replica.instance, text, made.phrases, made.made, made.evicted)

    async def kept(self) -> dict[str, KeptPhrases]:
        """What each replica keeps, by its name; those that do not answer are left out."""
        answers = await self._ask_all("ListPhrases", tts_pb2.ListPhrasesRequest())
        return {
            replica: KeptPhrases(
                entries=len(told.phrases),
                seconds=round(sum(phrase.seconds for phrase in told.phrases), 2),
                bytes=told.bytes,
                limit_bytes=told.limit_bytes,
                hits=told.hits,
                misses=told.misses,
                evictions=told.evictions,
            )
            for replica, told in answers.items()
        }

    async def clear(self) -> int:
        """Have every replica forget its phrases; how many there were.

        They are not made again by themselves: `visavis cache warm` does, and a new replica.
        """
        answers = await self._ask_all("ClearPhrases", tts_pb2.ClearPhrasesRequest())
        return sum(told.removed for told in answers.values())

    async def _ask_all(self, method: str, request: Any) -> dict[str, Any]:
        """Answers by replica, without those of replicas that do not answer."""
        answers = {}
        for replica in self.replicas():
            try:
                call = getattr(self._registry.stub(replica), method)
                answers[replica.instance] = await call(request, timeout=LIST_TIMEOUT_S)
            except grpc.aio.AioRpcError as error:
                log.warning("phrases of %s: %s", replica.instance, error.details())
        return answers
