"""What one gateway has learned, all of them know: over the bus, where that keeps things."""

from __future__ import annotations

import asyncio
import contextlib
import logging

from gateway.answers.cache import MAX_FILE_BYTES, AnswerCache
from visavis.serving.errors import AtCapacityError, BusError
from visavis.serving.lifetime.supervision import Keeper
from visavis.wire.bucket import Bucket, NotWholeError, State, Trouble
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
        self._news = self._told = 0
        """How often something was learned here, and up to which time the bus knows of it."""
        self._forgetting = False
        """The bus is to forget yet what was forgotten here."""
        self._keeper = Keeper("shared-lessons", self._keep_looking)

    def start(self) -> None:
        self._cache.sharing = self
        self._keeper.start()

    async def stop(self) -> None:
        self._cache.sharing = None
        await self._keeper.stop()

    async def learned(self) -> None:
        """The cache knows something new. What the bus cannot be told now it is told later."""
        self._news += 1
        await self._tell()

    async def forgotten(self) -> None:
        """The cache has forgotten all; so does whoever starts from now on."""
        self._told = self._news
        async with self._changing:
            try:
                await self._bucket.delete(_NAME)
            except BusError as error:
                self._forgetting = True
                self._trouble.tell(error)

    async def _keep_looking(self) -> None:
        while True:
            await self._tell(look=True)
            await asyncio.sleep(REVIEW_S)

    async def _tell(self, *, look: bool = False) -> None:
        """look: for what the others have to tell, too."""
        async with self._changing:
            try:
                if self._forgetting:
                    await self._forget_late()
                if look:
                    await self._take_up()
                if self._told < self._news:
                    await self._put()
                if look:
                    self._trouble.over()
            except AtCapacityError as error:
                self._told = self._news  # it would be as much the next time
                self._trouble.tell(error)
            except BusError as error:
                self._trouble.tell(error)

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

    async def _forget_late(self) -> None:
        """What others have learned since then stays."""
        with contextlib.suppress(NotWholeError):
            dumped = await self._bucket.get(_NAME)
            if dumped is not None:
                self._learn(dumped)
        await self._bucket.delete(_NAME)
        self._forgetting = False
        if self._cache.learned.all(self._cache.now_s()):
            self._news += 1

    async def _put(self) -> None:
        news = self._news
        await self._bucket.change(_NAME, self._with_ours)
        self._told = news

    def _with_ours(self, dumped: bytes | None) -> bytes:
        if dumped is not None:
            self._learn(dumped)
        return self._cache.learned.dump().encode()

    def _learn(self, dumped: bytes) -> None:
        try:
            self._cache.take_up(dumped.decode())
        except ValueError as error:
            log.warning("learned answers of other gateways are not used: %s", error)
