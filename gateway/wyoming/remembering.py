"""What was said in a conversation whose requests come one by one. Pure: the time is an argument."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from gateway.talk.actions import Message

MOST_CONVERSATIONS = 64
MOST_EXCHANGES = 10
"""Of one conversation, the newest."""
LIFE_S = 600.0
"""A conversation in which nothing is said for so long is forgotten."""


@dataclass(slots=True)
class _Conversation:
    last_s: float
    said: list[Message] = field(default_factory=list)


class Conversations:
    """The last exchanges of the last conversations.

    A key is whose the conversation is and what its client calls it: nobody sees another's.
    """

    def __init__(self) -> None:
        self._by_key: OrderedDict[tuple[str, str], _Conversation] = OrderedDict()

    def __len__(self) -> int:
        return len(self._by_key)

    def said(self, key: tuple[str, str], now_s: float) -> tuple[Message, ...]:
        """What was said so far, the oldest first."""
        self._forget(now_s)
        known = self._by_key.get(key)
        return tuple(known.said) if known is not None else ()

    def add(self, key: tuple[str, str], question: str, answer: str, now_s: float) -> None:
        """One exchange more."""
        self._forget(now_s)
        known = self._by_key.setdefault(key, _Conversation(now_s))
        known.said += [Message("user", question), Message("assistant", answer)]
        del known.said[: -2 * MOST_EXCHANGES]
        known.last_s = now_s
        self._by_key.move_to_end(key)
        while len(self._by_key) > MOST_CONVERSATIONS:
            self._by_key.popitem(last=False)

    def _forget(self, now_s: float) -> None:
        while self._by_key:
            key, oldest = next(iter(self._by_key.items()))
            if now_s - oldest.last_s < LIFE_S:
                return
            del self._by_key[key]
