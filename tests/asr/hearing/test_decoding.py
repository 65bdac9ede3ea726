"""Loops are noticed, repeated words are not loops."""

from services.asr.hearing.decoding import loop_start


def test_a_phrase_repeated_is_a_loop_after_its_first_round() -> None:
    tokens = [1, 2, 3, *([7, 8, 9] * 4)]
    assert loop_start(tokens) == 6


def test_one_token_for_ever_is_a_loop() -> None:
    assert loop_start([5, *[4] * 12]) == 2


def test_people_repeat_themselves() -> None:
    assert loop_start([4] * 8) is None
    assert loop_start([1, 2, 3] * 3) is None
    assert loop_start(list(range(200))) is None
    assert loop_start([]) is None
