"""Has every tts replica make the sound of what will be said, before anybody waits for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

import grpc.aio

from gateway.answers.cache import AnswerCache
from gateway.stages.registry import Registry
from visavis.serving.discovery import Replica
from visavis.serving.errors import StageLostError
from visavis.serving.supervision import Keeper
from visavis.v1 import tts_pb2

log = logging.getLogger(__name__)

REVIEW_S = 2.0
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


class Prerenderer:
    """`start` it, `close` it. Between, replicas that are new are made ready in the background.

    busy: a conversation needs the voices more.
    """

    def __init__(self, registry: Registry, answers: AnswerCache, busy: Callable[[], bool]) -> None:
        self._registry = registry
        self._answers = answers
        self._busy = busy
        self._ready: dict[str, str] = {}
        """Digest of the book that a replica has the sound of."""
        self._keeper = Keeper("prerender", self._keep_ready)

    def start(self) -> None:
        self._keeper.start()

    async def close(self) -> None:
        await self._keeper.close()

    def replicas(self) -> list[Replica]:
        """The tts replicas that answer."""
        return [s.replica for s in self._registry.replicas("tts") if s.healthy]

    async def make(
        self,
        texts: Sequence[tuple[str, str]],
        *,
        voice: str = "",
        speed: float = 1.0,
        style: str = "",
    ) -> AsyncIterator[Prerendered]:
        """Texts with their languages, each on each replica. Raises StageLostError without any."""
        replicas = self.replicas()
        if not replicas:
            raise StageLostError("tts: no replica is running")
        for language, text in texts:
            config = tts_pb2.SynthesisConfig(
                language=language, voice=voice, speed=speed, style=style
            )
            for replica in replicas:
                yield await self._make(replica, text, config)

    async def kept(self) -> dict[str, tts_pb2.ListPhrasesResponse]:
        """What each replica keeps, by its name; those that do not answer are left out."""
        request = tts_pb2.ListPhrasesRequest()
        found = {}
        for replica in self.replicas():
            try:
                stub = self._registry.stub(replica)
                found[replica.instance] = await stub.ListPhrases(request, timeout=LIST_TIMEOUT_S)
            except grpc.aio.AioRpcError as error:
                log.warning("phrases of %s: %s", replica.instance, error.details())
        return found

    async def clear(self) -> int:
        """Have every replica forget its phrases; how many there were.

        They are not made again by themselves: `visavis cache warm` does, and a new replica.
        """
        removed = 0
        for replica in self.replicas():
            try:
                stub = self._registry.stub(replica)
                answer = await stub.ClearPhrases(
                    tts_pb2.ClearPhrasesRequest(), timeout=LIST_TIMEOUT_S
                )
                removed += answer.removed
            except grpc.aio.AioRpcError as error:
                log.warning("phrases of %s: %s", replica.instance, error.details())
        return removed

    async def _make(
        self, replica: Replica, text: str, config: tts_pb2.SynthesisConfig
    ) -> Prerendered:
        request = tts_pb2.PrerenderRequest(config=config, text=text)
        try:
            stub = self._registry.stub(replica)
            made = await stub.Prerender(request, timeout=PRERENDER_TIMEOUT_S)
        except grpc.aio.AioRpcError as error:
            reason = error.details() or error.code().name
            return Prerendered(replica.instance, text, error=reason)
        return Prerendered(replica.instance, text, made.phrases, made.made, made.evicted)

    async def _keep_ready(self) -> None:
        while True:
            book, replicas = self._answers.book, self.replicas()
            known = {replica.instance for replica in replicas}
            self._ready = {name: made for name, made in self._ready.items() if name in known}
            for replica in replicas:
                if book.texts() and self._ready.get(replica.instance) != book.digest:
                    await self._make_all(replica, book.texts())
                    self._ready[replica.instance] = book.digest
            await asyncio.sleep(REVIEW_S)

    async def _make_all(self, replica: Replica, texts: Sequence[tuple[str, str]]) -> None:
        for language, text in texts:
            # Whoever is talking now must not wait for the sake of those who may come; what
            # they do next sets no event here.
            while self._busy():  # noqa: ASYNC110
                await asyncio.sleep(REVIEW_S)
            plainly = tts_pb2.SynthesisConfig(language=language, speed=1.0)
            done = await self._make(replica, text, plainly)
            if done.error:
                log.warning("prerender on %s: %s", replica.instance, done.error)
        log.info("%d texts are prerendered on %s", len(texts), replica.instance)
