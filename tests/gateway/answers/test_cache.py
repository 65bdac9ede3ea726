"""Who gets which answer, for how long, and what makes room."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from gateway.answers.cache import LEARNED_FILE, AnswerCache, LearnedLimits, Speaker
from gateway.answers.questions import normalised
from tests.full_disk import limited_files

NOW = 1_800_000_000.0
DAY = 86_400.0
ADA = Speaker("You are Ada.", "en")
BOB = Speaker("You are Bob.", "en")

CacheOf = Callable[..., AnswerCache]


@pytest.fixture
def cache_of(tmp_path: Path) -> CacheOf:
    """A cache that learns; keywords: its file of answers."""

    def make(persona: str = "", limits: LearnedLimits | None = None, **entries: Any) -> AnswerCache:
        file = tmp_path / "answers.json"
        file.write_text(json.dumps(entries, default=str), encoding="utf-8")
        folder = tmp_path / "new"
        return AnswerCache(file, persona, learn_in=folder, limits=limits, wall_clock=lambda: NOW)

    return make


def entry(answer: str, *questions: str, **more: object) -> dict[str, object]:
    return {"language": "en", "questions": list(questions), "answer": answer, **more}


def found(cache: AnswerCache, question: str, speaker: Speaker = ADA, *, now: float = NOW) -> str:
    cache.now_s = lambda: now
    hit = cache.find(question, speaker, opening=True)
    return f"{hit.match}: {hit.answer}" if hit else "miss"


def test_an_answer_is_the_own_personas_unless_it_says_otherwise(cache_of: CacheOf) -> None:
    cache = cache_of(
        ADA.persona,
        answers=[
            entry("Ada's.", "Whose?"),
            entry("Bob's.", "Whose?", persona=BOB.persona),
            entry("All's.", "Whose?", persona="*"),
        ],
    )
    assert found(cache, "Whose?") == "exact: Ada's."
    assert found(cache, "whose", BOB) == "normalised: Bob's."
    assert found(cache, "whose", Speaker("Eve", "en-US")) == "normalised: All's."
    assert found(cache, "whose", Speaker(ADA.persona, "zh")) == "miss"
    assert cache.lookups == {"exact": 1, "normalised": 2, "learned": 0, "miss": 1}


async def test_a_persona_that_changes_loses_its_answers(cache_of: CacheOf) -> None:
    cache = cache_of(ADA.persona, answers=[entry("Blue.", "Which colour?")])
    await cache.learn("How are you?", "Fine.", ADA)
    changed = Speaker(ADA.persona + " You are sad.", "en")
    assert found(cache, "Which colour?", changed) == "miss"
    assert found(cache, "How are you?", changed) == "miss"
    assert found(cache, "how are you") == "learned: Fine."


def test_exact_entries_want_the_very_words(cache_of: CacheOf) -> None:
    cache = cache_of(answers=[entry("Yes.", "Polish  food?", match="exact", persona="*")])
    assert found(cache, " Polish\nfood? ") == "exact: Yes.", "but for blanks"
    assert found(cache, "polish food?") == found(cache, "Polish food") == "miss"


def test_dates_end_an_answer_and_a_dated_one_comes_first(cache_of: CacheOf) -> None:
    until = date.fromtimestamp(NOW)
    cache = cache_of(
        answers=[
            entry("Nine to five.", "When?", persona="*"),
            entry("Closed.", "When?", persona="*", until=until),
        ]
    )
    assert found(cache, "When?") == "exact: Closed."
    assert found(cache, "When?", now=NOW + DAY) == "exact: Nine to five."


async def test_learned_answers_are_for_the_opening_and_expire(cache_of: CacheOf) -> None:
    cache = cache_of(limits=LearnedLimits(ttl_s=DAY))
    assert await cache.learn("Who are you?", "A face.", ADA)
    assert cache.find("Who are you?", ADA, opening=False) is None
    assert found(cache, "um, who are you", now=NOW + DAY) == "learned: A face."
    assert found(cache, "who are you", now=NOW + DAY + 1) == "miss"
    assert cache.learned.all(NOW + DAY + 1) == []
    assert (cache.learned.expirations, cache.learned.text_bytes) == (1, 0)


async def test_room_is_bounded_by_entries_and_bytes(cache_of: CacheOf) -> None:
    cache = cache_of(limits=LearnedLimits(entries=2, text_bytes=100))
    await cache.learn("one?", "1", ADA)
    await cache.learn("two?", "2", ADA)
    assert found(cache, "one") == "learned: 1"
    await cache.learn("three?", "3", ADA)
    assert [a.question for a in cache.learned.all(NOW)] == ["one?", "three?"]
    await cache.learn("four?", "x" * 90, ADA)
    assert [a.question for a in cache.learned.all(NOW)] == ["four?"]
    assert not await cache.learn("five?", "x" * 200, ADA)
    assert (cache.learned.evictions, cache.learned.text_bytes) == (3, 95)
    await cache.learn("Four.", "y", ADA)
    assert [a.answer for a in cache.learned.all(NOW)] == ["y"], "one question, one answer"


def test_welcome_is_the_personas_own_before_everybodys(cache_of: CacheOf) -> None:
    greetings = [
        {"language": "en", "text": "Hi all.", "persona": "*"},
        {"language": "en", "text": "Hi, Ada here."},
    ]
    cache = cache_of(ADA.persona, welcome=greetings)
    assert cache.welcome(ADA) == "Hi, Ada here."
    assert cache.welcome(BOB) == "Hi all."
    assert "你好" in cache.welcome(Speaker("", "zh-CN")), "ours, where none is written down"
    assert cache_of("").welcome(Speaker("Be kind.", "en-GB")).startswith("Hello")
    assert cache.welcome(Speaker("", "fr")) == ""


async def test_learned_answers_outlive_the_gateway(cache_of: CacheOf, tmp_path: Path) -> None:
    cache = cache_of()
    await cache.open()
    await cache.learn("Who are you?", "A face.", ADA)
    found(cache, "who are you")
    cache.note("你是谁？", "一张脸。", Speaker("", "zh"))  # in its last moment
    await cache.close()
    killed, other = (tmp_path / "new" / f".learned-{name}" for name in ("killed", "other"))
    for unfinished in (killed, other):  # another gateway writes just now
        unfinished.write_text("{")
    os.utime(killed, (0, 0))
    again = cache_of()
    await again.open()
    assert again.learned.all(NOW) == cache.learned.all(NOW)
    assert [a.answer for a in again.learned.all(NOW)] == ["A face.", "一张脸。"]
    assert again.learned.text_bytes == cache.learned.text_bytes
    assert {path.name for path in (tmp_path / "new").iterdir()} == {LEARNED_FILE, other.name}


def test_what_another_gateway_tells_again_costs_next_to_nothing(
    cache_of: CacheOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of it comes whenever one more is learned somewhere."""
    other, cache = cache_of(), cache_of()
    for number in range(20):
        assert other.learned.learn(f"What is {number}?", "A number.", ADA, NOW + number)
    compared = []

    def counted(question: str, language: str) -> str:
        compared.append(question)
        return normalised(question, language)

    monkeypatch.setattr("gateway.answers.cache.normalised", counted)
    cache.take_up(other.learned.dump())
    assert len(compared) == len(cache.learned.all(NOW)) == 20
    other.learned.learn("And what is one more?", "A number.", ADA, NOW + 30)
    compared.clear()
    cache.take_up(other.learned.dump())
    assert compared == ["And what is one more?"]
    assert found(cache, "what is one more") == "learned: A number."


async def test_what_was_forgotten_on_a_full_disk_does_not_come_back(cache_of: CacheOf) -> None:
    cache = cache_of()
    await cache.learn("Who are you?", "A face.", ADA)
    with limited_files(0):
        assert await cache.forget_learned() == 1
    again = cache_of()
    await again.open()
    assert again.learned.all(NOW) == []


@pytest.mark.parametrize(
    "damaged", ["", "[]", '{"version": 2, "answers": [1]}', '{"version": 1}', "\udcff"]
)
async def test_a_damaged_file_is_no_reason_to_fail(
    cache_of: CacheOf, tmp_path: Path, damaged: str
) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / LEARNED_FILE).write_bytes(damaged.encode(errors="surrogateescape"))
    cache = cache_of()
    await cache.open()
    assert cache.learned.all(NOW) == []
