"""Who gets which answer, for how long, and what makes room."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from gateway.answers.book import AnswerBook
from gateway.answers.cache import AnswerCache, Speaker
from gateway.answers.store import AnswerStore

NOW = 1_800_000_000.0
DAY = 86_400.0
ADA = Speaker("You are Ada.", "en")
BOB = Speaker("You are Bob.", "en")


def book(**entries: object) -> AnswerBook:
    return AnswerBook.model_validate(entries)


def entry(answer: str, *questions: str, **more: object) -> dict[str, object]:
    return {"language": "en", "questions": list(questions), "answer": answer, **more}


def found(cache: AnswerCache, question: str, speaker: Speaker = ADA, *, now: float = NOW) -> str:
    hit = cache.find(question, speaker, now, opening=True)
    return f"{hit.match}: {hit.answer}" if hit else "miss"


def test_an_answer_is_the_own_personas_unless_it_says_otherwise() -> None:
    cache = AnswerCache(
        book(
            answers=[
                entry("Ada's.", "Whose?"),
                entry("Bob's.", "Whose?", persona=BOB.persona),
                entry("All's.", "Whose?", persona="*"),
            ]
        ),
        ADA.persona,
    )
    assert found(cache, "Whose?") == "exact: Ada's."
    assert found(cache, "whose", BOB) == "normalised: Bob's."
    assert found(cache, "whose", Speaker("Eve", "en-US")) == "normalised: All's."
    assert found(cache, "whose", Speaker(ADA.persona, "zh")) == "miss"
    assert cache.lookups == {"exact": 1, "normalised": 2, "learned": 0, "miss": 1}


def test_a_persona_that_changes_loses_its_answers() -> None:
    cache = AnswerCache(book(answers=[entry("Blue.", "Which colour?")]), ADA.persona)
    cache.learn("How are you?", "Fine.", ADA, NOW)
    changed = Speaker(ADA.persona + " You are sad.", "en")
    assert found(cache, "Which colour?", changed) == "miss"
    assert found(cache, "How are you?", changed) == "miss"
    assert found(cache, "how are you") == "learned: Fine."


def test_exact_entries_want_the_very_words() -> None:
    cache = AnswerCache(book(answers=[entry("Yes.", "Polish?", match="exact", persona="*")]))
    assert found(cache, " Polish? ") == "exact: Yes."
    assert found(cache, "polish?") == "miss"


def test_dates_end_an_answer_and_a_dated_one_comes_first() -> None:
    until = date.fromtimestamp(NOW)
    cache = AnswerCache(
        book(
            answers=[
                entry("Nine to five.", "When?", persona="*"),
                entry("Closed.", "When?", persona="*", until=until),
            ]
        )
    )
    assert found(cache, "When?") == "exact: Closed."
    assert found(cache, "When?", now=NOW + DAY) == "exact: Nine to five."


def test_learned_answers_are_for_the_opening_and_expire() -> None:
    cache = AnswerCache(AnswerBook(), ttl_s=DAY)
    assert cache.learn("Who are you?", "A face.", ADA, NOW)
    assert cache.find("Who are you?", ADA, NOW, opening=False) is None
    assert found(cache, "um, who are you", now=NOW + DAY) == "learned: A face."
    assert found(cache, "who are you", now=NOW + DAY + 1) == "miss"
    assert cache.learned(NOW + DAY + 1) == []
    assert (cache.expirations, cache.learned_bytes) == (1, 0)


def test_room_is_bounded_by_entries_and_bytes() -> None:
    cache = AnswerCache(AnswerBook(), limit_entries=2, limit_bytes=100)
    cache.learn("one?", "1", ADA, NOW)
    cache.learn("two?", "2", ADA, NOW)
    assert found(cache, "one") == "learned: 1"
    cache.learn("three?", "3", ADA, NOW)
    assert [a.question for a in cache.learned(NOW)] == ["one?", "three?"]
    cache.learn("four?", "x" * 90, ADA, NOW)
    assert [a.question for a in cache.learned(NOW)] == ["four?"]
    assert not cache.learn("five?", "x" * 200, ADA, NOW)
    assert (cache.evictions, cache.learned_bytes) == (3, 95)
    cache.learn("Four.", "y", ADA, NOW)
    assert [a.answer for a in cache.learned(NOW)] == ["y"], "one question, one answer"


def test_welcome_is_the_personas_own_before_everybodys() -> None:
    greetings = [
        {"language": "en", "text": "Hi all.", "persona": "*"},
        {"language": "en", "text": "Hi, Ada here."},
    ]
    cache = AnswerCache(book(welcome=greetings), ADA.persona)
    assert cache.welcome(ADA, NOW) == "Hi, Ada here."
    assert cache.welcome(BOB, NOW) == "Hi all."
    assert cache.welcome(Speaker("", "zh"), NOW) == ""


def test_learned_answers_outlive_the_gateway(tmp_path: Path) -> None:
    cache = AnswerCache(AnswerBook())
    cache.learn("Who are you?", "A face.", ADA, NOW)
    cache.learn("你是谁？", "一张脸。", Speaker("", "zh"), NOW)
    found(cache, "who are you")
    store = AnswerStore(tmp_path / "new")
    assert store.load() == []
    store.save(cache.dump())
    again = AnswerCache(AnswerBook())
    again.restore(AnswerStore(tmp_path / "new").load(), NOW)
    assert again.dump() == cache.dump()
    assert again.learned_bytes == cache.learned_bytes
    assert [p.name for p in store.path.parent.iterdir()] == [store.path.name]


def test_a_damaged_file_is_no_reason_to_fail(tmp_path: Path) -> None:
    store = AnswerStore(tmp_path)
    for damaged in ("", "[]", '{"version": 2, "answers": [1]}', '{"version": 1}'):
        store.path.write_text(damaged, encoding="utf-8")
        assert store.load() == []
