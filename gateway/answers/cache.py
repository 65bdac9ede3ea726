"""Finds the answer to a question that has been answered before: configured, or learned.

Configured answers come first and are never pushed out; learned ones are kept per persona and
language, so that a persona that changes knows none of them. `LearnedAnswers` is pure;
`AnswerCache`, one for all sessions of a gateway, has the clock, the files and the metrics.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from gateway import metrics
from gateway.answers.book import (
    ANYBODY,
    DEFAULT_WELCOMES,
    AnswerBook,
    ConfiguredAnswer,
    Welcome,
    digest_of,
    read_book,
)
from gateway.answers.questions import exactly, normalised
from gateway.api.events import explain
from gateway.background import Background
from visavis.whole_file import placed_whole

log = logging.getLogger(__name__)

LEARNED_FILE = "learned-answers.json"
_VERSION = 1
_UNFINISHED = ".learned-"
# One that is older is of a gateway that was killed: to write takes no longer.
_UNFINISHED_S = 60.0
MAX_FILE_BYTES = 64_000_000

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
    def asked(self) -> tuple[str, str, str]:
        """Whose answer, and to what."""
        return self.persona_digest, self.language, self.question

    def key(self) -> tuple[str, str, str]:
        """What it is found by, worked out anew each time."""
        return self.persona_digest, self.language, normalised(self.question, self.language)

    @property
    def size_bytes(self) -> int:
        return len(self.question.encode()) + len(self.answer.encode())


@dataclass(frozen=True, slots=True)
class LearnedLimits:
    """How many answers are learned, of how much text, and for how long they hold."""

    entries: int = 1000
    text_bytes: int = 1_000_000
    ttl_s: float = 86_400.0


class _Kept(BaseModel):
    """What a file of them holds. It may come from another gateway."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    version: int
    answers: list[LearnedAnswer]


class LearnedAnswers:
    """Remembers the last answers of the language model. Bounded; forgets in time.

    Times in seconds since 1970.
    """

    def __init__(self, limits: LearnedLimits) -> None:
        self.evictions = self.expirations = 0
        self.text_bytes = 0
        self._forgotten_s = 0.0
        self._limits = limits
        self._answers: OrderedDict[tuple[str, str, str], LearnedAnswer] = OrderedDict()

    def find(self, question: str, speaker: Speaker, now_s: float) -> Hit | None:
        """What was learned for `speaker`, counted as used."""
        language = speaker.spoken_language
        key = (digest_of(speaker.persona), language, normalised(question, language))
        learned = self._answers.get(key)
        if learned is None or self._expired(learned, now_s):
            return None
        self._answers.move_to_end(key)
        learned.hits += 1
        return Hit(learned.answer, "learned")

    def learn(self, question: str, answer: str, speaker: Speaker, now_s: float) -> bool:
        """Remember an answer; whether there was room and reason to."""
        learned = LearnedAnswer(
            digest_of(speaker.persona), speaker.spoken_language, question, answer, now_s
        )
        key = learned.key()
        if learned.size_bytes > self._limits.text_bytes or not key[2]:
            return False
        self._put(key, learned)
        self._make_room(now_s)
        return True

    def all(self, now_s: float) -> list[LearnedAnswer]:
        """Least recently used first."""
        self._make_room(now_s)
        return list(self._answers.values())

    def forget(self, learned_by_s: float = 0.0) -> int:
        """How many there were. What was learned by that time is not taken up again either."""
        self._forgotten_s = learned_by_s
        count, self.text_bytes = len(self._answers), 0
        self._answers.clear()
        return count

    def dump(self) -> str:
        """All of it as JSON, least recently used first."""
        answers = [asdict(learned) for learned in self._answers.values()]
        return json.dumps({"version": _VERSION, "answers": answers}, ensure_ascii=False)

    def restore(self, dumped: str, now_s: float) -> None:
        """Inverse of `dump`, beside what is known. Raises ValueError for anything else."""
        try:
            kept = _Kept.model_validate_json(dumped)
        except ValidationError as error:
            raise ValueError(f"it holds no learned answers: {explain(error)}") from None
        if kept.version != _VERSION:
            raise ValueError("it is of another version")
        # Most are known: each gateway is told all of them whenever one has learned something.
        keys = {known.asked: key for key, known in self._answers.items()}
        for learned in kept.answers:
            if learned.learned_at_s <= self._forgotten_s:
                continue
            key = keys.get(learned.asked) or learned.key()
            known = self._answers.get(key)
            if known is None or known.learned_at_s < learned.learned_at_s:
                self._put(key, learned)
        self._make_room(now_s)

    def _expired(self, learned: LearnedAnswer, now_s: float) -> bool:
        return now_s - learned.learned_at_s > self._limits.ttl_s

    def _put(self, key: tuple[str, str, str], learned: LearnedAnswer) -> None:
        before = self._answers.pop(key, None)
        self.text_bytes += learned.size_bytes - (before.size_bytes if before else 0)
        self._answers[key] = learned

    def _make_room(self, now_s: float) -> None:
        for key in [k for k, a in self._answers.items() if self._expired(a, now_s)]:
            self.text_bytes -= self._answers.pop(key).size_bytes
            self.expirations += 1
        limits = self._limits
        while len(self._answers) > limits.entries or self.text_bytes > limits.text_bytes:
            self.text_bytes -= self._answers.popitem(last=False)[1].size_bytes
            self.evictions += 1


