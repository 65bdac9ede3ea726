"""What words say about the end of a turn."""

import pytest

from services.asr.turns.completeness import asks, finished_odds, fused, states
from services.asr.turns.endpointing import EndpointRules
from services.asr.turns.finished_words import N_BUCKETS, word_model
from services.asr.turns.languages import words_of

GOES_ON = [
    ("I want to go to Paris and.", "en"),
    ("Can you tell me how to get to the?", "en"),
    ("I would like a table for.", "en"),
    ("We could take the bus or.", "en"),
    ("The thing that I really need is.", "en"),
    ("I think, um,", "en"),
    ("So,", "en"),
    ("He was not.", "en"),
    ("If it rains tomorrow.", "en"),
    ("When I was young,", "en"),
    ("What is the difference between a crocodile?", "en"),
    ("Would you rather live in the city?", "en"),
    ("Which is bigger, the sun?", "en"),
    ("Tell me,", "en"),
    ("My number is 555.", "en"),
    ("Nine, four, six.", "en"),
    ("The code is seven, nine.", "en"),
    ("我想去北京,然后", "zh"),
    ("我们可以坐公共汽车或者", "zh"),
    ("如果明天下雨。", "zh"),
    ("我的电话号码是138。", "zh"),
    ("嗯", "zh"),
    ("一二三四", "zh"),
]
FINISHED = [
    ("Who are you?", "en"),
    ("Yes.", "en"),
    ("Thank you very much.", "en"),
    ("你好", "zh"),
    ("你能给我讲一个故事吗?", "zh"),
]
SHORT = [
    ("Yes, I do.", "en"),
    ("Not really.", "en"),
    ("I hope not.", "en"),
    ("How come?", "en"),
    ("当然可以。", "zh"),
    ("什么时候?", "zh"),
]
SENTENCES = [
    ("And who invented it,", "en"),
    ("When does the last train leave,", "en"),
    ("What can I do when I cannot sleep at night?", "en"),
    ("Can plants grow without any sunlight,", "en"),
    ("What is the difference between a lake and a pond?", "en"),
    ("What is the difference between these two cars?", "en"),
    ("Is there a bus between the villages?", "en"),
    ("How long does it take to fly from New York to Paris?", "en"),
    ("我想要一杯咖啡。", "zh"),
    ("请问火车站在哪里", "zh"),
]
BROKEN_OFF = [
    ("Can you tell me how to get to", "en"),
    ("Yesterday I saw", "en"),
    ("请告诉我怎么", "zh"),
    ("我想问一下今天", "zh"),
]
SAYS_NOTHING = [
    ("Marmalade.", "en"),
    ("40", "en"),
    ("", "en"),
    ("...", "en"),
    ("?", "en"),
    ("—", "de"),
    ("……", "zh"),
]
# A quarter of a second of silence is enough, and more than half a second is not wanted.
SURE, RATHER = 0.65, 0.5


def test_nobody_ends_like_this() -> None:
    for text, language in GOES_ON:
        assert finished_odds(text, language) < -1
        assert fused(0.99, finished_odds(text, language), language) < RATHER


def test_this_is_complete() -> None:
    for text, language in FINISHED:
        assert finished_odds(text, language) > 1


def test_short_answers_and_questions_are_whole() -> None:
    for text, language in SHORT:
        assert fused(0.5, finished_odds(text, language), language) > RATHER


def test_what_hangs_behind_a_short_answer_goes_on() -> None:
    for text in ("Yes, but.", "Maybe the.", "Why the?"):
        assert fused(0.9, finished_odds(text, "en"), "en") < RATHER


def test_a_whole_sentence_is_finished_whatever_its_intonation() -> None:
    for text, language in SENTENCES:
        odds = finished_odds(text, language)
        assert fused(0.0, odds, language) > RATHER
        assert fused(0.5, odds, language) > SURE


def test_a_broken_sentence_goes_on_whatever_its_intonation() -> None:
    for text, language in BROKEN_OFF:
        assert fused(1.0, finished_odds(text, language), language) < RATHER


def test_elsewhere_the_words_leave_it_to_the_turn_detector() -> None:
    for text, language in SAYS_NOTHING:
        assert finished_odds(text, language) == 0.0
        assert not asks(text, language)


def test_a_comma_behind_a_statement_means_more_than_behind_a_question() -> None:
    for said, mark in (("I have a dog", "."), ("Where is my dog", "?")):
        lost = finished_odds(said + mark, "en") - finished_odds(said + ",", "en")
        assert lost == pytest.approx(1.5 if mark == "." else 0.0)


TOLD = [
    ("I lost my passport.", "en"),
    ("Well, my train was cancelled yesterday,", "en"),
    ("我的护照丢了。", "zh"),
    ("今天下雨了", "zh"),
]
NOT_TOLD = [
    ("I lost my passport. What should I do?", "en"),
    ("I lost my passport what should I do.", "en"),
    ("I'd like a table for two tonight.", "en"),
    ("Tell me about the sea.", "en"),
    ("I don't know.", "en"),
    ("That is very nice of you.", "en"),
    ("Thank you very much.", "en"),
    ("", "en"),
    ("我的护照丢了,怎么办", "zh"),
    ("我想要一杯咖啡。", "zh"),
    ("请告诉我时间。", "zh"),
    ("我知道", "zh"),
]


def test_a_statement_that_nobody_asked_for_leads_up_to_something() -> None:
    for text, language in TOLD:
        odds = finished_odds(text, language)
        assert states(text, language)
        wait, unprompted = (
            EndpointRules().wait_frames(fused(0.8, odds, language, unprompted=unprompted))
            for unprompted in (False, True)
        )
        assert wait + 10 <= unprompted <= 30


def test_what_asks_or_wants_or_is_short_is_no_statement() -> None:
    for text, language in NOT_TOLD:
        assert not states(text, language)


def test_behind_a_whole_number_more_digits_may_come() -> None:
    for text in ("My number is 555 123 4567.", "The code is 7924,"):
        assert -1 < finished_odds(text, "en") < 0
    assert finished_odds("I was born in 1984.", "en") > 0


def test_a_language_without_learnt_words_is_left_to_the_turn_detector() -> None:
    assert finished_odds("Wo ist der Bahnhof", "de") == 0.0
    assert fused(0.7, 0.0, "de") == pytest.approx(0.7)
    assert fused(0.7, 0.0, "en") == pytest.approx(0.7)


def test_beside_words_that_tell_the_intonation_counts_less() -> None:
    assert 0 < fused(0.9, 1.0, "en") - fused(0.1, 1.0, "en") < 0.3


def test_the_learnt_weights_are_small_and_rank_a_whole_sentence_first() -> None:
    model = word_model("en")
    assert model is not None
    assert model.weights.shape == (N_BUCKETS,)
    said = words_of("Where do you live?", "en")
    odds = [model.odds(said[:end], "en") for end in range(1, 5)]
    assert max(odds) == odds[-1]
    assert model.odds([], "en") == 0.0
