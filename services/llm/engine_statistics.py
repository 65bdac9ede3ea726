"""A language model engine's own statistics, made into our metrics."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from visavis import metrics

log = logging.getLogger(__name__)

# How long one look waits for the next entry. Some releases of TensorRT-LLM go on
# reading until nothing comes for this long: it must be shorter than one step.
_LOOK_S = 0.001


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """One step of the engine. None: the engine did not say.

    `running` requests are computed in this step, `waiting` ones are taken up but
    not in this step, `queued` ones are not taken up yet.
    """

    running: int = 0
    waiting: int = 0
    queued: int = 0
    kv_cache_used: float | None = None
    kv_cache_hits: float | None = None

    def show(self) -> None:
        metrics.llm_engine_requests.labels("running").set(self.running)
        metrics.llm_engine_requests.labels("waiting").set(self.waiting)
        metrics.llm_engine_requests.labels("queued").set(self.queued)
        if self.kv_cache_used is not None:
            metrics.llm_kv_cache_used_ratio.set(self.kv_cache_used)
        if self.kv_cache_hits is not None:
            metrics.llm_kv_cache_hit_ratio.set(self.kv_cache_hits)


def read_iteration(entry: Mapping[str, Any]) -> EngineLoad:
    """One entry of TensorRT-LLM's iteration statistics, whichever of its keys are there.

    Raises ValueError or TypeError for what is no number.
    """
    active = int(entry.get("numActiveRequests") or 0)
    batch = entry.get("inflightBatchingStats") or {}
    scheduled = batch.get("numScheduledRequests")
    running = active if scheduled is None else int(scheduled)
    cache = entry.get("kvCacheStats") or {}
    blocks = int(cache.get("maxNumBlocks") or 0)
    hits = cache.get("cacheHitRate")
    return EngineLoad(
        running=running,
        waiting=max(active - running, 0),
        queued=int(entry.get("numQueuedRequests") or 0),
        kv_cache_used=int(cache.get("usedNumBlocks") or 0) / blocks if blocks else None,
        kv_cache_hits=None if hits is None else float(hits),
    )


class StatisticsReader:
    """Looks at the engine's statistics every `interval_s` and shows the newest.

    `read` gives the entries since the last look, oldest first; it may block, and
    runs on a thread. `busy` says whether any request is at work: an idle engine
    makes no steps and so no entries, and its last one would stand for ever.
    """

    def __init__(
        self,
        read: Callable[[float], Sequence[Mapping[str, Any]]],
        busy: Callable[[], bool],
        *,
        interval_s: float = 1.0,
    ) -> None:
        self._read = read
        self._busy = busy
        self._interval_s = interval_s

    async def run(self) -> None:
        """For ever, or until the statistics fail: answers go on without them."""
        try:
            while True:
                await self.look()
                await asyncio.sleep(self._interval_s)
        except Exception:
            log.warning("no more statistics of the language model engine", exc_info=True)
            for gauge in (metrics.llm_kv_cache_used_ratio, metrics.llm_kv_cache_hit_ratio):
                gauge.set(math.nan)
            metrics.llm_engine_requests.clear()

    async def look(self) -> None:
        entries = await asyncio.to_thread(self._read, _LOOK_S)
        if entries:
            read_iteration(entries[-1]).show()
        elif not self._busy():
            EngineLoad().show()
