"""Who watches by HLS: whoever asks for the playlist again and again, by a token of his own.

HLS is requests without a connection. Each player is handed a playlist's address with a token of
its own, and counts as a viewer for as long as it comes back in time. Pure: time is an argument.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict

from gateway import metrics
from gateway.live.hls.segments import TARGET_S
from gateway.playout.audience import Seats

HERE_S = 3.0 * TARGET_S
"""Players ask once in a target duration: who has not for so long is gone."""
_TOKEN_BYTES = 9
TOKEN = r"[A-Za-z0-9_-]{12}"
"""What one looks like."""


class HlsViewers:
    """Gives each of one session's HLS viewers a seat among its other viewers. Seconds of one clock.

    There are never more of them than seats. One who comes back late is let in anew, if there is
    room then: his token is remembered by himself.
    """

    def __init__(self, seats: Seats) -> None:
        self._seats = seats
        self._asked_at_s: OrderedDict[str, float] = OrderedDict()

    def hand_out(self, now_s: float) -> str:
        """A token for somebody who is about to watch.

        Raises AtCapacityError, UnknownNameError once the session is over.
        """
        self.look(now_s)
        self._seats.check_room()
        return secrets.token_urlsafe(_TOKEN_BYTES)

    def asked(self, token: str, now_s: float) -> None:
        """Somebody with this token asks for the playlist.

        Raises AtCapacityError, UnknownNameError once the session is over.
        """
        self.look(now_s)
        if token not in self._asked_at_s:
            self._seats.take()
            metrics.viewers.labels("hls").inc()
        self._asked_at_s[token] = now_s
        self._asked_at_s.move_to_end(token)

    def look(self, now_s: float) -> None:
        """Let go of those who have not asked for so long."""
        while self._asked_at_s:
            token, at_s = next(iter(self._asked_at_s.items()))
            if now_s - at_s <= HERE_S:
                return
            self._leave(token)

    def clear(self) -> None:
        """Nobody watches any more."""
        for token in list(self._asked_at_s):
            self._leave(token)

    def _leave(self, token: str) -> None:
        del self._asked_at_s[token]
        self._seats.give_back()
        metrics.viewers.labels("hls").dec()
