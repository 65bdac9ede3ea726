"""Which of all that viewers write is answered next. Pure: its clock is an argument.

A comment is dropped, merged with one that asks the same, or waits; what waits is scored anew each
time that one is chosen, and what can no longer be answered in time expires. Nothing grows without
bound, and each comment ends in exactly one `Outcome`.
"""

from __future__ import annotations

import math
import re
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from gateway.room.choosing.cleaning import (
    clean,
    folded,
    has_words,
    is_command,
    is_question,
    spoken_name,
)
from gateway.room.choosing.comments import ALL, Comment, Kind, Outcome
from gateway.room.choosing.likeness import Shape, likeness, shape_of
from gateway.room.choosing.safety import WordList

_MOST_SEEN = 20_000
# Of those, told to another gateway in one message: more than platforms send again.
_MOST_SEEN_TOLD = 2_000
_MOST_ANSWERED = 200
_MOST_AUTHORS = 5_000
_MOST_BANNED = 5_000
_MOST_ASKING = 1_000
_MOST_BEFORE = 20
# Of a script that parts words by blanks; folded, Korean is written in parts of its syllables.
_LETTER = r"[^\W_\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff]"
# Before it is cleaned: nobody looks at more.
_RAW_FACTOR = 8


@dataclass(frozen=True, slots=True)
class Rules:
    """How a room chooses. Times in seconds."""

    answer_within_s: float = 30.0
    """From when a comment was sent to the first sound of its answer."""
    half_life_s: float = 20.0
    """After so long a comment's score is half of what it was."""
    places: int = 100
    per_author: int = 2
    """Comments of one author that wait at once."""
    longest_characters: int = 200
    alike: float = 0.82
    """Comments that are at least so alike ask the same."""
    remembered_s: float = 300.0
    """For how long what was answered is not answered again."""
    fair_s: float = 60.0
    """Half-life of the disadvantage of whoever was answered."""
    addressed_as: tuple[str, ...] = ()
    """Names that the avatar is called by."""
    bots: tuple[str, ...] = ()
    """Names of programs that write into the room, our own account among them."""


class Phase(StrEnum):
    """Where an entry stands."""

    WAITING = "waiting"
    CHOSEN = "chosen"
    OVER = "over"


@dataclass(slots=True)
class Entry:
    """A question that waits, by the newest of those who ask it."""

    comment: Comment
    text: str
    """Cleaned."""
    name: str
    """As it can be said; "": it cannot."""
    shape: Shape
    addressed: bool
    question: bool
    phase: Phase = Phase.WAITING
    asked_by: set[str] = field(default_factory=set)
    before: deque[Comment] = field(default_factory=lambda: deque(maxlen=_MOST_BEFORE))
    """By whom it was before the newest asked the same."""

    @property
    def others(self) -> int:
        """How many ask the same."""
        return len(self.asked_by) - 1


