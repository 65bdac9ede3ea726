"""Gifts are thanked together, each giver once in a while, and nobody is forgotten. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from gateway.room.choosing.comments import Comment

_MOST_THANKED = 5_000


@dataclass(frozen=True, slots=True)
class ThankRules:
    """When thanks are said. Times in seconds."""

    every_s: float = 30.0
    """Between two thanks."""
    combo_s: float = 2.5
    """A giver who has just given may be about to give again; he is waited for so long …"""
    longest_wait_s: float = 10.0
    """… but no longer than this."""
    per_giver_s: float = 60.0
    named: int = 4
    """Givers who are named at once; those who gave most come first."""
    places: int = 200
    """Givers who wait; of more, the gifts are counted and thanked without a name."""


@dataclass(frozen=True, slots=True)
class Given:
    """So many of one gift. gift: its name as it can be said; "": it cannot."""

    gift: str
    count: int


@dataclass(slots=True)
class Giver:
    """All that one viewer has given and was not thanked for."""

    author: str
    name: str
    first_at_s: float
    last_at_s: float
    worth: float = 0.0
    events: int = 0
    gifts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Batch:
    """What one sentence thanks for."""

    givers: tuple[Giver, ...]
    others: int
    """Givers without a name in it."""
    gifts: tuple[Given, ...]
    events: int
    """Gifts as they came, each of them once."""


class Gifts:
    """All gifts of one room that were not thanked yet."""

    def __init__(self, rules: ThankRules) -> None:
        self.rules = rules
        self._waiting: dict[str, Giver] = {}
        self._unnamed: Giver | None = None
        self._thanked_at_s: OrderedDict[str, float] = OrderedDict()
        self._last_s: float | None = None

    @property
    def waiting(self) -> int:
        """Gifts, as they came, that are not thanked yet."""
        unnamed = 0 if self._unnamed is None else self._unnamed.events
        return unnamed + sum(giver.events for giver in self._waiting.values())

    def take(self, comment: Comment, name: str, gift: str, now: float) -> None:
        """A viewer gives. name, gift: as they can be said."""
        giver = self._giver(comment.author_key, name, now)
        giver.name = name or giver.name
        giver.last_at_s = now
        giver.worth += comment.worth
        giver.events += 1
        if gift in giver.gifts or len(giver.gifts) < self.rules.named:
            giver.gifts[gift] = giver.gifts.get(gift, 0) + max(1, comment.count)

    def unname(self, author: str) -> None:
        """Thank this author without his name."""
        if author in self._waiting:
            self._waiting[author].name = ""

    def review(self, unsayable: Callable[[str], object]) -> None:
        """Names and gifts of those who wait may not be said any more: thank without them."""
        for giver in self._waiting.values():
            giver.name = "" if unsayable(giver.name) else giver.name
            named, giver.gifts = giver.gifts, {}
            for gift, count in named.items():
                gift = "" if unsayable(gift) else gift
                giver.gifts[gift] = giver.gifts.get(gift, 0) + count

    def forget(self) -> int:
        """Thank nobody any more; how many gifts are not thanked, as they came."""
        waiting = self.waiting
        self._waiting.clear()
        self._unnamed = None
        return waiting

    def _giver(self, author: str, name: str, now: float) -> Giver:
        known = self._waiting.get(author)
        if known is not None:
            return known
        if len(self._waiting) >= self.rules.places:
            if self._unnamed is None:
                self._unnamed = Giver("", "", now, now)
            return self._unnamed
        giver = self._waiting[author] = Giver(author, name, now, now)
        return giver

    def due(self, now: float) -> Batch | None:
        """What is to be thanked now; None: nothing. It counts as thanked."""
        if self._last_s is not None and now - self._last_s < self.rules.every_s:
            return None
        ready = [giver for giver in self._waiting.values() if self._is_ready(giver, now)]
        if not ready and self._unnamed is None:
            return None
        ready.sort(key=lambda giver: giver.worth, reverse=True)
        for giver in ready:
            del self._waiting[giver.author]
            self._remember(giver.author, now)
        unnamed, self._unnamed = self._unnamed, None
        self._last_s = now
        named = tuple(ready[: self.rules.named])
        others = len(ready) - len(named) + (0 if unnamed is None else unnamed.events)
        gifts: dict[str, int] = {}
        for giver in named:
            for gift, count in giver.gifts.items():
                gifts[gift] = gifts.get(gift, 0) + count
        events = sum(giver.events for giver in ready) + (0 if unnamed is None else unnamed.events)
        return Batch(named, others, tuple(Given(g, n) for g, n in gifts.items()), events)

    def _is_ready(self, giver: Giver, now: float) -> bool:
        thanked_s = self._thanked_at_s.get(giver.author)
        if thanked_s is not None and now - thanked_s < self.rules.per_giver_s:
            return False
        goes_on = now - giver.last_at_s < self.rules.combo_s
        return not goes_on or now - giver.first_at_s >= self.rules.longest_wait_s

    def _remember(self, author: str, now: float) -> None:
        self._thanked_at_s[author] = now
        self._thanked_at_s.move_to_end(author)
        if len(self._thanked_at_s) > _MOST_THANKED:
            self._thanked_at_s.popitem(last=False)
