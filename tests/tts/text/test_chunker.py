"""The phrase cutter: early, never inside a number or a name, and without losing a character."""

from __future__ import annotations

import asyncio
import random
from time import monotonic

import pytest

from services.tts.phrase_feed import TextFeed, cut_phrases
from services.tts.text.chunker import MAX_PHRASE_CHARACTERS, Pause, Phrase, TextChunker
from tests.fakes import ManualClock

ENGLISH = (
    "Sure! Dr. Smith paid $1,000.50 at 10:30 a.m. on Jan. 5, e.g. for https://a.com/x,y?z=1!k and "
    'more. He lives in the U.S. Then he said "yes." 1. First, then 3.14 - or so… **bold** text\n'
)
CHINESE = "你好！我今年3.5岁，住在北京；价格是1,000元。我们可以用Python 3写程序：很好……对吧？\n"
NASTY = " .,:;!?…。，！？、：\n\t\"'()*_`#-—0123 abcDEF中文的了😀\u200b\x07\u0301éß"


def phrases_of(text: str) -> list[Phrase]:
    chunker = TextChunker()
    return chunker.add(text) + chunker.flush()


def texts_of(text: str) -> list[str]:
    return [phrase.text.strip() for phrase in phrases_of(text)]


@pytest.mark.parametrize("seed", range(40))
def test_every_character_survives_whatever_the_split(seed: int) -> None:
    draw = random.Random(seed)
    text = (ENGLISH + CHINESE) * 2 if seed % 4 == 0 else "".join(draw.choices(NASTY, k=700))
    chunker = TextChunker()
    phrases: list[Phrase] = []
    start = 0
    while start < len(text):
        size = draw.randint(1, 9)
        phrases += chunker.add(text[start : start + size])
        start += size
    phrases += chunker.flush()
    assert "".join(phrase.text for phrase in phrases) == text
    assert phrases == phrases_of(text)
    for number, phrase in enumerate(phrases):
        rest = "".join(later.text for later in phrases[number + 1 :])
        assert rest.startswith(phrase.ahead)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Sure! I can.", ["Sure!", "I can."]),
        ("Yes, of course. It is 3.5 km.", ["Yes,", "of course.", "It is 3.5 km."]),
        ("It costs 1,000 dollars. Fine.", ["It costs 1,000 dollars.", "Fine."]),
        ("At 10:30 it begins.", ["At 10:30 it begins."]),
        ("Dr. Smith is in. Go.", ["Dr. Smith is in.", "Go."]),
        ("Eat vitamin C. John F. Kennedy did.", ["Eat vitamin C.", "John F. Kennedy did."]),
        ("Nuts, e.g. almonds. Good.", ["Nuts,", "e.g. almonds.", "Good."]),
        ("He left the U.S. in May. Bye.", ["He left the U.S. in May.", "Bye."]),
        ("He left the U.S. Then he rested.", ["He left the U.S.", "Then he rested."]),
        ("J. K. Rowling wrote.", ["J. K. Rowling wrote."]),
        ("The U.S. Army. In the U.K. It is", ["The U.S. Army.", "In the U.K.", "It is"]),
        ("At 9 p.m. EST. At 9 p.m. Doors open.", ["At 9 p.m. EST.", "At 9 p.m.", "Doors open."]),
        ("See Vol. II, a.k.a. Bob.", ["See Vol. II,", "a.k.a. Bob."]),
        ("TL;DR: x - 3 = 4; no.", ["TL;DR:", "x - 3 = 4;", "no."]),
        ("Area is 50 m² or 538 sq ft.", ["Area is 50 m² or 538 sq ft."]),
        ("See https://a.com/b,c?d=e!f now.", ["See https://a.com/b,c?d=e!f now."]),
        ("See www.a.com. Then go.", ["See www.a.com.", "Then go."]),
        ('He said "no." Then', ['He said "no."', "Then"]),
        ("It orbits the Sun. It sat. Go.", ["It orbits the Sun.", "It sat.", "Go."]),
        ("At 12 Elm St. He is in St. Louis.", ["At 12 Elm St.", "He is in St. Louis."]),
        ("1. Apples are red.", ["1. Apples are red."]),
        ("Really?! Yes.", ["Really?", "! Yes."]),
        ("今天是2026年11月28日星期六。", ["今天是2026年11月28日", "星期六。"]),
        ("会议在2026年11月28日下午3:30开始。", ["会议在2026年11月28日下午3:30开始。"]),
        ("大约在公元前221年统一。", ["大约在公元前221年统一。"]),
        ("你好！我是小明，今年三岁。", ["你好！", "我是小明，今年三岁。"]),
        ("圆周率是3.14。对吗？", ["圆周率是3.14。", "对吗？"]),
        ("One\nTwo\n", ["One", "Two"]),
        ("Mt. Fuji is high. Go.", ["Mt. Fuji is high.", "Go."]),
        ("J.K. Rowling wrote. Bye.", ["J.K. Rowling wrote.", "Bye."]),
        ("Bake for 10 min. at least.", ["Bake for 10 min. at least."]),
        ("It is open 9 a.m. – 5 p.m. now.", ["It is open 9 a.m. – 5 p.m. now."]),
        ("So 10 - 3 = 7. Oh.", ["So 10 - 3 = 7.", "Oh."]),
        ("Yes – no.", ["Yes –", "no."]),
        ("我们8：30开门，3—5天。", ["我们8：30开门，", "3—5天。"]),
        ("房间号：302。", ["房间号：302。"]),
        ("食材：鸡蛋。", ["食材：", "鸡蛋。"]),
        ("他说——走。", ["他说—", "—走。"]),
        (
            "I think it isn&#39;t R&amp;D &amp; so; on.",
            ["I think it isn&#39;t R&amp;D &amp; so;", "on."],
        ),
    ],
)
def test_phrases(text: str, expected: list[str]) -> None:
    assert texts_of(text) == expected


