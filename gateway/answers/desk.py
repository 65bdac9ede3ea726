"""The gateway's answers: the pure cache with its clock, its file, its metrics."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path

from gateway import metrics
from gateway.answers.book import AnswerBook, read_book
from gateway.answers.cache import AnswerCache, Hit, Speaker
from gateway.answers.store import AnswerStore
from gateway.settings import GatewaySettings
from visavis.bundles.store.catalogue import cache_root

log = logging.getLogger(__name__)


class AnswerDesk:
    """One for all sessions: that is its use, and why learning is off unless asked for.

    `open` it, `close` it. wall_clock: seconds since 1970.
    """

    def __init__(
        self, settings: GatewaySettings, wall_clock: Callable[[], float] = time.time
    ) -> None:
        """Raises InvalidInputError where the file of answers is not in order."""
        self._path = settings.answers
        self._now_s = wall_clock
        self.learns = settings.learn_answers
        self.cache = AnswerCache(
            self._read(),
            settings.persona,
            limit_entries=settings.answer_cache_entries,
            limit_bytes=round(settings.answer_cache_mb * 1e6),
            ttl_s=settings.answer_cache_hours * 3600,
        )
        folder = settings.answer_cache_dir or cache_root() / "visavis" / "answers"
        self._store = AnswerStore(folder) if self.learns else None
        self._saving = asyncio.Lock()
        self._measured = {"evicted": 0, "expired": 0}
        self._measure()

    @property
    def path(self) -> Path | None:
        """The file of configured answers."""
        return self._path

    @property
    def useful(self) -> bool:
        """Whether anything can be found here."""
        book = self.cache.book
        return bool(book.answers or book.welcome or self.learns)

    async def open(self) -> None:
        """Take up what was learned before."""
        if self._store is None:
            return
        try:
            self.cache.restore(await asyncio.to_thread(self._store.load), self._now_s())
        except (TypeError, AttributeError) as error:
            log.warning("learned answers: %s is not used: %s", self._store.path, error)
            self.cache.forget_learned()
        self._measure()

    async def close(self) -> None:
        await self._save()

    async def reload(self) -> None:
        """Read the file of answers anew. Raises InvalidInputError; the old answers stay then."""
        self.cache.replace_book(await asyncio.to_thread(self._read))
        self._measure()

    def find(self, question: str, speaker: Speaker, *, opening: bool) -> Hit | None:
        """The answer to `question` if it is known, see AnswerCache.find."""
        if not self.useful:
            return None
        hit = self.cache.find(question, speaker, self._now_s(), opening=opening)
        metrics.answer_cache_lookups.labels(hit.match if hit else "miss").inc()
        return hit

    def welcome(self, speaker: Speaker) -> str:
        """What a session begins with; "": nothing."""
        return self.cache.welcome(speaker, self._now_s())

    async def learn(self, question: str, answer: str, speaker: Speaker) -> None:
        """Remember what was answered, where that is wanted."""
        if self.learns and self.cache.learn(question, answer, speaker, self._now_s()):
            self._measure()
            await self._save()

    async def forget_learned(self) -> int:
        """How many there were."""
        count = self.cache.forget_learned()
        self._measure()
        await self._save()
        return count

    def now_s(self) -> float:
        """Seconds since 1970."""
        return self._now_s()

    def _read(self) -> AnswerBook:
        return AnswerBook() if self._path is None else read_book(self._path)

    async def _save(self) -> None:
        if self._store is None:
            return
        async with self._saving:
            try:
                await asyncio.to_thread(self._store.save, self.cache.dump())
            except OSError as error:
                log.warning("learned answers: cannot be saved: %s", error)

    def _measure(self) -> None:
        cache = self.cache
        learned = cache.learned(self._now_s())
        metrics.answer_cache_entries.labels("configured").set(len(cache.book.answers))
        metrics.answer_cache_entries.labels("learned").set(len(learned))
        metrics.answer_cache_bytes.set(cache.learned_bytes)
        counts = {"evicted": cache.evictions, "expired": cache.expirations}
        for reason, count in counts.items():
            metrics.answer_cache_removals.labels(reason).inc(count - self._measured[reason])
        self._measured = counts
