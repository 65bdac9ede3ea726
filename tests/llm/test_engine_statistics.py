"""The engine's statistics as metrics."""

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from services.llm.backends.tensorrt_llm import EngineLoad, StatisticsReader, read_iteration
from visavis.serving import metrics

ENTRY = {
    "iter": 7,
    "numActiveRequests": 5,
    "numQueuedRequests": 2,
    "inflightBatchingStats": {"numScheduledRequests": 3},
    "kvCacheStats": {"maxNumBlocks": 200, "usedNumBlocks": 50, "cacheHitRate": 0.25},
}


def shown(state: str) -> float:
    return float(metrics.llm_engine_requests.labels(state)._value.get())


@pytest.mark.parametrize(
    ("entry", "load"),
    [
        (ENTRY, EngineLoad(3, 2, 2, 0.25, 0.25)),
        ({"numActiveRequests": 4}, EngineLoad(4)),
        ({"kvCacheStats": {"maxNumBlocks": 0, "usedNumBlocks": 0}}, EngineLoad()),
        ({"kvCacheStats": None, "inflightBatchingStats": None}, EngineLoad()),
    ],
)
def test_an_entry_is_read_whichever_keys_it_has(entry: Mapping[str, Any], load: EngineLoad) -> None:
    assert read_iteration(entry) == load


async def test_the_newest_entry_is_shown_and_an_idle_engine_shows_none() -> None:
    answers: list[Sequence[Mapping[str, Any]]] = [[{"numActiveRequests": 9}, ENTRY], [], []]
    busy = [True, False]
    reader = StatisticsReader(lambda timeout_s: answers.pop(0), lambda: busy.pop(0))
    await reader.look()
    assert [shown(state) for state in ("running", "waiting", "queued")] == [3, 2, 2]
    assert metrics.llm_kv_cache_used_ratio._value.get() == 0.25
    await reader.look()
    assert shown("running") == 3, "a long step is not an idle engine"
    await reader.look()
    assert [shown(state) for state in ("running", "waiting", "queued")] == [0, 0, 0]
    assert metrics.llm_kv_cache_used_ratio._value.get() == 0.25, "its blocks stay in use"


async def test_statistics_that_fail_end_without_a_trace_in_the_metrics(
    caplog: pytest.LogCaptureFixture,
) -> None:
    looks = 0

    def read(timeout_s: float) -> Sequence[Mapping[str, Any]]:
        nonlocal looks
        looks += 1
        if looks == 3:
            raise NotImplementedError("get_stats")
        return [ENTRY]

    await asyncio.wait_for(StatisticsReader(read, lambda: True, interval_s=0).keep_looking(), 30)
    assert looks == 3
    assert "no more statistics" in caplog.text
    assert math.isnan(metrics.llm_kv_cache_used_ratio._value.get())