def test_pauses_tell_how_a_phrase_ended() -> None:
    pauses = [phrase.pause for phrase in phrases_of("Well, yes. No\nEnd")]
    assert pauses == [Pause.CLAUSE, Pause.SENTENCE, Pause.PARAGRAPH, Pause.SENTENCE]


def test_first_phrase_is_there_before_the_sentence_ends() -> None:
    chunker = TextChunker()
    long = "I think that the best way to learn a language is to speak it every day with people "
    first = next(phrase for word in long.split(" ") for phrase in chunker.add(word + " "))
    assert first.pause is Pause.NONE
    assert 3 <= len(first.text.split()) <= 6


@pytest.mark.parametrize(
    ("text", "first", "ahead"),
    [
        ("The capital of France is Paris.", "The capital of France", " i"),
        ("There are over 14 million people in Tokyo.", "There are over 14 million", " p"),
        ("Most museums open in the morning at 9 AM.", "Most museums open", " i"),
        ("Romeo and Juliet were written long ago.", "Romeo and Juliet", " w"),
        ("The telephone was invented in 1876 by Bell.", "The telephone", " w"),
        ("The house stands in New York City today.", "The house stands", " i"),
        ("We moved to New York City last year.", "We moved to New York City", " l"),
        ("Bell made it in 1876 by chance.", "Bell made it in 1876 ", "by "),
        ("He was ill and tired of it.", "He was ill and tired", " o"),  # too short before
        ("世界上最大的动物是狮子。", "世界上最大的动物", "是狮"),
        ("学习英语需要大量的练习。", "学习英语", "需要"),
        ("火车站在北京站。", "火车站在北京站。", ""),
    ],
)
def test_the_first_phrase_ends_after_a_few_words(text: str, first: str, ahead: str) -> None:
    phrase = phrases_of(text)[0]
    assert (phrase.text, phrase.ahead) == (first, ahead)
    assert (phrase.pause is Pause.NONE) == bool(ahead)


def test_the_first_phrase_needs_but_a_letter_of_the_next_word() -> None:
    chunker = TextChunker()
    pushed = [chunker.add(token) for token in ("The", " capital", " of", " France", " is")]
    assert [len(phrases) for phrases in pushed] == [0, 0, 0, 0, 1]


def test_a_later_phrase_knows_the_whole_next_word() -> None:
    phrases = phrases_of("The blue whale is the largest animal that has ever lived here.")
    assert phrases[1].pause is Pause.NONE
    assert phrases[1].ahead == "lived "


def test_exclamation_is_cut_without_waiting_for_the_next_token() -> None:
    chunker = TextChunker()
    assert [phrase.text for phrase in chunker.add("Sure") + chunker.add("!")] == ["Sure!"]


def test_later_phrases_are_longer() -> None:
    clauses = "Well, yes, we can go, and see, the old town, in the rain, as it is, with them, too. "
    lengths = [len(text.split()) for text in texts_of(clauses)]
    assert lengths[0] == 1
    assert lengths[0] < lengths[1] < lengths[2]


def test_long_text_without_punctuation_is_cut_between_words() -> None:
    words = [f"word{number}" for number in range(300)]
    phrases = phrases_of(" ".join(words))
    assert [word for phrase in phrases for word in phrase.text.split()] == words
    assert all(len(phrase.text) <= MAX_PHRASE_CHARACTERS for phrase in phrases)


