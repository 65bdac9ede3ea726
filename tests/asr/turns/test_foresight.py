"""Whether the words so far are all, told while they are being said."""

from __future__ import annotations

from services.asr.turns.foresight import Foresight


def looked_at(text: str, *, frames: int = 40) -> Foresight:
    """An utterance of 1.3 s that a look has just understood, up to its latest frame."""
    foresight = Foresight()
    foresight.begin()
    for _ in range(frames):
        foresight.hear_frame(0.1, 1.0)
    foresight.looked(text, "en", 0)
    return foresight


def test_nothing_understood_is_never_all() -> None:
    foresight = Foresight()
    foresight.hear_frame(1.0, 0.0)
    assert foresight.probability == 0 and foresight.evidence() is None


def test_whole_words_are_likelier_to_be_all_than_a_beginning() -> None:
    whole = looked_at("What is the capital of France?").probability
    begun = looked_at("What is the capital of").probability
    assert begun < 0.05 < whole


def test_a_voice_that_fades_says_that_they_are_and_one_that_goes_on_that_they_are_not() -> None:
    fading, going_on = (looked_at("What is the capital of France?") for _ in range(2))
    before = fading.probability
    for depth in (0.5, 0.8, 1.0):
        fading.hear_frame(depth, 0.7)
        going_on.hear_frame(0.1, 1.0)
    assert fading.probability > 0.6 > before > going_on.probability
    assert going_on.evidence() != fading.evidence()


def test_an_utterance_begins_without_the_words_of_the_one_before() -> None:
    foresight = looked_at("What is the capital of France?")
    foresight.begin()
    foresight.hear_frame(0.1, 1.0)
    assert foresight.probability == 0
