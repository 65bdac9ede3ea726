"""What everything has in common that a session's sound and pictures go to."""

from __future__ import annotations

from typing import Protocol

from gateway.playout.playout import Tick
from visavis.serving.errors import AtCapacityError, UnknownNameError
from visavis.wire.media import VideoCodec


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
        self.check_open()
        if self.taken >= self._limit:
            limit = self._limit
            raise AtCapacityError(f"viewers: the session has {limit} already, the most allowed")
        self.taken += 1

    def check_open(self) -> None:
        """Raises UnknownNameError once the session is over."""
        if self._closed:
            raise UnknownNameError("session: it has ended")

    def close(self) -> None:
        """Nobody is let in any more."""
        self._closed = True

    def give_back(self) -> None:
        """One is free again."""
        self.taken -= 1
