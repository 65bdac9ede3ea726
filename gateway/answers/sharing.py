"""What one gateway has learned, all of them know: over the bus, where that keeps things."""

from __future__ import annotations

import asyncio
import logging

from gateway.answers.cache import MAX_FILE_BYTES, AnswerCache
from visavis.serving.errors import AtCapacityError, BusError
from visavis.serving.lifetime.supervision import Keeper
from visavis.wire.bucket import Bucket, State, Trouble
from visavis.wire.bus import Bus
from visavis.wire.subjects import LEARNED_ANSWERS

log = logging.getLogger(__name__)

REVIEW_S = 2.0
_NAME = "learned"


class SharedLessons:
    """Takes up what other gateways have learned, between `start` and `stop`, and tells them.

    All of it is one object: each writes what it knows, the others' lessons among it.
    """

    def __init__(self, bus: Bus, cache: AnswerCache) -> None:
        self._bucket = Bucket(bus, LEARNED_ANSWERS, MAX_FILE_BYTES)
        self._cache = cache
        self._state: State | None = None
        self._trouble = Trouble("learned answers are this gateway's alone")
        self._changing = asyncio.Lock()
        self._keeper = Keeper("shared-lessons", self._keep_looking)

    def start(self) -> None:
        self._cache.sharing = self
        self._keeper.start()

    async def stop(self) -> None:
        self._cache.sharing = None
        await self._keeper.stop()

    async def learned(self) -> None:
        """The cache knows something new."""
        async with self._changing:
            try:
                await self._put()
            except (BusError, AtCapacityError) as error:
                self._trouble.tell(error)

    async def forgotten(self) -> None:
        """The cache has forgotten all; so does whoever starts from now on."""
        async with self._changing:
            try:
                await self._bucket.delete(_NAME)
            except BusError as error:
                self._trouble.tell(error)

    async def _keep_looking(self) -> None:
        while True:
            async with self._changing:
                try:
                    await self._take_up()
                    self._trouble.over()
                except (BusError, AtCapacityError) as error:
                    self._trouble.tell(error)
            await asyncio.sleep(REVIEW_S)

    async def _take_up(self) -> None:
        state = await self._bucket.state()
        if state == self._state:
            return
        dumped = await self._bucket.get(_NAME)
        if dumped is None:
            # Deleted, they are forgotten; where there never were any, the bus has lost its disk.
            known = self._cache.learned.all(self._cache.now_s())
            if known and _NAME not in await self._bucket.index():
                await self._put()
        else:
            self._learn(dumped)
        self._state = state

    async def _put(self) -> None:
        await self._bucket.change(_NAME, self._with_ours)

    def _with_ours(self, dumped: bytes | None) -> bytes:
        if dumped is not None:
            self._learn(dumped)
        return self._cache.learned.dump().encode()

    def _learn(self, dumped: bytes) -> None:
        try:
            self._cache.take_up(dumped.decode())
        except ValueError as error:
            log.warning("learned answers of other gateways are not used: %s", error)
