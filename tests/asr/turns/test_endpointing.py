"""Utterances begin, pause and end where they should."""

import math

from services.asr.hearing.detectors import FRAME_SAMPLES
from services.asr.turns.endpointing import (
    Endpointer,
    EndpointRules,
    Hesitation,
    Kind,
    PauseHabit,
    Signal,
)

RULES = EndpointRules()


def run(endpointer: Endpointer, probability: float, frames: int) -> list[Signal]:
    return [signal for _ in range(frames) for signal in endpointer.hear_frame(probability)]


def kinds(signals: list[Signal]) -> list[Kind]:
    return [signal.kind for signal in signals]


def paused(end_of_turn: float | None = None) -> Endpointer:
    endpointer = Endpointer()
    run(endpointer, 1.0, 20)
    assert kinds(run(endpointer, 0.0, RULES.pause_frames)) == [Kind.PAUSED]
    if end_of_turn is not None:
        assert endpointer.judge(end_of_turn) == []
    return endpointer


def frames_until_end(endpointer: Endpointer) -> int:
    for count in range(1, 100):
        if Kind.ENDED in kinds(endpointer.hear_frame(0.0)):
            return RULES.pause_frames + count
    raise AssertionError("never ended")


def test_a_click_is_not_speech() -> None:
    endpointer = Endpointer()
    for _ in range(20):
        assert run(endpointer, 1.0, RULES.start_frames - 1) == []
        assert run(endpointer, 0.0, 1) == []


def test_the_surer_the_end_the_shorter_the_wait() -> None:
    assert frames_until_end(paused(0.99)) == RULES.shortest_wait_frames
    assert frames_until_end(paused(0.65)) > RULES.shortest_wait_frames


def test_a_whole_question_is_over_a_little_sooner_where_it_is_sure() -> None:
    asked, doubted = paused(), paused()
    assert asked.judge(0.99, asks=True) == doubted.judge(0.3, asks=True) == []
    assert frames_until_end(asked) == RULES.shortest_wait_frames - RULES.question_sooner_frames
    assert frames_until_end(doubted) == RULES.wait_frames(0.3)


def test_frames_as_quiet_as_the_room_belong_to_the_silence_that_follows() -> None:
    endpointer = Endpointer()
    run(endpointer, 1.0, 20)
    assert [endpointer.hear_frame(0.95, quiet=True) for _ in range(2)] == [[], []]
    (paused_at,) = endpointer.hear_frame(0.1, quiet=True)
    assert paused_at == Signal(Kind.PAUSED, 20 * FRAME_SAMPLES)
    assert endpointer.voiced_frames == 20


def test_a_quiet_moment_within_speech_is_no_silence() -> None:
    endpointer = Endpointer()
    run(endpointer, 1.0, 20)
    assert [endpointer.hear_frame(0.95, quiet=True) for _ in range(5)] == [[]] * 5
    assert endpointer.hear_frame(0.9) == []
    # The quiet frames before lie too far back.
    assert endpointer.hear_frame(0.1) == [Signal(Kind.PAUSED, 26 * FRAME_SAMPLES)]


def test_a_quiet_frame_is_silence_as_soon_as_the_vad_is_no_longer_sure() -> None:
    endpointer = Endpointer()
    run(endpointer, 1.0, 20)
    assert endpointer.hear_frame(0.8) == []
    assert endpointer.hear_frame(0.8, quiet=True) == [Signal(Kind.PAUSED, 21 * FRAME_SAMPLES)]


def test_doubt_waits_in_between_and_longer_the_less_sure() -> None:
    waits = [frames_until_end(paused(p)) for p in (0.7, 0.5, 0.3)]
    assert RULES.shortest_wait_frames < waits[0] < waits[1] < waits[2] < RULES.longest_wait_frames


def test_the_wait_is_where_cutting_off_costs_as_much_as_waiting() -> None:
    """At the wait that the rules name, the expected cost is least."""
    finished, typical, cost = 0.6, RULES.typical_pause_frames, RULES.cut_off_cost_frames

    def expected(wait: int) -> float:
        return finished * wait + (1 - finished) * cost * math.exp(-wait / typical)

    bounds = range(RULES.shortest_wait_frames, RULES.longest_wait_frames + 1)
    assert RULES.wait_frames(finished) == min(bounds, key=expected)