class Selection:
    """All comments of one room that wait, and what is remembered of those that do not any more."""

    def __init__(self, rules: Rules, words: WordList) -> None:
        self.rules = rules
        self.words = words
        names = (folded(name).strip() for name in rules.addressed_as)
        self._called = [_as_a_word(name) for name in names if name]
        self.received = 0
        self.outcomes: Counter[Outcome] = Counter()
        self._waiting: list[Entry] = []
        self._chosen: list[Entry] = []
        self._seen: OrderedDict[tuple[str, str], Outcome] = OrderedDict()
        """What becomes of each that comes again."""
        self._answered: deque[tuple[float, str, Shape]] = deque(maxlen=_MOST_ANSWERED)
        self._answered_at_s: OrderedDict[str, float] = OrderedDict()
        self._banned: OrderedDict[str, str] = OrderedDict()

    # ------------------------------------------------------------ what comes

    def take(self, comment: Comment, now: float) -> Entry | Outcome:
        """Where a comment waits, or what became of it at once."""
        self.received += 1
        taken = self._judge(comment, now)
        if isinstance(taken, Outcome):
            self.outcomes[taken] += 1
        return taken

    def may_come(self, comment: Comment) -> Outcome | None:
        """Why nothing of this author or of this kind is wanted, whatever it says; None: it is."""
        key = (comment.platform, comment.id)
        if key in self._seen:
            return self._seen[key]
        if comment.id:
            self._see(key)
        if self.is_banned(comment):
            return Outcome.BLOCKED_AUTHOR
        name = comment.author.name.casefold()
        return Outcome.OWN if name in (bot.casefold() for bot in self.rules.bots) else None

    def _judge(self, comment: Comment, now: float) -> Entry | Outcome:
        refused = self.may_come(comment)
        if refused is not None:
            return refused
        text = self._fit(comment)
        if isinstance(text, Outcome):
            return text
        shape = shape_of(text)
        if any(self._same(shape, other) for *_, other in self._remembered(now)):
            return Outcome.MERGED
        same = next((e for e in self._waiting + self._chosen if self._same(shape, e.shape)), None)
        if same is not None:
            return self._join(same, comment)
        if self._age(comment, now) >= self.rules.answer_within_s:
            return Outcome.EXPIRED
        mine = sum(entry.comment.author_key == comment.author_key for entry in self._waiting)
        if mine >= self.rules.per_author:
            return Outcome.CROWDED
        return self._place(self._entry(comment, text, shape), now)

    def _fit(self, comment: Comment) -> str | Outcome:
        """The text as it can be read; why it cannot."""
        raw = comment.text
        if len(raw) > _RAW_FACTOR * self.rules.longest_characters:
            return Outcome.TOO_LONG
        if is_command(raw):
            return Outcome.COMMAND
        text = clean(raw)
        if not has_words(text):
            return Outcome.EMPTY
        if len(text) > self.rules.longest_characters:
            return Outcome.TOO_LONG
        # As it was written, too: what cleaning takes out may have stood in a word's middle.
        return Outcome.BLOCKED_WORD if self.words.find(f"{text}\n{raw}") else text

    def _entry(self, comment: Comment, text: str, shape: Shape) -> Entry:
        plain = folded(text)
        return Entry(
            comment,
            text,
            self.sayable(comment.author.name),
            shape,
            any(name.search(plain) for name in self._called),
            is_question(text),
            asked_by={comment.author_key},
        )

    def _join(self, entry: Entry, comment: Comment) -> Outcome:
        """Somebody asks what another asks already: it counts for more, and is as new as he is."""
        newer = comment.author_key not in entry.asked_by
        if len(entry.asked_by) < _MOST_ASKING:
            entry.asked_by.add(comment.author_key)
        if newer and entry.phase is Phase.WAITING:
            name = self.sayable(comment.author.name)
            if comment.worth >= entry.comment.worth and name:
                entry.before.append(entry.comment)
                entry.comment, entry.name = comment, name
        return Outcome.MERGED

    def _place(self, entry: Entry, now: float) -> Entry | Outcome:
        if len(self._waiting) >= self.rules.places:
            self.expire(now)
        if len(self._waiting) >= self.rules.places:
            least = min(self._waiting, key=lambda other: self.score(other, now))
            if self.score(least, now) >= self.score(entry, now):
                return Outcome.OUTBID
            self._end(least, Outcome.OUTBID)
        self._waiting.append(entry)
        return entry

    def sayable(self, name: str) -> str:
        """A viewer's name, or a gift's, as it can be said; "": it cannot."""
        said = spoken_name(name)
        # As it is written, too: a sign that is not said may stand in a word's middle.
        return "" if self.words.find(f"{said}\n{name}") else said

    # ------------------------------------------------------------ what is chosen

    def score(self, entry: Entry, now: float) -> float:
        """How much it matters now."""
        author = entry.comment.author
        worth = 1.0 + 2.0 * entry.addressed + 1.5 * entry.question
        worth += 1.5 * math.log(len(entry.asked_by))
        worth += 0.5 * (author.member + author.moderator + author.first_time)
        worth += 4.0 * math.log1p(entry.comment.worth)
        # What was paid for loses its weight more slowly, though it expires as soon.
        half_life_s = self.rules.half_life_s * (3.0 if entry.comment.worth else 1.0)
        worth *= math.exp2(-self._age(entry.comment, now) / half_life_s)
        since_s = now - self._answered_at_s.get(entry.comment.author_key, -math.inf)
        return worth - 6.0 * math.exp2(-since_s / self.rules.fair_s)

    def pick(self, now: float, lead_s: float = 0.0) -> Entry | None:
        """The one that matters most of those that can still be answered in time; None: none.

        lead_s: from now to the first sound of its answer.
        """
        self.expire(now)
        able = [entry for entry in self._waiting if self.is_timely(entry, now, lead_s)]
        if not able:
            return None
        best = max(able, key=lambda entry: self.score(entry, now))
        self._waiting.remove(best)
        self._chosen.append(best)
        best.phase = Phase.CHOSEN
        return best

    def is_timely(self, entry: Entry, now: float, lead_s: float = 0.0) -> bool:
        """Whether an answer that begins after `lead_s` comes soon enough."""
        return self._age(entry.comment, now) + lead_s <= self.rules.answer_within_s

    def over(self, entry: Entry, outcome: Outcome, now: float) -> None:
        """What was chosen is done with."""
        if entry.phase is not Phase.CHOSEN:
            return
        self._chosen.remove(entry)
        entry.phase = Phase.OVER
        self.outcomes[outcome] += 1
        if outcome is Outcome.ANSWERED:
            self._answered.append((now, entry.text, entry.shape))
            self._answered_at_s[entry.comment.author_key] = now
            self._answered_at_s.move_to_end(entry.comment.author_key)
            if len(self._answered_at_s) > _MOST_AUTHORS:
                self._answered_at_s.popitem(last=False)

    def expire(self, now: float) -> None:
        """Let go of what can be answered in time no more."""
        for entry in [e for e in self._waiting if not self.is_timely(e, now)]:
            self._end(entry, Outcome.EXPIRED)

    @property
    def places_taken(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def waiting(self, now: float) -> list[Entry]:
        """What waits, in the order of its scores."""
        self.expire(now)
        return sorted(self._waiting, key=lambda entry: self.score(entry, now), reverse=True)

    # ------------------------------------------------------------ operator and moderators

    def ban(self, author: str, name: str = "") -> None:
        """Nothing of this author is answered any more. author: as `Comment.author_key`."""
        self._banned[author] = name
        self._banned.move_to_end(author)
        if len(self._banned) > _MOST_BANNED:
            self._banned.popitem(last=False)
        self._let_go(lambda c: c.author_key == author, Outcome.BLOCKED_AUTHOR)

    def unban(self, author: str) -> bool:
        """Whether he was banned."""
        return self._banned.pop(author, None) is not None

    @property
    def banned(self) -> dict[str, str]:
        """Names as they were known, by author."""
        return dict(self._banned)

    def is_banned(self, comment: Comment) -> bool:
        return comment.author_key in self._banned

    def remove(self, removal: Comment) -> None:
        """The platform has taken back what `removal` names."""
        self._let_go(lambda comment: is_target(removal, comment), Outcome.REMOVED)

    def posted(self, platform: str, comment_id: str) -> None:
        """We have written this ourselves, and it comes as what viewers write does."""
        self._see((platform, comment_id), Outcome.OWN)

    def skip(self, platform: str, comment_id: str) -> bool:
        """The operator does not want it answered; whether it waited."""
        gone = [
            e for e in self._waiting if (e.comment.platform, e.comment.id) == (platform, comment_id)
        ]
        for entry in gone:
            self._end(entry, Outcome.SKIPPED)
        return bool(gone)

    def close(self) -> None:
        """Nothing that waits is answered any more."""
        for entry in list(self._waiting):
            self._end(entry, Outcome.CLOSED)

    def block(self, words: WordList) -> None:
        """Other words are blocked from now on; what waits is looked at again."""
        self.words = words
        for entry in [e for e in self._waiting if words.find(f"{e.name}\n{e.text}")]:
            self._end(entry, Outcome.BLOCKED_WORD)

    # ------------------------------------------------------------ from gateway to gateway

    def answered(self, now: float) -> list[tuple[float, str]]:
        """What was answered lately: how long ago, and what."""
        return [(now - at_s, text) for at_s, text, _ in self._remembered(now)]

    @property
    def seen(self) -> list[tuple[str, str]]:
        """Platforms and ids of what has come last."""
        return list(self._seen)[-_MOST_SEEN_TOLD:]

    def carry_on(
        self,
        outcomes: Mapping[Outcome, int],
        answered: Sequence[tuple[float, str]],
        seen: Sequence[tuple[str, str]],
        now: float,
    ) -> None:
        """Count on from there, and take or answer none of these again."""
        for key in seen:
            self._see(key)
        self.outcomes.update(outcomes)
        self.received += sum(outcomes.values())
        for age_s, text in answered:
            self._answered.append((now - age_s, text, shape_of(text)))

    # ------------------------------------------------------------ inside

    def _see(self, key: tuple[str, str], again: Outcome = Outcome.REPEATED) -> None:
        self._seen[key] = again
        if len(self._seen) > _MOST_SEEN:
            self._seen.popitem(last=False)

    def _end(self, entry: Entry, outcome: Outcome) -> None:
        self._waiting.remove(entry)
        entry.phase = Phase.OVER
        self.outcomes[outcome] += 1

    def _let_go(self, unwanted: Callable[[Comment], bool], outcome: Outcome) -> None:
        """Of what waits: what others ask, too, waits on by the newest of them."""
        for entry in list(self._waiting):
            known = (*entry.before, entry.comment)
            asking = [comment for comment in known if not unwanted(comment)]
            if not asking:
                self._end(entry, outcome)
            elif len(asking) < len(known):
                entry.asked_by -= {comment.author_key for comment in known if unwanted(comment)}
                entry.comment = asking.pop()
                entry.name = self.sayable(entry.comment.author.name)
                entry.before = deque(asking, _MOST_BEFORE)

    def _age(self, comment: Comment, now: float) -> float:
        return now - comment.at_s

    def _same(self, one: Shape, other: Shape) -> bool:
        enough = self.rules.alike
        return likeness(one, other, enough) >= enough

    def _remembered(self, now: float) -> Iterator[tuple[float, str, Shape]]:
        while self._answered and now - self._answered[0][0] > self.rules.remembered_s:
            self._answered.popleft()
        yield from self._answered


def _as_a_word(name: str) -> re.Pattern[str]:
    """Finds a folded name, also with its last letter drawn out; Ann is not in "planning"."""
    return re.compile(f"(?<!{_LETTER}){re.escape(name)}{re.escape(name[-1])}*(?!{_LETTER})")


def is_target(removal: Comment, comment: Comment) -> bool:
    """Whether `removal` takes `comment` back."""
    if removal.kind is not Kind.REMOVED or removal.platform != comment.platform:
        return False
    if removal.target:
        return removal.target in (ALL, comment.id)
    return bool(removal.author.id) and removal.author.id == comment.author.id