class Sharing(Protocol):
    """Whom a cache tells what other gateways should know."""

    async def learned(self) -> None: ...

    async def forgotten(self) -> None: ...


class AnswerCache:
    """Finds answers for all sessions of a gateway: that is its use, and why it learns only if told.

    `open` it, `close` it at the end.
    """

    def __init__(
        self,
        file: Path | None = None,
        own_persona: str = "",
        *,
        learn_in: Path | None = None,
        limits: LearnedLimits | None = None,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Raises InvalidInputError where the file of answers is not in order.

        own_persona: of the gateway; configured answers that name none are its. learn_in: folder
        of what is learned, None where nothing is. wall_clock: seconds since 1970.
        """
        self.file = file
        """Of the configured answers."""
        self.sharing: Sharing | None = None
        self.now_s = wall_clock
        self.learned = LearnedAnswers(limits or LearnedLimits())
        self.hits: dict[str, int] = {}
        """Of configured answers, by their first question."""
        self.lookups = {"exact": 0, "normalised": 0, "learned": 0, "miss": 0}
        self._own_persona = own_persona
        self._learned_file = learn_in / LEARNED_FILE if learn_in else None
        self._saving = asyncio.Lock()
        self._background = Background()
        self._measured = {"evicted": 0, "expired": 0}
        self._take(self._read())
        self._measure()

    @property
    def book(self) -> AnswerBook:
        """The configured answers."""
        return self._book

    @property
    def learns(self) -> bool:
        return self._learned_file is not None

    async def open(self) -> None:
        """Take up what was learned before; nothing, with a warning, where that cannot be read."""
        if self._learned_file is None:
            return
        try:
            dumped = await asyncio.to_thread(_read_learned, self._learned_file)
            if dumped:
                self.learned.restore(dumped, self.now_s())
        except (OSError, ValueError) as error:
            log.warning("learned answers: %s is not used: %s", self._learned_file, error)
            self.learned.forget()
        self._measure()

    async def reload(self) -> None:
        """Read the file of answers anew. Raises InvalidInputError; the old answers stay then."""
        self._take(await asyncio.to_thread(self._read))
        self._measure()

    def find(self, question: str, speaker: Speaker, *, opening: bool) -> Hit | None:
        """The answer to `question` if it is known, counted as a hit or a miss.

        opening: nothing was said before it. Only then a learned answer will do: later the same
        words may ask for something else.
        """
        if not (self._book.answers or self._book.welcome or self.learns):
            return None
        hit = self._configured(question, speaker)
        if hit is None and opening:
            hit = self.learned.find(question, speaker, self.now_s())
        result = hit.match if hit else "miss"
        self.lookups[result] += 1
        metrics.answer_cache_lookups.labels(result).inc()
        return hit

    def welcome(self, speaker: Speaker) -> str:
        """What a session begins with: what is configured, else ours; "" in other languages."""
        fitting = [w for w in self._book.welcome if self._holds(w, speaker)]
        # A persona's own phrase before everybody's.
        fitting.sort(key=lambda w: w.persona == ANYBODY)
        own = DEFAULT_WELCOMES.get(speaker.spoken_language, "")
        return fitting[0].text if fitting else own

    async def learn(self, question: str, answer: str, speaker: Speaker) -> bool:
        """Remember what was answered; whether that was wanted, and there was room and reason to."""
        if not self._remember(question, answer, speaker):
            return False
        await self._tell()
        return True

    def note(self, question: str, answer: str, speaker: Speaker) -> None:
        """`learn` on the side: the session that it comes from may end at once, or all of us."""
        if self._remember(question, answer, speaker):
            self._background.run(self._tell())

    def take_up(self, dumped: str) -> None:
        """Know what another gateway has learned, too. Raises ValueError."""
        self.learned.restore(dumped, self.now_s())
        self._measure()

    async def forget_learned(self) -> int:
        """How many there were."""
        count = self.learned.forget(self.now_s())
        self._measure()
        await self._save()
        if self.sharing is not None:
            await self.sharing.forgotten()
        return count

    async def close(self) -> None:
        """Keep what was learned for the next start."""
        await self._background.cancel_all()
        await self._save()

    # ------------------------------------------------------------ inside

    def _remember(self, question: str, answer: str, speaker: Speaker) -> bool:
        known = self.learns and self.learned.learn(question, answer, speaker, self.now_s())
        if known:
            self._measure()
        return known

    async def _tell(self) -> None:
        """The next start, and the other gateways."""
        await self._save()
        if self.sharing is not None:
            await self.sharing.learned()

    def _configured(self, question: str, speaker: Speaker) -> Hit | None:
        language = speaker.spoken_language
        shelves: tuple[tuple[Match, list[ConfiguredAnswer]], ...] = (
            ("exact", self._exact.get((language, exactly(question)), [])),
            ("normalised", self._normalised.get((language, normalised(question, language)), [])),
        )
        for match, entries in shelves:
            for entry in sorted(entries, key=_specific_first):
                if self._holds(entry, speaker):
                    first = entry.questions[0]
                    self.hits[first] = self.hits.get(first, 0) + 1
                    return Hit(entry.answer, match)
        return None

    def _holds(self, entry: ConfiguredAnswer | Welcome, speaker: Speaker) -> bool:
        today = datetime.date.fromtimestamp(self.now_s())
        return entry.holds(speaker.persona, speaker.language, self._own_persona, today)

    def _read(self) -> AnswerBook:
        return AnswerBook() if self.file is None else read_book(self.file)

    def _take(self, book: AnswerBook) -> None:
        """These configured answers hold from now on."""
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

    async def _save(self) -> None:
        """Where that fails, a warning says so."""
        if self._learned_file is None:
            return
        async with self._saving:
            dumped = self.learned.dump() if self.learned.text_bytes else ""
            try:
                await asyncio.to_thread(_write_learned, self._learned_file, dumped)
            except OSError as error:
                log.warning("learned answers: cannot be saved: %s", error)

    def _measure(self) -> None:
        learned = self.learned.all(self.now_s())
        metrics.answer_cache_entries.labels("configured").set(len(self._book.answers))
        metrics.answer_cache_entries.labels("learned").set(len(learned))
        metrics.answer_cache_bytes.set(self.learned.text_bytes)
        counts = {"evicted": self.learned.evictions, "expired": self.learned.expirations}
        for reason, count in counts.items():
            metrics.answer_cache_removals.labels(reason).inc(count - self._measured[reason])
        self._measured = counts


def _specific_first(entry: ConfiguredAnswer) -> tuple[bool, bool]:
    """A persona's own answer before everybody's, a dated one before one that always holds."""
    return entry.persona == ANYBODY, entry.until is None


def _read_learned(path: Path) -> str:
    """Blocks. "" where there is none. Raises OSError, and ValueError where it cannot be one."""
    _forget_left_behind(path.parent)
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ValueError("it is too large")
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""


def _forget_left_behind(folder: Path) -> None:
    """Delete what gateways that were killed have not finished; others may share the folder."""
    for left in folder.glob(f"{_UNFINISHED}*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _UNFINISHED_S:
                left.unlink()


def _write_learned(path: Path, dumped: str) -> None:
    """Replace the file, which is there complete or not at all. Blocks. Raises OSError.

    dumped: "": nothing is known any more, which takes no room on a disk that is full.
    """
    if not dumped:
        path.unlink(missing_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with placed_whole(path, prefix=_UNFINISHED) as file:
        file.write(dumped.encode())