@pytest.mark.parametrize("text", ["a" * 2000, "。" * 2000, "\n" * 2000, "中" * 2000, " " * 2000])
def test_no_phrase_grows_without_bound(text: str) -> None:
    phrases = phrases_of(text)
    assert max(len(phrase.text) for phrase in phrases) <= MAX_PHRASE_CHARACTERS
    assert "".join(phrase.text for phrase in phrases) == text


def test_flush_makes_the_chunker_new() -> None:
    chunker = TextChunker()
    first = chunker.add("Well, ") + chunker.flush()
    assert chunker.flush() == []
    assert chunker.add("Well, ") + chunker.flush() == first


@pytest.mark.parametrize(
    ("text", "pressed", "ahead"),
    [
        ("they don't drink wa", "they don't drink ", "wa"),
        ("the capital of Fran", "the capital ", "of Fran"),
        ("我们这里周六周日", "我们这里", "周六周日"),
        ("我们可以用这个方法来写程", "我们可以用这个方法来", "写程"),
        ("it costs 3", None, ""),
        ("I like", None, ""),
        ("**", None, ""),
    ],
)
def test_a_hurried_voice_gets_what_leans_on_nothing(
    text: str, pressed: str | None, ahead: str
) -> None:
    chunker = TextChunker()
    assert [phrase.pause for phrase in chunker.add("Well, no.\n")][-1] is Pause.PARAGRAPH
    assert chunker.add(text) == []
    phrases = chunker.press()
    assert phrases == ([] if pressed is None else [Phrase(pressed, Pause.NONE, ahead)])
    assert "".join(phrase.text for phrase in phrases + chunker.flush()) == text


async def test_a_phrase_is_short_where_the_voice_would_break_off_before_a_longer_one() -> None:
    """Text comes every 65 ms, as it does where several answers are written at once."""
    clock, spare_s = ManualClock(), 0.85
    feed = TextFeed(clock)
    phrases = cut_phrases(feed.texts(), lambda: feed.hurried(spare_s))
    for word in "No, they drink no water with their food ever since".split():
        feed.add(word if word == "No," else f" {word}")
        clock.advance(0.065)
    assert (await anext(phrases)).text == "No,"
    assert (await anext(phrases)).text == " they drink no water with their food "
    spare_s = 0.15
    feed.add(" breakfast")
    assert (await anext(phrases)).text == "ever "
    feed.end()
    assert [phrase.text async for phrase in phrases] == ["since breakfast"]


async def test_where_text_stops_coming_what_is_there_is_spoken_in_time() -> None:
    feed, ends_s = TextFeed(ManualClock()), monotonic() + 0.05

    def spare_s() -> float:
        return ends_s - monotonic()

    phrases = cut_phrases(feed.texts(spare_s), lambda: feed.hurried(spare_s()))
    feed.add("they don't drink wa")
    assert (await anext(phrases)).text == "they don't drink "
    assert spare_s() <= 0.001
    feed.add("ter with it")
    feed.end()
    assert [phrase.text async for phrase in phrases] == ["water with it"]


@pytest.mark.parametrize("early", [True, False])
async def test_a_first_phrase_may_be_two_words_and_the_next_one_is_short_then(early: bool) -> None:
    feed = TextFeed(ManualClock())
    awaits_first = early
    phrases = cut_phrases(feed.texts(), early=lambda: awaits_first and feed.awaited)
    told = asyncio.create_task(anext(phrases))
    for piece in ("The", " cap", "ital", " of", " the", " big", " coun", "try", " is"):
        await asyncio.sleep(0)
        feed.add(piece)
        for _ in range(3):
            await asyncio.sleep(0)
    first, awaits_first = await told, False
    for piece in (" Paris", " since", " then", "."):
        feed.add(piece)
    feed.end()
    said = [first.text, *[phrase.text async for phrase in phrases]]
    whole = "The capital of the big country is Paris since then."
    assert "".join(said) == whole
    assert said[0] == ("The capital " if early else "The capital of the big")
    assert said[1].split()[-1] == ("country" if early else "then.")


async def test_a_text_that_is_there_at_once_is_not_cut_early() -> None:
    feed = TextFeed(ManualClock())
    feed.add("The capital of the big country is Paris.")
    feed.end()
    phrases = cut_phrases(feed.texts(), early=lambda: feed.awaited)
    assert [phrase.text async for phrase in phrases] == [
        phrase.text for phrase in phrases_of("The capital of the big country is Paris.")
    ]
