"""What Python's search for garbage looks at, once a process has started."""

from __future__ import annotations

import asyncio
import gc
import weakref

from prometheus_client import REGISTRY

from visavis.serving.lifetime.collecting import Collecting


class Ring:
    """Refers to itself, as what only a search can find."""

    def __init__(self) -> None:
        self.itself = self


def searches() -> float:
    return REGISTRY.get_sample_value("full_collection_seconds_count") or 0.0


async def test_only_what_came_after_the_start_is_searched_and_that_is_told() -> None:
    before = Ring()
    collecting, told = Collecting(), searches()
    collecting.settled()
    try:
        after = Ring()
        looked_at = gc.get_objects()
        assert any(one is after for one in looked_at)
        assert not any(one is before for one in looked_at)
        found = weakref.ref(after)
        del after, looked_at
        gc.collect()
        assert found() is None
        await asyncio.sleep(0)
        assert searches() == told + 1
    finally:
        collecting.stop()
    assert any(one is before for one in gc.get_objects())
