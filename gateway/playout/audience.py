"""Everybody and everything that watches one session: what they have in common, and their seats."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from gateway.playout.playout import Tick
from visavis.serving.errors import AtCapacityError, UnknownNameError
from visavis.wire.media import VideoCodec

log = logging.getLogger(__name__)


class Sink(Protocol):
    """Browsers, mp4 viewers, a recording: whatever takes a session's ticks in its own format."""

    @property
    def codecs(self) -> set[VideoCodec]:
        """The streams that it takes now; none where it shows nothing to anybody."""

    @property
    def attended(self) -> bool:
        """Whether a viewer is there at this moment, as far as it can be known."""

    @property
    def watched(self) -> bool:
        """Whether sound and pictures reach somebody through it, now or later."""

    def push(self, tick: Tick) -> None:
        """Take what leaves in this tick. Never waits."""

    def cut(self, turn: int) -> None:
        """The turn ended early: nobody shall hear more of it that waits for a slow connection."""

    async def close(self) -> None:
        """Disconnect everybody, let go of all it holds."""


class Seats:
    """How many may watch one session, whatever they watch it with."""

    def __init__(self, limit: int) -> None:
        self.taken = 0
        self._limit = limit
        self._closed = False

    def take(self) -> None:
        """Raises AtCapacityError, UnknownNameError once the session is over."""
        self.check_room()
        self.taken += 1

    def check_room(self) -> None:
        """Raises AtCapacityError, UnknownNameError once the session is over."""
        self.check_open()
        if self.taken >= self._limit:
            limit = self._limit
            raise AtCapacityError(f"viewers: the session has {limit} already, the most allowed")

    def check_open(self) -> None:
        """Raises UnknownNameError once the session is over."""
        if self._closed:
            raise UnknownNameError("session: it has ended")

    def admit_nobody(self) -> None:
        """The session is over: nobody is let in any more."""
        self._closed = True

    def give_back(self) -> None:
        """One is free again."""
        self.taken -= 1


class Audience:
    """Hands what leaves to all sinks of one session, and knows which codecs they need.

    `add` them. on_codecs: called when those codecs have changed. codecs: before anybody has come,
    those that most viewers take, who need not wait for an encoder then.
    """

    def __init__(
        self,
        max_viewers: int,
        on_codecs: Callable[[set[VideoCodec]], None],
        codecs: Iterable[VideoCodec] = (VideoCodec.H264,),
    ) -> None:
        self.seats = Seats(max_viewers)
        self._on_codecs = on_codecs
        self._sinks: list[Sink] = []
        self._codecs = set(codecs)
        self._closed = False

    @property
    def present(self) -> int:
        """Viewers connected now."""
        return self.seats.taken

    @property
    def attending(self) -> bool:
        """Whether a viewer is there at this moment, as far as it can be known."""
        return any(sink.attended for sink in self._sinks)

    @property
    def watched(self) -> bool:
        """Whether sound and pictures reach anybody, or a recording."""
        return any(sink.watched for sink in self._sinks)

    def add(self, sink: Sink) -> None:
        """It gets every tick from now on."""
        self._sinks.append(sink)

    def push(self, tick: Tick) -> None:
        """Hand a tick to everybody. Never waits."""
        for sink in self._sinks:
            sink.push(tick)

    def cut(self, turn: int) -> None:
        """A turn ended early."""
        for sink in self._sinks:
            sink.cut(turn)

    def review(self) -> None:
        """What nobody watches is not encoded; where nobody watches at all, nothing is drawn."""
        codecs = {codec for sink in self._sinks for codec in sink.codecs}
        if codecs != self._codecs and not self._closed:
            self._codecs = codecs
            self._on_codecs(codecs)

    async def close(self) -> None:
        """Disconnect everybody."""
        self._closed = True  # there is no face to tell any more
        self.seats.admit_nobody()
        closing = (sink.close() for sink in self._sinks)
        for error in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(error, BaseException):
                log.error("a sink did not close in order", exc_info=error)
