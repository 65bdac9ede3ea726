"""Everybody and everything that watches one session."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from gateway.playout.playout import Tick
from gateway.playout.sinks.base import Seats, Sink
from visavis.wire.media import VideoCodec

log = logging.getLogger(__name__)


class Audience:
    """One session's sinks; `add` them. on_codecs: the codecs that they need have changed."""

    def __init__(self, max_viewers: int, on_codecs: Callable[[set[VideoCodec]], None]) -> None:
        self.seats = Seats(max_viewers)
        self._on_codecs = on_codecs
        self._sinks: list[Sink] = []
        # Before anybody has come: most viewers take it, and need not wait for an encoder then.
        self._codecs = {VideoCodec.H264}
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
        self.seats.close()
        closing = (sink.close() for sink in self._sinks)
        for error in await asyncio.gather(*closing, return_exceptions=True):
            if isinstance(error, BaseException):
                log.error("a sink did not close in order", exc_info=error)