def test_who_hesitates_is_waited_for_longer() -> None:
    habit, fresh = PauseHabit(), Hesitation()
    stranger = RULES.wait_frames(0.6, habit.odds(fresh))
    hesitant = RULES.wait_frames(0.6, habit.odds(Hesitation(pauses=6)))
    habit.learn(Hesitation(pauses=6))
    assert stranger < RULES.wait_frames(0.6, habit.odds(fresh)) <= hesitant
    for _ in range(30):
        habit.learn(fresh)
    fluent = RULES.wait_frames(0.6, habit.odds(fresh))
    assert fluent < stranger < hesitant
    assert stranger - fluent <= 3


def test_an_end_that_was_none_counts_as_a_pause() -> None:
    fluent, hasty, fresh = PauseHabit(), PauseHabit(), Hesitation()
    fluent.learn(fresh)
    hasty.learn(fresh)
    hasty.learn(Hesitation(takes_back=True))
    assert hasty.odds(fresh) <= PauseHabit().odds(fresh) < fluent.odds(fresh)


def test_doubt_asks_for_a_second_opinion_once() -> None:
    assert kinds(run(paused(0.3), 0.0, 10)) == [Kind.STILL_PAUSED]
    assert Kind.STILL_PAUSED not in kinds(run(paused(0.9), 0.0, 10))


def test_speech_after_a_pause_resumes_and_forgets_the_opinion() -> None:
    endpointer = paused(0.75)
    assert kinds(run(endpointer, 1.0, 3)) == [Kind.RESUMED]
    assert kinds(run(endpointer, 0.0, RULES.pause_frames)) == [Kind.PAUSED]
    assert frames_until_end(endpointer) == RULES.longest_wait_frames


def test_an_opinion_on_speech_is_ignored() -> None:
    endpointer = Endpointer()
    run(endpointer, 1.0, 10)
    assert endpointer.judge(1.0) == []
    assert kinds(run(endpointer, 0.0, RULES.shortest_wait_frames + 2)) == [Kind.PAUSED]


def test_between_the_thresholds_a_sound_stays_what_it_was() -> None:
    between = (RULES.speech_probability + RULES.silence_probability) / 2
    endpointer = Endpointer()
    assert run(endpointer, between, 20) == []
    run(endpointer, 1.0, 10)
    assert run(endpointer, between, 50) == []
    assert kinds(run(endpointer, 0.0, 1)) == [Kind.PAUSED]
    run(endpointer, between, 10)
    assert endpointer.silent_frames == 11


def test_too_short_for_a_word_is_discarded() -> None:
    endpointer = Endpointer()
    run(endpointer, 1.0, RULES.fewest_voiced_frames - 1)
    run(endpointer, 0.0, RULES.pause_frames)
    endpointer.judge(1.0)
    assert kinds(run(endpointer, 0.0, 10)) == [Kind.DISCARDED]


def test_an_endless_utterance_is_ended() -> None:
    endpointer = Endpointer(EndpointRules(longest_utterance_frames=100))
    signals = run(endpointer, 1.0, 250)
    assert kinds(signals) == [Kind.STARTED, Kind.ENDED] * 2 + [Kind.STARTED]


def test_silence_of_a_given_length_ends_whatever_opinions_there_are() -> None:
    rules = EndpointRules(silence_frames=20)
    assert {rules.wait_frames(p) for p in (None, 0.0, 0.5, 0.99)} == {20}
    endpointer = Endpointer(rules)
    run(endpointer, 1.0, 20)
    signals = run(endpointer, 0.0, 19)
    endpointer.judge(0.99)
    assert Kind.ENDED not in kinds(signals)
    assert kinds(endpointer.hear_frame(0.0)) == [Kind.ENDED]


def test_only_what_surely_goes_on_is_waited_for_with_patience() -> None:
    patient = EndpointRules(patience_frames=125)
    for end_of_turn in (None, 0.2, 0.5, 0.99):
        assert patient.wait_frames(end_of_turn) == RULES.wait_frames(end_of_turn)
    waits = [patient.wait_frames(p) for p in (0.19, 0.1, 0.05, 0.01)]
    assert waits == sorted(waits) and waits[-2:] == [125, 125]
    hasty = EndpointRules(patience_frames=20)
    assert hasty.wait_frames(0.0) == hasty.wait_frames(None) == 20
    assert hasty.wait_frames(0.99) == RULES.shortest_wait_frames
