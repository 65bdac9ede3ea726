"""What viewers of a live room send, whatever platform it comes from, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# Rough, and only to put gifts in order: what one unit of a currency is worth in US dollars.
_WORTH_USD = {
    "USD": 1.0,
    "EUR": 1.1,
    "GBP": 1.3,
    "CAD": 0.7,
    "AUD": 0.65,
    "CNY": 0.14,
    "HKD": 0.13,
    "TWD": 0.03,
    "INR": 0.012,
    "JPY": 0.0067,
    "KRW": 0.0007,
}
_UNKNOWN_WORTH_USD = 0.1
LONGEST_PATIENCE_S = 300.0
"""No room answers a comment later than this: older ones need not be told apart."""

LONGEST_TEXT, LONGEST_NAME, LONGEST_CURRENCY = 4000, 200, 8
"""Characters; names are ids, gifts and the like, too."""
MOST_PAID, MOST_GIFTS = 1e9, 1_000_000
"""Of one comment: in its currency, and their number."""


ALL = "*"
"""`Comment.target` of what takes back everything that a platform has brought."""


class Kind(StrEnum):
    """What a viewer did."""

    COMMENT = "comment"
    SUPERCHAT = "superchat"
    """A comment that was paid for."""
    GIFT = "gift"
    MEMBER = "member"
    """Has joined or prolonged a membership."""
    FOLLOW = "follow"
    LIKE = "like"
    ENTER = "enter"
    SHARE = "share"
    REMOVED = "removed"
    """The platform's moderators have taken back a comment, all of an author, or everything."""


class Outcome(StrEnum):
    """What became of a comment or gift; each that comes ends in exactly one of these."""

    ANSWERED = "answered"
    MERGED = "merged"
    """Others have asked the same, and one of them was answered, or waits."""
    THANKED = "thanked"
    NOTED = "noted"
    """A follow, a like and the like: counted, and no more."""
    EXPIRED = "expired"
    """An answer would have come too late."""
    OUTBID = "outbid"
    """There was no place, and others mattered more."""
    CROWDED = "crowded"
    """Its author has enough waiting."""
    REPEATED = "repeated"
    """It has come before."""
    EMPTY = "empty"
    """Nothing to be answered: emoji, links, signs."""
    TOO_LONG = "too_long"
    COMMAND = "command"
    """Meant for another program: `!song`."""
    OWN = "own"
    """By ourselves, or a program that is named as one."""
    BLOCKED_WORD = "blocked_word"
    BLOCKED_AUTHOR = "blocked_author"
    REMOVED = "removed"
    """By the platform's moderators, before it was answered."""
    SKIPPED = "skipped"
    """By the operator."""
    INTERRUPTED = "interrupted"
    """Something else was wanted before its answer was heard."""
    FAILED = "failed"
    LATE = "late"
    """Its answer did not begin in time, and was not said."""
    CLOSED = "closed"
    """It waited as the room was closed."""


@dataclass(frozen=True, slots=True)
class Author:
    """Who a comment is by. name: as the platform shows it, which is a stranger's text."""

    id: str
    name: str
    moderator: bool = False
    member: bool = False
    first_time: bool = False


@dataclass(frozen=True, slots=True)
class Comment:
    """One thing that one viewer sent to a room. Times in seconds of the room's clock.

    amount: what it has cost, in `currency`. gift: its name, and how many. target: of what is taken
    back, the comment's id, `ALL`, or "" for all by the author.
    """

    id: str
    platform: str
    author: Author
    text: str
    at_s: float
    """When it was sent, as far as that is known; never later than it was received."""
    kind: Kind = Kind.COMMENT
    amount: float = 0.0
    currency: str = ""
    gift: str = ""
    count: int = 1
    target: str = ""

    @property
    def author_key(self) -> str:
        """Who it is by, among all platforms."""
        return f"{self.platform}:{self.author.id}"

    @property
    def worth(self) -> float:
        """What it has cost, roughly in US dollars, whatever its currency."""
        return max(0.0, self.amount) * _WORTH_USD.get(self.currency.upper(), _UNKNOWN_WORTH_USD)
