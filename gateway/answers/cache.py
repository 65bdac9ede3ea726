"""Finds the answer to a question that has been answered before. Pure; bounded; forgets in time.

Configured answers come first and are never pushed out; learned ones are kept per persona and
language, so that a persona that changes knows none of them.
"""

from __future__ import annotations

import datetime
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from gateway.answers.book import ANYBODY, AnswerBook, ConfiguredAnswer, digest_of
from gateway.answers.questions import exactly, normalised

Match = Literal["exact", "normalised", "learned"]


@dataclass(frozen=True, slots=True)
class Speaker:
    """Whose answer is wanted. persona: its whole text; language: BCP 47."""

    persona: str
    language: str

    @property
    def spoken_language(self) -> str:
        return self.language.partition("-")[0].lower()


@dataclass(frozen=True, slots=True)
class Hit:
    """An answer that is known."""

    answer: str
    match: Match


@dataclass(slots=True)
class LearnedAnswer:
    """What a language model once answered. Times in seconds since 1970."""

    persona_digest: str
    language: str
    question: str
    """As it was asked; found by its normalised form."""
    answer: str
    learned_at_s: float
    hits: int = 0

    @property
    def key(self) -> tuple[str, str, str]:
        return self.persona_digest, self.language, normalised(self.question, self.language)

    @property
    def size_bytes(self) -> int:
        return len(self.question.encode()) + len(self.answer.encode())


class AnswerCache:
    """One for all sessions of a gateway.

    own_persona: of the gateway; configured answers that name none are its.
    limit_entries, limit_bytes, ttl_s: of learned answers.
    """

    def __init__(
        self,
        book: AnswerBook,
        own_persona: str = "",
        *,
        limit_entries: int = 1000,
        limit_bytes: int = 1_000_000,
        ttl_s: float = 86_400.0,
    ) -> None:
        self.evictions = self.expirations = 0
        self.hits: dict[str, int] = {}
        """Of configured answers, by their first question."""
        self.lookups = {"exact": 0, "normalised": 0, "learned": 0, "miss": 0}
        self._own_persona = own_persona
        self._limit_entries, self._limit_bytes, self._ttl_s = limit_entries, limit_bytes, ttl_s
        self._learned: OrderedDict[tuple[str, str, str], LearnedAnswer] = OrderedDict()
        self._bytes = 0
        self.replace_book(book)

    @property
    def book(self) -> AnswerBook:
        return self._book

    @property
    def learned_bytes(self) -> int:
        return self._bytes

    def replace_book(self, book: AnswerBook) -> None:
        """Other configured answers hold from now on."""
        self._book = book
        self._exact: dict[tuple[str, str], list[ConfiguredAnswer]] = {}
        self._normalised: dict[tuple[str, str], list[ConfiguredAnswer]] = {}
        for entry in book.answers:
            language = entry.spoken_language
            for question in entry.questions:
                self._exact.setdefault((language, exactly(question)), []).append(entry)
                if entry.match == "normalised":
                    key = (language, normalised(question, language))
                    self._normalised.setdefault(key, []).append(entry)

    def find(self, question: str, speaker: Speaker, now_s: float, *, opening: bool) -> Hit | None:
        """The answer to `question`, counted as a hit or a miss.

        opening: nothing was said before it. Only then a learned answer will do: later the same
        words may ask for something else. now_s: seconds since 1970.
        """
        hit = self._configured(question, speaker, now_s)
        if hit is None and opening:
            hit = self._remembered(question, speaker, now_s)
        self.lookups[hit.match if hit else "miss"] += 1
        return hit

    def welcome(self, speaker: Speaker, now_s: float) -> str:
        """What a session begins with; "" where nothing is configured."""
        today = datetime.date.fromtimestamp(now_s)
        fitting = [
            w
            for w in self._book.welcome
            if w.holds(speaker.persona, speaker.language, self._own_persona, today)
        ]
        # A persona's own phrase before everybody's.
        fitting.sort(key=lambda w: w.persona == ANYBODY)
        return fitting[0].text if fitting else ""

    def learn(self, question: str, answer: str, speaker: Speaker, now_s: float) -> bool:
        """Remember an answer; whether there was room and reason to."""
        learned = LearnedAnswer(
            digest_of(speaker.persona), speaker.spoken_language, question, answer, now_s
        )
        if learned.size_bytes > self._limit_bytes or not learned.key[2]:
            return False
        self._put(learned)
        self._make_room(now_s)
        return True

    def learned(self, now_s: float) -> list[LearnedAnswer]:
        """Least recently used first."""
        self._make_room(now_s)
        return list(self._learned.values())

    def forget_learned(self) -> int:
        """How many there were."""
        count = len(self._learned)
        self._learned.clear()
        self._bytes = 0
        return count

    def dump(self) -> list[dict[str, Any]]:
        """The learned answers as plain data, least recently used first."""
        return [asdict(learned) for learned in self._learned.values()]

    def restore(self, dumped: Iterable[dict[str, Any]], now_s: float) -> None:
        """Inverse of `dump`. Raises TypeError for what is no learned answer."""
        for fields in dumped:
            self._put(LearnedAnswer(**fields))
        self._make_room(now_s)

    def _configured(self, question: str, speaker: Speaker, now_s: float) -> Hit | None:
        today = datetime.date.fromtimestamp(now_s)
        language = speaker.spoken_language
        shelves: tuple[tuple[Match, list[ConfiguredAnswer]], ...] = (
            ("exact", self._exact.get((language, exactly(question)), [])),
            ("normalised", self._normalised.get((language, normalised(question, language)), [])),
        )
        for match, entries in shelves:
            for entry in sorted(entries, key=_specific_first):
                if entry.holds(speaker.persona, speaker.language, self._own_persona, today):
                    first = entry.questions[0]
                    self.hits[first] = self.hits.get(first, 0) + 1
                    return Hit(entry.answer, match)
        return None

    def _remembered(self, question: str, speaker: Speaker, now_s: float) -> Hit | None:
        language = speaker.spoken_language
        key = (digest_of(speaker.persona), language, normalised(question, language))
        learned = self._learned.get(key)
        if learned is None or self._expired(learned, now_s):
            return None
        self._learned.move_to_end(key)
        learned.hits += 1
        return Hit(learned.answer, "learned")

    def _expired(self, learned: LearnedAnswer, now_s: float) -> bool:
        return now_s - learned.learned_at_s > self._ttl_s

    def _put(self, learned: LearnedAnswer) -> None:
        before = self._learned.pop(learned.key, None)
        self._bytes += learned.size_bytes - (before.size_bytes if before else 0)
        self._learned[learned.key] = learned

    def _make_room(self, now_s: float) -> None:
        for key in [k for k, a in self._learned.items() if self._expired(a, now_s)]:
            self._bytes -= self._learned.pop(key).size_bytes
            self.expirations += 1
        while len(self._learned) > self._limit_entries or self._bytes > self._limit_bytes:
            self._bytes -= self._learned.popitem(last=False)[1].size_bytes
            self.evictions += 1


def _specific_first(entry: ConfiguredAnswer) -> tuple[bool, bool]:
    """A persona's own answer before everybody's, a dated one before one that always holds."""
    return entry.persona == ANYBODY, entry.until is None
