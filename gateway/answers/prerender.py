"""Has every tts replica make the sound of what will be said, before anybody waits for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence

from gateway.answers.cache import AnswerCache
from gateway.stages.phrases import Phrases, Prerendered
from visavis.serving.discovery import Replica
from visavis.serving.errors import StageLostError
from visavis.serving.lifetime.supervision import Keeper

log = logging.getLogger(__name__)

REVIEW_S = 2.0


class Prerenderer:
    """Makes replicas that are new ready in the background, between `start` and `stop`.

    busy: a conversation needs the voices more.
    """

    def __init__(self, phrases: Phrases, answers: AnswerCache, busy: Callable[[], bool]) -> None:
        self.phrases = phrases
        """What the replicas have ready."""
        self._answers = answers
        self._busy = busy
        self._ready: dict[str, str] = {}
        """Digest of the book that a replica has the sound of."""
        self._keeper = Keeper("prerender", self._keep_ready)

    def start(self) -> None:
        """Begin to work in the background."""
        self._keeper.start()

    async def stop(self) -> None:
        """End the work in the background."""
        await self._keeper.stop()

    async def make(
        self,
        texts: Sequence[tuple[str, str]],
        *,
        voice: str = "",
        speed: float = 1.0,
        style: str = "",
    ) -> AsyncIterator[Prerendered]:
        """Texts with their languages, each on each replica. Raises StageLostError without any."""
        replicas = self.phrases.replicas()
        if not replicas:
            raise StageLostError("tts: no replica is running")
        for language, text in texts:
            for replica in replicas:
                yield await self.phrases.make(
                    replica, language, text, voice=voice, speed=speed, style=style
                )

    async def _keep_ready(self) -> None:
        while True:
            book, replicas = self._answers.book, self.phrases.replicas()
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
            done = await self.phrases.make(replica, language, text)
            if done.error:
                log.warning("prerender on %s: %s", replica.instance, done.error)
        log.info("%d texts are prerendered on %s", len(texts), replica.instance)
