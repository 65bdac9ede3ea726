"""When a session's welcome phrase is said: once, as soon as somebody is there to hear it."""

from __future__ import annotations

# A player that has just connected swallows its first moments.
SETTLE_S = 0.4


class WelcomeCue:
    """Pure; times in seconds of any clock. text: "" for a session without a welcome."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._watched_since_s: float | None = None

    def due(self, now: float, *, watched: bool, untouched: bool) -> str:
        """The phrase, the one time that it is to be said; "" otherwise.

        watched: somebody receives the session. untouched: nothing was said or asked in it yet;
        a visitor who speaks first is not greeted any more.
        """
        if not self.text:
            return ""
        if not untouched:
            self.text = ""
        if not watched:
            self._watched_since_s = None
            return ""
        if self._watched_since_s is None:
            self._watched_since_s = now
        if now - self._watched_since_s < SETTLE_S:
            return ""
        text, self.text = self.text, ""
        return text
