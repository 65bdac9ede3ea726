"""The answers that an operator has written down: `--answers FILE`, TOML or JSON.

    [[answers]]
    language = "en"
    questions = ["What are your opening hours?", "When are you open?"]
    answer = "We are open from nine to five, Monday to Friday."

    [[welcome]]
    language = "en"
    text = "Hello, and welcome! How can I help you?"

A language in which no welcome is written down has one of ours (`DEFAULT_WELCOMES`).

`persona` says whose answer it is: "*" everybody's, absent the gateway's own, else the persona's
whole text. `until = 2026-12-31` is its last day; `match = "exact"`: only the very words find it.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from gateway.answers.questions import normalised
from gateway.api.choices import Language, Persona
from gateway.api.events import explain
from visavis.serving.errors import InvalidInputError

ANYBODY = "*"
DEFAULT_WELCOMES = {
    "en": "Hello, it is good to see you. What would you like to talk about?",
    "zh": "你好，很高兴见到你。今天想聊点什么？",
}
"""By language, where the file has none in it."""
MAX_FILE_BYTES = 8_000_000


def _speakable(text: str) -> str:
    if not any(character.isalnum() for character in text):
        raise ValueError("there is no word in it")
    return text.strip()


Question = Annotated[str, Field(max_length=500), AfterValidator(_speakable)]


Spoken = Annotated[str, Field(max_length=4000), AfterValidator(_speakable)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    language: Language
    persona: Persona | None = None
    until: datetime.date | None = None

    @property
    def spoken_language(self) -> str:
        """ "en" of "en-GB"."""
        return self.language.partition("-")[0].lower()

    def holds(self, persona: str, language: str, own_persona: str, today: datetime.date) -> bool:
        """Whether it may be said by `persona` in `language` today."""
        wanted = own_persona if self.persona is None else self.persona
        return (
            self.spoken_language == language.partition("-")[0].lower()
            and (wanted == ANYBODY or wanted.strip() == persona.strip())
            and (self.until is None or today <= self.until)
        )


class ConfiguredAnswer(_Entry):
    """Ways to ask one question, and what is answered."""

    questions: list[Question] = Field(min_length=1, max_length=200)
    answer: Spoken
    match: Literal["normalised", "exact"] = "normalised"


class Welcome(_Entry):
    """What a session begins with."""

    text: Spoken


class AnswerBook(BaseModel):
    """All that a file of answers says."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    answers: list[ConfiguredAnswer] = Field(default_factory=list, max_length=20_000)
    welcome: list[Welcome] = Field(default_factory=list, max_length=1000)

    def texts(self) -> list[tuple[str, str]]:
        """Language and text of all that may be said, none twice, what is needed first in front."""
        said = [(w.spoken_language, w.text) for w in self.welcome]
        said += [(a.spoken_language, a.answer) for a in self.answers]
        return list(dict.fromkeys(said))

    @property
    def digest(self) -> str:
        """Changes with the book's content."""
        return digest_of(self.model_dump_json())


def digest_of(text: str) -> str:
    """Short name of a text."""
    return hashlib.sha256(text.strip().encode()).hexdigest()[:16]


def read_book(path: Path) -> AnswerBook:
    """Raises InvalidInputError that names the file and all that is wrong with it."""
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise InvalidInputError(f"answers: {path} has {size} bytes, at most {MAX_FILE_BYTES}")
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except OSError as error:
        raise InvalidInputError(f"answers: cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:  # neither text nor TOML nor JSON
        kind = "JSON" if path.suffix.lower() == ".json" else "TOML"
        raise InvalidInputError(f"answers: {path} is not {kind}: {error}") from None
    try:
        book = AnswerBook.model_validate(content)
    except ValidationError as error:
        raise InvalidInputError(f"answers: {path}: {explain(error)}") from None
    twice = list(_answered_twice(book.answers))
    if twice:
        raise InvalidInputError(f"answers: {path}: answered twice: {'; '.join(twice[:5])}")
    return book


def _answered_twice(answers: Iterable[ConfiguredAnswer]) -> Iterable[str]:
    """Questions of one language and persona that two entries answer, unless the dates part them."""
    seen: dict[tuple[str, str | None, str], ConfiguredAnswer] = {}
    for entry in answers:
        for question in entry.questions:
            key = normalised(question, entry.language)
            before = seen.setdefault((entry.spoken_language, entry.persona, key), entry)
            if before is not entry and (before.until, before.match) == (entry.until, entry.match):
                yield f"{question[:80]!r} ({entry.language})"
