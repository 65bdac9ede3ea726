"""How many sessions an app has, and how fast it makes them. Pure: the time is an argument."""

from __future__ import annotations

import math
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from gateway.access.callers import Limits
from visavis.serving.errors import VisavisError

MOST_A_MINUTE = 5000
"""More than that nobody is limited to, and no more are remembered."""
WINDOW_S = 60.0
"""In which `sessions_per_minute` are counted."""
_AGAIN_S = 5.0
"""After so long it is worth asking again for a session in the place of one that has ended."""


class OverLimitError(VisavisError):
    """An app asks for more than it may have. retry_after_s: when it may be worth asking again."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


@dataclass(frozen=True, slots=True)
class Usage:
    """What an app has at one gateway. ages_s: of the sessions made there within the window."""

    sessions: int = 0
    ages_s: list[float] = field(default_factory=list)


class Making:
    """The sessions that apps of this gateway are making, and have made within the window."""

    def __init__(self) -> None:
        self._now: Counter[str] = Counter()
        self._made_s: defaultdict[str, deque[float]] = defaultdict(
            lambda: deque(maxlen=MOST_A_MINUTE + 1)
        )

    @contextmanager
    def one(self, app: str, now_s: float) -> Iterator[None]:
        """A session is being made. It counts from now on, but for one that is over a limit."""
        self._now[app] += 1
        self._made_s[app].append(now_s)
        try:
            yield
        except OverLimitError:
            self._made_s[app].remove(now_s)
            raise
        finally:
            self._now[app] -= 1
            self._forget(now_s)

    def usage(self, app: str, sessions: int, now_s: float) -> Usage:
        """sessions: that it has here, and those in line."""
        made_s = self._made_s.get(app, ())
        ages_s = [now_s - at_s for at_s in made_s if now_s - at_s < WINDOW_S]
        return Usage(sessions + self._now[app], ages_s)

    def _forget(self, now_s: float) -> None:
        for app, made_s in list(self._made_s.items()):
            while made_s and now_s - made_s[0] >= WINDOW_S:
                made_s.popleft()
            if not made_s:
                del self._made_s[app]
        self._now += Counter()  # those that are 0 go


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a limit of sessions is used up. reset_s: until one that counts does not any more;
    0: when one ends, whenever that is."""

    limit: int
    remaining: int
    reset_s: float = 0.0


def standing(limits: Limits, usages: Sequence[Usage]) -> Standing | None:
    """Of an app's limits the one of which least is left; None: it has none.

    usages: at each gateway.
    """
    found = []
    if limits.max_sessions:
        there_are = sum(usage.sessions for usage in usages)
        found.append(Standing(limits.max_sessions, max(0, limits.max_sessions - there_are)))
    if limits.sessions_per_minute:
        ages_s = [age_s for usage in usages for age_s in usage.ages_s]
        left = max(0, limits.sessions_per_minute - len(ages_s))
        reset_s = max(0.0, WINDOW_S - max(ages_s, default=WINDOW_S))
        found.append(Standing(limits.sessions_per_minute, left, reset_s))
    return min(found, key=lambda it: it.remaining / it.limit, default=None)


def check(limits: Limits, usages: Sequence[Usage]) -> None:
    """Raises OverLimitError where an app has too much, the session that it makes now among it.

    usages: at each gateway.
    """
    most, each_minute = limits.max_sessions, limits.sessions_per_minute
    if most and sum(usage.sessions for usage in usages) > most:
        message = f"sessions: this key has {most} open or waiting, the most that it may have"
        raise OverLimitError(message, _AGAIN_S)
    ages_s = sorted(age_s for usage in usages for age_s in usage.ages_s)
    if each_minute and len(ages_s) > each_minute:
        # Of the `each_minute` newest before this one, the oldest has to leave the window.
        wait_s = WINDOW_S - ages_s[each_minute]
        again = f"try again in {math.ceil(wait_s)} s"
        raise OverLimitError(f"sessions: this key may make {each_minute} a minute; {again}", wait_s)
