"""A load's pure parts: schedules that wait for nobody, players, the ledger, the knee."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest

from tests.fakes import ManualClock
from visavis.serving.errors import InvalidInputError
from visavis.tools.bench.load.command import steps_of
from visavis.tools.bench.load.exchange import Asked, Exchange, Talk, settle, silent_wait_s
from visavis.tools.bench.load.guest import InLine
from visavis.tools.bench.load.killer import kinds_of
from visavis.tools.bench.load.knee import Knee, Limits, find_knee, next_sessions, not_judged
from visavis.tools.bench.load.ledger import Line, Verdict, code_word, judge, with_code
from visavis.tools.bench.load.playout import PICTURE_S, PlayoutFigures, PlayoutJudge
from visavis.tools.bench.load.results import (
    Break,
    ClientReport,
    Kill,
    StackReport,
    StepResult,
    Wait,
    sum_up,
)
from visavis.tools.bench.load.schedule import (
    Habits,
    LoadPlan,
    Planned,
    dealt,
    planned,
    visit_lengths,
)
from visavis.tools.bench.load.steps import orders_of, stack_flags
from visavis.tools.bench.visitor.media import HeardSound, SeenPicture
from visavis.tools.bench.visitor.trace import Trace

# ------------------------------------------------------------ schedule


def test_a_seed_gives_a_visitor_the_same_schedule_however_long_the_run_is() -> None:
    habits = Habits(seed=7)
    long = planned(habits, 3, 500.0)
    assert planned(habits, 3, 100.0) == [q for q in long if q.due_s < 100.0]
    assert planned(habits, 4, 500.0)[0].due_s != long[0].due_s
    assert planned(replace(habits, seed=8), 3, 500.0)[0].due_s != long[0].due_s
    # Another share changes which questions are typed, and nothing else.
    typed = planned(replace(habits, spoken_share=0.0), 3, 500.0)
    assert [q.due_s for q in typed] == [q.due_s for q in long]
    assert not any(q.spoken for q in typed)


def test_questions_come_at_random_as_often_as_the_duty_wants() -> None:
    habits = Habits(duty=0.4, turn_s=10.0, spoken_share=0.7, seed=1)
    due = [q for visitor in range(40) for q in planned(habits, visitor, 2500.0)]
    assert len(due) == pytest.approx(40 * 2500 / 25, rel=0.05)
    assert np.mean([q.spoken for q in due]) == pytest.approx(0.7, abs=0.03)
    gaps = np.diff([q.due_s for q in planned(habits, 0, 50_000.0)])
    assert np.std(gaps) == pytest.approx(np.mean(gaps), rel=0.1), "exponential, as Poisson's are"
    even = np.diff([q.due_s for q in planned(replace(habits, arrivals="even"), 0, 500.0)])
    assert even == pytest.approx([25.0] * len(even))


def test_together_all_ask_the_same_at_the_same_time() -> None:
    habits = Habits(arrivals="together", seed=2)
    asked = planned(habits, 0, 500.0)
    assert asked == planned(habits, 5, 500.0)
    assert [q.due_s for q in asked] == pytest.approx([25.0 * k + asked[0].due_s for k in range(20)])


def test_every_question_of_the_deck_is_drawn_and_a_lone_visitor_is_given_time() -> None:
    deck = [f"clip-{i}" for i in range(10)]
    assert {dealt(deck, draw, seed=3) for draw in range(10)} == set(deck)
    habits = Habits(duty=0.5, turn_s=10.0)
    plan = LoadPlan(habits, "", duration_s=60.0, questions=20)
    assert plan.length_s(1) == 20 * 20.0
    assert plan.length_s(100) == 60.0


# ------------------------------------------------------------ waiting that counts


def test_silence_before_a_question_counts_and_talk_does_not() -> None:
    talk = [Talk(0.0, 4.0), Talk(3.0, 6.0), Talk(9.0, 11.0)]
    # Due at 2: spoken over until 6, silent until 9, spoken to until 11, asked at 11.5.
    assert silent_wait_s(2.0, 11.5, talk) == pytest.approx(3.5)
    assert silent_wait_s(12.0, 12.0, talk) == 0.0


def served(latency_s: float, due: list[float]) -> list[Exchange]:
    """One visitor whose questions last 1 s and are answered for 2 s, `latency_s` later."""
    talk: list[Talk] = []
    free_s, exchanges = 0.0, []
    for number, due_s in enumerate(due):
        asked_s = max(due_s, free_s)
        end_s, begins_s = asked_s + 1.0, asked_s + 1.0 + latency_s
        free_s = begins_s + 2.0
        question = Planned(number, due_s, True, False, False, 0)
        wait_s = silent_wait_s(due_s, asked_s, talk)
        asked = Asked(question, "", heard(asked_s, end_s, begins_s, free_s), asked_s, wait_s)
        talk += asked.talk(free_s)
        exchanges.append(settle(0, asked, {"state": "finished"}, 0.0, free_s))
    return exchanges


def heard(asked_s: float, end_s: float, begins_s: float, over_s: float) -> Trace:
    events: list[tuple[float, dict[str, Any]]] = [
        (end_s, {"type": "transcript", "turn": 1, "final": True, "text": "Why?"}),
        (end_s, {"type": "turn", "turn": 1, "event": "opened"}),
        (begins_s, {"type": "turn", "turn": 1, "event": "speaking"}),
        (over_s, {"type": "turn", "turn": 1, "event": "finished"}),
    ]
    return Trace(asked_s, end_s, events, [sound(begins_s + 0.001, begins_s, loud=True)])


def test_a_server_that_stalls_is_not_asked_less_often_for_it() -> None:
    due = [10.0 * i for i in range(10)]
    quick, slow = served(0.5, due), served(20.0, due)
    assert [e.outcome for e in quick] == ["answered"] * 10
    assert [e.figures["voice_to_voice_due"] for e in quick] == pytest.approx([0.501] * 10)
    # As asked each answer takes 20 s; but the tenth question was due when the fourth was asked.
    as_asked = [e.figures["voice_to_voice"] for e in slow]
    as_due = [e.figures["voice_to_voice_due"] or 0.0 for e in slow]
    assert as_asked == pytest.approx([20.001] * 10)
    assert as_due[-1] > 100.0 and as_due == sorted(as_due)


def test_an_answer_is_not_taken_for_the_end_of_the_one_before() -> None:
    trace = heard(0.0, 1.0, 3.0, 5.0)
    trace.sounds.insert(0, sound(1.2, 1.2, loud=True))
    asked = Asked(Planned(0, 0.0, True, False, False, 0), "", trace, 0.0, 0.0, cut_in=True)
    assert settle(0, asked, {}, 0.0, 9.0).figures["voice_to_voice"] == pytest.approx(2.001)
    refused = replace(asked, trace=Trace(), refusal="llm has no slot")
    assert refused.over(), "nobody waits for an answer to it"
    assert settle(0, refused, {}, 0.0, 9.0).outcome == "failed"


def test_an_answer_that_goes_on_in_another_turn_is_the_question_s() -> None:
    trace = heard(0.0, 1.0, 3.0, 5.0)
    trace.events.pop()
    asked = Asked(Planned(0, 0.0, False, False, False, 0), "", trace, 0.0, 0.0, turn=1)
    # Of its gateway's death nothing was told but that it is replaced: the rest is looked up.
    trace.events.append((6.0, {"type": "turn", "turn": 1, "event": "replaced"}))
    assert not asked.over()
    records = [{"turn": turn, "state": "finished", "transcript": "Why?"} for turn in (0, 102)]
    missed = [(7.0, event) for event in trace.missed(records, 1, "Why?")]
    trace.events += missed
    assert asked.over() and asked.answering() == 102
    assert trace.missed(records, 1, "Why?") == []
    exchange = settle(0, asked, records[1], 0.0, 8.0)
    assert (exchange.outcome, exchange.ended_s) == ("answered", 7.0)
    assert exchange.figures["text_to_voice"] == pytest.approx(2.001), "it was heard before"
    # Whoever has asked into it, and was not understood before, is not answered by it.
    lost = replace(asked, planned=Planned(1, 4.0, True, False, False, 0), turn=0)
    lost.trace = Trace(4.0, 4.5, list(missed), [sound(7.5, 7.5, loud=True)])
    assert settle(0, lost, {}, 0.0, 8.0).outcome == "unanswered"
    records[1]["transcript"] = "How?"
    lost.trace.events.clear()
    lost.trace.events += [(7.0, event) for event in lost.trace.missed(records, 1, "Why?")]
    assert lost.answering() == 102


# ------------------------------------------------------------ playout


def sound(at_s: float, media_s: float, *, loud: bool) -> HeardSound:
    return HeardSound(at_s, media_s, np.full(960, 4000 if loud else 0, np.int16), 48_000)


def stream(late: dict[int, float], loud: bool = True) -> PlayoutJudge:
    """A hundred sounds of 20 ms and fifty pictures; those at a place in `late` come later, and
    what follows them not before them."""
    player = PlayoutJudge(budget_s=0.1)
    newest_s = 0.0
    for i in range(100):
        newest_s = max(newest_s, 0.02 * i + late.get(i, 0.0))
        player.note(sound(newest_s, 0.02 * i, loud=loud))
        if i % 2 == 0:
            player.note(SeenPicture(newest_s, 0.02 * i))
    return player


def test_sound_within_the_jitter_budget_is_no_gap_and_beyond_it_or_never_come_one() -> None:
    assert stream({40: 0.09}).figures.underruns == 0
    figures = stream({40: 0.35}).figures
    assert figures.underruns == 1
    assert figures.gap_s == pytest.approx(0.25)
    assert stream({40: 0.35}, loud=False).figures.underruns == 0, "a gap in silence is none"
    player = stream({})
    player.note(sound(2.06, 2.06, loud=True))
    assert player.figures.underruns == 1
    assert player.figures.gap_s == pytest.approx(0.06)


def test_late_and_missing_pictures_of_a_voice_are_counted() -> None:
    player = stream({})
    assert player.figures.late_frames == player.figures.missing_frames == 0
    assert player.figures.frames == 50
    player.note(SeenPicture(2.0 + 0.1 + 0.03, 2.0))
    assert player.figures.late_frames == 0, "within the tolerance"
    player.note(SeenPicture(2.04 + 0.1 + 0.05, 2.04))
    assert player.figures.late_frames == 1
    player.note(SeenPicture(2.13, 2.04 + 2 * PICTURE_S))
    assert player.figures.missing_frames == 1
    player.note(SeenPicture(99.0, 2.5))
    assert player.figures.frames == 53, "nobody speaks any more"


def test_a_player_that_fell_behind_catches_up_in_silence() -> None:
    player = stream({40: 0.35})
    for i in range(100, 500):
        player.note(sound(0.02 * i, 0.02 * i, loud=False))
    player.note(sound(10.15, 10.0, loud=True))
    assert player.figures.underruns == 2, "it is behind by its budget alone again"


def test_a_stream_that_begins_anew_is_played_from_its_own_first_sound() -> None:
    player = stream({}, loud=False)
    player.begin_anew()
    for i in range(50):
        player.note(sound(9.0 + 0.02 * i, 0.02 * i, loud=True))
    assert player.figures.underruns == 0


def test_a_voice_that_a_lost_connection_cuts_off_is_a_gap_until_it_is_heard_again() -> None:
    player = stream({})
    player.begin_anew()
    for i in range(26):
        player.note(sound(3.0 + 0.02 * i, 0.02 * i, loud=i == 25))
    figures = player.figures
    # Played up to 2.1, and heard again at 3.6.
    assert (figures.underruns, figures.lost_gaps) == (1, 1)
    assert figures.gap_s == figures.lost_gap_s == pytest.approx(1.5)
    assert figures.missing_frames == figures.lost_frames == pytest.approx(1.5 / PICTURE_S, abs=1)
    asked = stream({})
    asked.begin_anew()
    asked.note(sound(3.0, 0.0, loud=False))
    asked.asked()
    asked.note(sound(3.02, 0.02, loud=True))
    assert asked.figures.gap_s == pytest.approx(1.0), "what comes then is another answer"


# ------------------------------------------------------------ ledger


def lines_of(visitor: int, answer: tuple[str, ...]) -> list[Line]:
    typed = with_code(visitor, 0, "Who are you?")
    pieces = [Line(visitor, 2.0, "answer", 1, piece) for piece in answer]
    return [
        Line(visitor, 0.0, "typed", 1, typed),
        Line(visitor, 0.1, "understood", 1, typed),
        *pieces,
        Line(visitor, 3.0, "record", 1, f"Yes, {code_word(visitor)}."),
    ]


def test_words_that_reach_their_visitor_once_are_in_order_in_a_further_visit_too() -> None:
    assert len({code_word(visitor) for visitor in range(1000)}) == 1000
    own = [line for v in (0, 1) for line in lines_of(v, ("Yes, ", f"{code_word(v)}."))]
    again = [replace(line, visit=2) for line in own if line.visitor == 0]  # its turns begin at 1
    for lines, count in ((own, 2), (own + again, 3)):
        verdict = judge(lines)
        assert verdict.faults == []
        found = (verdict.typed, verdict.exact, verdict.answers, verdict.with_code)
        assert found == (count,) * 4


def test_the_words_of_another_and_lost_and_doubled_ones_are_found() -> None:
    fine = lines_of(0, ("Yes, ", f"{code_word(0)}."))
    theirs = judge([*fine, *lines_of(1, ("Yes, ", f"{code_word(0)}."))])
    assert len(theirs.foreign) == 1 and "visitor 0's code word" in theirs.foreign[0]
    assert len(judge(lines_of(1, ("Yes, ",))).lost) == 1
    assert len(judge(lines_of(1, ("Yes, ", f"{code_word(1)}.", " Yes."))).doubled) == 1
    assert len(judge([*fine, fine[1]]).doubled) == 1
    assert len(judge([fine[0], *fine[2:]]).lost) == 1
    said = [Line(2, 0.0, "spoken", 0, "Why is the sky blue?")]
    strayed = Line(0, 1.0, "understood", 2, "why is the sky blue")
    assert len(judge([*fine, *said, strayed]).foreign) == 1
    assert judge([*fine, *said, replace(strayed, visitor=2)]).faults == []
    misheard = replace(strayed, turn=0, text="")
    assert judge([*fine, *said, misheard, misheard]).faults == []


def test_what_was_told_while_nobody_was_connected_is_not_lost_and_the_rest_may_be() -> None:
    def told(*answer: str | None) -> Verdict:
        """None: the connection was made anew."""
        lines = lines_of(0, ())
        pieces = [
            Line(0, 2.0, "away" if piece is None else "answer", 1, piece or "") for piece in answer
        ]
        return judge([*lines[:2], *pieces, lines[2]])

    word = code_word(0)
    assert told("Yes, ", None, ".").answers == 1
    assert told(None).answers == 1
    assert told("Yes, ", f"{word}.", None).answers == 1
    assert len(told("Yes, ", None, f", {word}.").doubled + told("Yes", None, "no.").lost) == 2
    assert len(told(" ", None, ".").lost) == 1, "its beginning had been told"


# ------------------------------------------------------------ steps and their knee


def step(sessions: int, seconds: float, **playout: Any) -> StepResult:
    """Ten spoken questions, answered after `seconds`."""
    exchanges = [
        Exchange(0, i, True, False, 10.0 + i, "answered", figures={"voice_to_voice_due": seconds})
        for i in range(10)
    ]
    early = Exchange(0, 0, True, False, 1.0, "answered", figures={"voice_to_voice_due": 99.0})
    client = ClientReport([early, *exchanges], [replace(PlayoutFigures(frames=1000), **playout)])
    return sum_up(sessions, 0, (5.0, 65.0), [client], StackReport())


def test_the_knee_is_the_last_step_that_is_as_good_as_a_lone_visitor() -> None:
    limits = Limits()
    lone = step(1, 0.4)
    assert lone.p95("voice_to_voice_due") == pytest.approx(0.4), "the warm-up does not count"
    assert find_knee([lone, step(2, 0.59)], limits) == Knee(2, None)
    slow = find_knee([step(4, 0.61), lone, step(2, 0.5), step(8, 0.4)], limits)
    assert (slow.sessions, slow.broke_at) == (2, 4), "what is fine above it does not count"
    assert "1.5 times" in slow.why[0]
    assert find_knee([lone, step(2, 0.4, late_frames=10)], limits).sessions == 1
    assert find_knee([lone, step(2, 0.4, missing_frames=9)], limits).sessions == 2
    assert find_knee([lone, step(2, 0.4, underruns=1)], limits).sessions == 1
    refused = step(2, 0.4)
    refused.refused.append("all 1 slots are taken")
    assert find_knee([lone, refused], limits).sessions == 1
    gone = step(2, 0.4)
    gone.lost.append("there is no session")
    assert find_knee([lone, gone], limits).sessions == 1
    failed = step(2, 0.4)
    failed.exchanges.append(Exchange(0, 11, True, False, 30.0, "not_asked"))
    assert find_knee([lone, failed], limits).why == ("1 questions failed",)


def test_it_is_said_what_could_not_be_judged() -> None:
    text = "text to voice could not be judged"
    assert not_judged([step(2, 0.5), step(1, 0.4)]) == [f"at 1: {text}", f"at 2: {text}"]
    unseen = step(1, 0.4)
    unseen.playout.frames = 0
    assert "late pictures" in not_judged([unseen])[0]


def test_what_breaks_in_the_counted_time_is_told_with_what_was_killed() -> None:
    breaks = [Break(0, "events", at_s, at_s / 10) for at_s in (3.0, 6.0, 8.0, 66.0)]
    stack = StackReport(kills=[Kill("face", 6.0)])
    told = sum_up(1, 0, (5.0, 65.0), [ClientReport(breaks=breaks)], stack).to_dict()
    assert told["kills"] == [{"kind": "face", "at_s": 6.0}]
    away = told["breaks_away_s"]
    assert (away["count"], away["p50"], away["max"]) == (2, pytest.approx(0.7), 0.8)


def test_kills_come_at_equal_distances_within_the_counted_time() -> None:
    plan = LoadPlan(Habits(), "", kill=kinds_of("face, nats"), kill_every_s=9.0)
    assert plan.kill_times_s(10.0, 37.0) == [19.0, 28.0]
    assert LoadPlan(Habits(), "").kill_times_s(10.0, 37.0) == []
    with pytest.raises(InvalidInputError, match="known are asr"):
        kinds_of("faces")


@pytest.mark.parametrize(
    ("knee", "tried"), [(5, [1, 2, 4, 8, 6, 5]), (0, [1]), (16, [1, 2, 4, 8, 16])]
)
def test_the_knee_is_found_by_doubling_and_halving(knee: int, tried: list[int]) -> None:
    within: dict[int, bool] = {}
    while (sessions := next_sessions(within, most=16)) is not None:
        within[sessions] = sessions <= knee
    assert list(within) == tried


def test_told_waits_are_held_against_those_that_visitors_had() -> None:
    clock = ManualClock()
    line = InLine(clock)
    assert line.wait() is None
    line.told({"state": "waiting", "position": 2, "expected_wait_s": 30.0})
    clock.advance(40.0)
    line.told({"state": "admitted", "position": 0, "expected_wait_s": None})
    clock.advance(5.0)
    right = line.wait()
    assert right == Wait(40.0, 30.0, 2, admitted=True)
    waits = [right, Wait(10.0, 30.0, 1, True), Wait(9.0, None, 1, True), Wait(99.0, 1.0, 9, False)]
    clients = [ClientReport(waits=waits)]
    assert sum_up(9, 0, (5.0, 65.0), clients, StackReport()).told_right_share == 1 / 3


@pytest.mark.parametrize(
    ("waited_s", "admitted", "right"),
    [(10.0, False, None), (60.0, False, None), (60.1, False, False), (60.0, True, True)],
)
def test_who_waits_yet_was_told_wrong_once_no_end_could_make_it_right(
    waited_s: float, admitted: bool, right: bool | None
) -> None:
    assert Wait(waited_s, 30.0, 1, admitted).told_right is right


def test_visits_are_the_same_in_every_run_and_as_long_as_wanted() -> None:
    plan = LoadPlan(Habits(), "", visit_s=100.0)
    lengths = list(islice(visit_lengths(plan, 3), 500))
    assert lengths[:9] == list(islice(visit_lengths(plan, 3), 9))
    assert sum(lengths) / len(lengths) == pytest.approx(100.0, rel=0.1)


def test_what_steps_are_wanted_and_what_a_stack_needs_for_them() -> None:
    assert steps_of("8, 2") == [1, 2, 8]
    assert steps_of("8, 2", lone=False) == [2, 8]
    assert steps_of("auto") is None
    with pytest.raises(InvalidInputError, match="1,2,4"):
        steps_of("two")
    assert stack_flags(0) == {}
    assert stack_flags(9)["tts"] == ["--slots", "9", "--admission", "slots"]
    assert stack_flags(9, "predicted")["llm"][-1] == "predicted"
    assert stack_flags(9)["gateway"] == ["--max-sessions", "9"]


def test_a_report_survives_the_way_between_processes() -> None:
    exchanges, lines, waits = served(0.5, [0.0]), lines_of(0, ("a",)), [Wait(3.0, 2.0, 1, True)]
    report = ClientReport(exchanges, [stream({}).figures], lines, ["full"], 1.0, [0.01], waits)
    report.breaks.append(Break(0, "media", 7.0, 0.5))
    report.lost.append("there is no session")
    assert ClientReport.from_dict(report.to_dict()) == report


def test_who_only_watches_shares_no_process_with_who_asks() -> None:
    plan = LoadPlan(Habits(), "", idle_watchers=5, visitors_per_client=2)
    orders = orders_of(plan, "http://127.0.0.1:1", "", visitors=3, length_s=1.0)
    dealt = [(one.visitors, one.watchers) for one in orders]
    assert dealt == [([0, 2], []), ([1], []), ([], [3, 6]), ([], [4, 7]), ([], [5])]
