"""A chat of a platform: what an adapter is, and what keeps one connected."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from enum import StrEnum
from typing import Protocol, TypeVar

from gateway.api.choices import sendable
from gateway.room.choosing.comments import (
    LONGEST_CURRENCY,
    LONGEST_NAME,
    LONGEST_TEXT,
    MOST_GIFTS,
    MOST_PAID,
    Comment,
)
from visavis.serving.errors import VisavisError

M = TypeVar("M")

log = logging.getLogger(__name__)

QUIET = logging.getLogger(f"{__name__}.sockets")
"""Of WebSockets to platforms: at DEBUG it would write down what we show, and so the keys."""
QUIET.setLevel(logging.INFO)

# What is longer is no word that was cut, but a script without blanks, such as Mandarin.
_LONGEST_REST = 30
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 60.0
# A connection that held so long was a good one: the next waits are short again.
_GOOD_AFTER_S = 60.0


class PlatformError(VisavisError):
    """A platform cannot be reached, or does not answer as it is said to; it is tried again."""


class RefusedError(VisavisError):
    """A platform does not want what it is shown: to try again would be no use."""


def told(
    read: Callable[[M, float, float], list[Comment]], message: M, now_s: float, unix_s: float
) -> list[Comment]:
    """What a message says of viewers; nothing where it is not as the platform describes it.

    now_s and unix_s: the same moment.
    """
    try:
        return [_whole(comment) for comment in read(message, now_s, unix_s)]
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        log.debug("a message of a platform that cannot be read: %r", error)
        return []


def _whole(comment: Comment) -> Comment:
    """As it can be sent, and taken by another gateway of ours. Raises ValueError."""
    if not 0 <= comment.amount <= MOST_PAID:
        raise ValueError("nobody pays this")

    def name(text: str) -> str:
        return sendable(text)[:LONGEST_NAME]

    author = comment.author
    return replace(
        comment,
        id=name(comment.id),
        author=replace(author, id=name(author.id), name=name(author.name)),
        text=sendable(comment.text)[:LONGEST_TEXT],
        currency=sendable(comment.currency)[:LONGEST_CURRENCY],
        gift=name(comment.gift),
        count=min(comment.count, MOST_GIFTS),
        target=name(comment.target),
    )


def shortened(text: str, longest: int) -> str:
    """A text as it may be posted, where it is too long cut behind a word if one ends near there."""
    if len(text) <= longest:
        return text
    text = text[: longest - 1]
    words, _, rest = text.rpartition(" ")
    return (words if len(rest) <= _LONGEST_REST else text) + "…"


class Adapter(Protocol):
    """One chat of one platform."""

    platform: str
    room: str
    """What is told of where it is; no secret."""
    posts: bool
    """Whether it can write."""

    def comments(self, on_live: Callable[[], None]) -> AsyncGenerator[Comment, None]:
        """Comments as they come, until the platform hangs up; `on_live` once it is connected.

        Raises PlatformError, RefusedError. Comments' times count on `time.monotonic`.
        """
        ...

    async def post(self, comment: Comment, text: str) -> str:
        """Answer a comment in writing. Raises PlatformError, RefusedError.

        The id by which the `comments` of another connection bring it, as those of this one do not;
        "": none do.
        """
        ...


class Phase(StrEnum):
    """Where a connection stands."""

    CONNECTING = "connecting"
    LIVE = "live"
    WAITING = "waiting"
    """It was lost, and is tried again after a while."""
    REFUSED = "refused"
    """For good: a key is wrong, a room is not there."""


class Connection:
    """Keeps one adapter connected for as long as `run` runs, and knows how it stands.

    take: given each comment. wait: as asyncio.sleep.
    """

    def __init__(
        self,
        adapter: Adapter,
        take: Callable[[Comment], object],
        wait: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.phase = Phase.CONNECTING
        self.message = ""
        self.received = 0
        self._adapter = adapter
        self._take = take
        self._wait = wait
        self._wait_s = _FIRST_WAIT_S

    @property
    def platform(self) -> str:
        return self._adapter.platform

    @property
    def room(self) -> str:
        return self._adapter.room

    @property
    def posts(self) -> bool:
        return self._adapter.posts and self.phase is Phase.LIVE

    async def run(self) -> None:
        """Comments of the platform, whatever happens to the connection."""
        while True:
            began_s = time.monotonic()
            try:
                await self._read()
                self.message = "the platform has hung up"
            except RefusedError as error:
                self.phase, self.message = Phase.REFUSED, str(error)
                log.warning("%s: %s", self.platform, error)
                await asyncio.Event().wait()
            except (VisavisError, OSError) as error:
                self.message = str(error) or type(error).__name__
            if time.monotonic() - began_s > _GOOD_AFTER_S:
                self._wait_s = _FIRST_WAIT_S
            self.phase = Phase.WAITING
            log.info("%s: again in about %.0f s: %s", self.platform, self._wait_s, self.message)
            # Not all at once where many were cut off at the same moment.
            await self._wait(self._wait_s * random.uniform(0.7, 1.3))
            self._wait_s = min(_LONGEST_WAIT_S, 2 * self._wait_s)

    async def _read(self) -> None:
        self.phase = Phase.CONNECTING
        async with aclosing(self._adapter.comments(self._live)) as comments:
            async for comment in comments:
                self.received += 1
                self._take(comment)

    def _live(self) -> None:
        self.phase, self.message = Phase.LIVE, ""

    async def post(self, comment: Comment, text: str) -> str:
        """See `Adapter`."""
        try:
            return await self._adapter.post(comment, text)
        except VisavisError as error:
            self.message = f"an answer was not posted: {error}"
            raise
