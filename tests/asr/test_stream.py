"""The listener turns frames and answers into the events that the protocol promises."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from services.asr.hearing.cutter import LONGEST_PIECE_SAMPLES
from services.asr.hearing.detectors import FRAME_SAMPLES, SAMPLE_RATE_HZ
from services.asr.hearing.transcript import Order, Segment, Transcript
from services.asr.stream import Listener
from services.asr.turns.endpointing import EndpointRules
from services.asr.turns.wording import WINDOW_SAMPLES
from services.asr.utterance import Heard, Judge, Output, Purpose, Requeue, Transcribe
from tests.asr.doubles import COUGH, CountingTranscriber, loud, quiet
from visavis.wire.media import TranscriptEvent as Event

RULES = EndpointRules()


def frames_until_final(*, asked: bool | None, text: str) -> int:
    """Silence that ends `text`, where somebody has asked for it or not."""
    desk = Desk(end_of_turn=0.9)
    desk.text = text
    desk.listener.take_turns_by(replace(RULES, asked=asked))
    desk.feed(loud(40))
    return desk.frames_until_final()


def test_a_statement_is_waited_for_where_nobody_asked() -> None:
    statement, question = "I lost my passport.", "Where is the station?"
    usual = frames_until_final(asked=None, text=statement)
    assert frames_until_final(asked=True, text=statement) == usual
    assert (
        usual + 10 <= frames_until_final(asked=False, text=statement) <= RULES.longest_wait_frames
    )
    quick = frames_until_final(asked=True, text=question)
    assert frames_until_final(asked=False, text=question) == quick < usual


@pytest.mark.parametrize("judged", [False, True])
def test_echoes_and_blips_do_not_teach_that_the_visitor_hesitates(judged: bool) -> None:
    """Where somebody tells which utterances were his; elsewhere each with words counts."""
    desk = Desk(end_of_turn=0.5)
    desk.text = "The house by the sea."
    answered = 0
    desk.listener.take_turns_by(replace(RULES, answered=answered if judged else None))
    waits = []
    for _ in range(4):
        desk.feed(loud(30))
        waits.append(desk.frames_until_final())
        if judged:
            answered = desk.events[-1].utterance
            desk.listener.take_turns_by(replace(RULES, answered=answered))
        # The answer is heard behind it, and comes back: loud, with pauses.
        desk.feed(np.concatenate([quiet(8), *[loud(20), quiet(3)] * 3, quiet(60)]))
    if judged:
        assert max(waits) == waits[0], "he is no stranger any more, and fluent"
    else:
        assert waits[-1] > waits[0]


class Desk:
    """Feeds a listener and answers its questions at once, or when told."""

    def __init__(
        self, *, interim: bool = False, foresight: bool = False, end_of_turn: float = 1.0
    ) -> None:
        self.listener = Listener("en", interim_results=interim, foresight=foresight)
        self.end_of_turn = end_of_turn
        self.events: list[Heard] = []
        self.asked: list[Transcribe | Judge] = []
        self.waiting: list[Transcribe | Judge] = []
        self.requeued: list[Requeue] = []
        self.answers_at_once = True
        self.cost_s = 0.01
        self.text: str | None = None

    def feed(self, sound: np.ndarray) -> None:
        for start in range(0, len(sound), FRAME_SAMPLES):
            frame = sound[start : start + FRAME_SAMPLES]
            self.take(self.listener.hear_frame(frame, float(np.abs(frame).max() > COUGH / 2)))

    def take(self, outputs: list[Output]) -> None:
        for output in outputs:
            if isinstance(output, Heard):
                self.events.append(output)
            elif isinstance(output, Requeue):
                self.requeued.append(output)
            else:
                self.asked.append(output)
                self.waiting.append(output)
                if self.answers_at_once:
                    self.answer()

    def answer(self) -> None:
        work = self.waiting.pop(0)
        if isinstance(work, Judge):
            self.take(self.listener.judged(work, self.end_of_turn, 0.005))
            return
        heard = CountingTranscriber().transcribe(work.pcm, work.language)
        if self.text is not None:
            heard = Transcript(self.text, "en", (Segment(self.text, 0, len(work.pcm)),))
        self.take(self.listener.transcribed(work, heard, self.cost_s))

    def frames_until_final(self) -> int:
        """So many of silence."""
        before = self.kinds.count(Event.FINAL)
        for frames in range(1, 100):
            self.feed(quiet(1))
            if self.kinds.count(Event.FINAL) > before:
                return frames
        raise AssertionError("never ended")

    @property
    def kinds(self) -> list[Event]:
        return [event.event for event in self.events]


def test_a_question_becomes_a_final_text() -> None:
    desk = Desk()
    desk.feed(np.concatenate([quiet(20), loud(40), quiet(20)]))
    assert desk.kinds == [Event.SPEECH_STARTED, Event.PAUSED, Event.FINAL]
    started, paused, final = desk.events
    assert started.at_samples == 20 * FRAME_SAMPLES
    assert paused.text == final.text == "40"
    assert final.speech_end_samples == 60 * FRAME_SAMPLES
    assert final.at_samples == (60 + RULES.shortest_wait_frames) * FRAME_SAMPLES
    assert final.end_of_turn > 0.9
    assert desk.listener.idle


def test_words_are_timed_from_the_first_sample_heard() -> None:
    desk = Desk()
    desk.feed(np.concatenate([quiet(100), loud(40), quiet(20)]))
    (segment,) = desk.events[-1].segments
    assert 90 * FRAME_SAMPLES <= segment.start_samples <= 100 * FRAME_SAMPLES
    assert 140 * FRAME_SAMPLES <= segment.end_samples <= 145 * FRAME_SAMPLES


def test_as_much_lies_before_the_speech_as_is_wanted_but_nothing_that_was_said() -> None:
    desk = Desk()
    desk.listener.take_turns_by(EndpointRules(lead_frames=60))
    desk.feed(np.concatenate([quiet(100), loud(40), quiet(20), loud(30), quiet(20)]))
    first, second = (work for work in desk.asked if isinstance(work, Transcribe))
    assert first.start_samples == 40 * FRAME_SAMPLES
    assert second.start_samples == 140 * FRAME_SAMPLES
    desk = Desk()
    desk.listener.take_turns_by(EndpointRules(lead_frames=0))
    desk.feed(np.concatenate([quiet(20), loud(40), quiet(20)]))
    (work,) = (work for work in desk.asked if isinstance(work, Transcribe))
    assert work.start_samples == 20 * FRAME_SAMPLES


def test_speech_with_which_a_stream_begins_has_silence_before_it() -> None:
    desk = Desk()
    desk.text = "Yes."
    desk.feed(np.concatenate([loud(20), quiet(30)]))
    first = next(work for work in desk.asked if isinstance(work, Transcribe))
    lead = RULES.lead_frames * FRAME_SAMPLES
    assert first.start_samples == -lead
    assert not first.pcm[:lead].any() and first.pcm[lead:].any()
    (segment,) = desk.events[-1].segments
    assert (segment.start_samples, segment.end_samples) == (0, first.end_samples)


def test_what_was_cut_in_mid_speech_is_not_heard_twice() -> None:
    desk = Desk()
    desk.feed(loud(60))
    desk.take(desk.listener.finish())
    desk.feed(np.concatenate([loud(40), quiet(20)]))
    first, second = (work for work in desk.asked if isinstance(work, Transcribe))
    assert second.start_samples == first.end_samples == 60 * FRAME_SAMPLES


def test_the_text_is_asked_for_before_the_end_is_sure() -> None:
    desk = Desk(end_of_turn=0.0)
    desk.feed(np.concatenate([loud(40), quiet(RULES.pause_frames)]))
    assert desk.kinds[-1] is Event.PAUSED
    asked = len(desk.asked)
    desk.end_of_turn = 1.0
    desk.feed(quiet(RULES.longest_wait_frames))
    assert desk.kinds[-1] is Event.FINAL
    # Only the second opinion is asked for, the text stands.
    assert [type(work) for work in desk.asked[asked:]] == [Judge]


def desk_that_knows_the_words(text: str) -> Desk:
    """At a pause; whatever the turn detector is asked then, it has not answered."""
    desk = Desk()
    desk.text = text
    desk.answers_at_once = False
    desk.feed(np.concatenate([quiet(20), loud(40), quiet(3)]))
    desk.answer()
    return desk


def test_words_that_may_be_all_do_not_wait_for_the_intonation() -> None:
    desk = desk_that_knows_the_words("I lost my passport.")
    assert desk.kinds == [Event.SPEECH_STARTED, Event.PAUSED]
    desk.feed(quiet(20))
    assert Event.FINAL not in desk.kinds  # that waits
    desk.answer()
    assert desk.kinds[-1] is Event.FINAL


def test_words_that_go_on_wait_for_the_intonation() -> None:
    desk = desk_that_knows_the_words("I would like to and")
    assert desk.kinds == [Event.SPEECH_STARTED]
    desk.answer()
    assert desk.kinds == [Event.SPEECH_STARTED, Event.PAUSED]


def test_the_turn_detector_is_not_asked_where_the_words_decide() -> None:
    desk = desk_that_knows_the_words("Who are you?")
    assert not desk.waiting
    desk.feed(quiet(RULES.shortest_wait_frames - 3))
    assert desk.kinds == [Event.SPEECH_STARTED, Event.PAUSED, Event.FINAL]


def test_nor_where_whoever_listens_says_how_long_a_pause_is() -> None:
    desk = Desk()
    desk.listener.take_turns_by(EndpointRules(silence_frames=9))
    desk.text = "I lost my passport."
    desk.feed(np.concatenate([loud(40), quiet(8)]))
    assert desk.kinds == [Event.SPEECH_STARTED, Event.PAUSED]
    desk.feed(quiet(1))
    assert desk.kinds[-1] is Event.FINAL
    assert [type(work) for work in desk.asked] == [Transcribe]


def test_no_second_opinion_is_asked_for_where_the_words_leave_no_doubt() -> None:
    desk = Desk(end_of_turn=0.5)
    desk.text = "I would like to and"
    desk.feed(np.concatenate([loud(40), quiet(RULES.longest_wait_frames)]))
    assert [type(work) for work in desk.asked] == [Transcribe, Judge]
    assert desk.kinds == [Event.SPEECH_STARTED, Event.PAUSED, Event.FINAL]


def test_going_on_after_a_pause_withdraws_it_with_a_partial() -> None:
    desk = Desk(end_of_turn=0.0)
    desk.feed(np.concatenate([loud(40), quiet(10), loud(30)]))
    assert desk.kinds == [Event.SPEECH_STARTED, Event.PAUSED, Event.PARTIAL]
    desk.end_of_turn = 1.0
    desk.feed(quiet(20))
    assert desk.kinds[3:] == [Event.PAUSED, Event.FINAL]
    assert desk.events[-1].text == "70"
    assert {event.utterance for event in desk.events} == {1}


def test_a_final_waits_for_a_slow_recogniser() -> None:
    desk = Desk()
    desk.answers_at_once = False
    desk.feed(np.concatenate([loud(40), quiet(RULES.pause_frames)]))
    desk.feed(quiet(60))
    assert desk.kinds == [Event.SPEECH_STARTED]
    desk.answer()
    assert desk.kinds == [Event.SPEECH_STARTED, Event.FINAL]
    assert desk.events[-1].late_samples > 0


def test_answers_about_a_pause_that_is_over_are_ignored() -> None:
    desk = Desk()
    desk.answers_at_once = False
    desk.feed(np.concatenate([loud(40), quiet(4), loud(20)]))
    while desk.waiting:
        desk.answer()
    assert desk.kinds == [Event.SPEECH_STARTED]
    desk.answers_at_once = True
    desk.feed(quiet(20))
    assert desk.events[-1].text == "60"


def test_the_answer_about_an_earlier_pause_is_not_taken_for_this_one() -> None:
    desk = Desk()
    desk.answers_at_once = False
    desk.feed(np.concatenate([loud(40), quiet(4), loud(20), quiet(RULES.pause_frames)]))
    assert len(desk.waiting) == 2
    desk.answer()
    assert desk.kinds == [Event.SPEECH_STARTED]
    desk.answer()
    assert desk.kinds == [Event.SPEECH_STARTED, Event.PAUSED]
    assert desk.events[-1].text == "60"


def test_a_cough_is_discarded() -> None:
    desk = Desk()
    desk.feed(np.concatenate([loud(10, COUGH), quiet(20)]))
    assert desk.kinds == [Event.SPEECH_STARTED, Event.DISCARDED]
    assert desk.listener.idle


def test_a_comma_makes_the_end_less_sure() -> None:
    desk = Desk(end_of_turn=1.0)
    desk.text = "If it rains,"
    desk.feed(np.concatenate([loud(40), quiet(RULES.shortest_wait_frames + 2)]))
    assert desk.kinds[-1] is Event.PAUSED
    desk.feed(quiet(RULES.longest_wait_frames))
    assert desk.kinds[-1] is Event.FINAL


def test_partials_come_while_speaking_and_grow() -> None:
    desk = Desk(interim=True)
    desk.feed(loud(180))
    texts = [int(e.text) for e in desk.events if e.event is Event.PARTIAL]
    assert len(texts) >= 10
    assert texts == sorted(texts)
    first = next(e for e in desk.events if e.event is Event.PARTIAL)
    assert first.at_samples - desk.events[0].at_samples <= SAMPLE_RATE_HZ // 2


def test_a_look_costs_no_more_late_in_a_long_utterance_than_early() -> None:
    desk = Desk(interim=True)
    desk.feed(loud(1800))
    looks = [w for w in desk.asked if isinstance(w, Transcribe) and w.purpose is Purpose.PARTIAL]
    assert max(len(look.pcm) for look in looks) <= WINDOW_SAMPLES + SAMPLE_RATE_HZ
    (words,) = {len(e.text.split()) for e in desk.events[-1:]}
    assert words > 5
    counted = [sum(map(int, e.text.split())) for e in desk.events if e.event is Event.PARTIAL]
    assert counted[-1] >= 1750


def test_a_first_word_that_is_not_understood_is_soon_listened_to_again() -> None:
    desk = Desk(interim=True)
    desk.text = ""
    desk.feed(loud(30))
    asked = [w.end_samples for w in desk.asked if isinstance(w, Transcribe)]
    assert len(asked) >= 5


def test_the_first_words_are_looked_for_even_where_looking_is_dear() -> None:
    desk = Desk(interim=True)
    desk.text, desk.cost_s = "", 0.1
    desk.feed(loud(30))
    asked = [w.end_samples for w in desk.asked if isinstance(w, Transcribe)]
    gaps = np.diff(asked) / SAMPLE_RATE_HZ
    assert gaps.max() < 0.2
    # Something that never turns into words must not keep the recogniser busy.
    desk.feed(loud(150))
    late = [w.end_samples for w in desk.asked if isinstance(w, Transcribe)]
    assert np.diff(late[-4:]).min() > 0.35 * SAMPLE_RATE_HZ


def test_what_is_stable_is_never_taken_back() -> None:
    said = "one two three four five six seven eight nine ten eleven twelve".split()
    desk = Desk(interim=True)
    for n in range(1, len(said) + 1):
        # The last two words of a look are guesses that prove wrong.
        desk.text = " ".join([*said[: max(0, n - 2)], "wrong", "wrong"])
        desk.feed(loud(14))
    desk.text = "zero one " + " ".join(said[2:])
    desk.feed(quiet(20))
    stable = ""
    for event in desk.events:
        assert event.text.startswith(stable)
        if event.event is Event.PARTIAL:
            stable = event.text[: event.stable_characters]
    assert stable.startswith("one two three four five")
    assert desk.events[-1].text == "one two " + " ".join(said[2:])


def test_partials_take_a_bounded_share_of_the_recogniser() -> None:
    desk = Desk(interim=True)
    desk.cost_s = 1.0
    desk.feed(loud(500))
    assert len(desk.asked) <= 5


def test_no_partial_is_asked_for_while_an_answer_is_awaited() -> None:
    desk = Desk(interim=True)
    desk.answers_at_once = False
    desk.feed(loud(300))
    assert len(desk.waiting) == 1


def looks_at_a_fading_question(*, foresight: bool) -> list[Heard]:
    desk = Desk(interim=True, foresight=foresight)
    desk.text = "What is the capital of France?"
    desk.feed(np.concatenate([quiet(20), loud(40)]))
    desk.answers_at_once = False
    desk.feed(np.concatenate([loud(2, level) for level in (0.2, 0.1, 0.06)]))
    return [event for event in desk.events if event.event is Event.PARTIAL]


def test_who_asks_for_foresight_is_told_again_as_the_voice_fades() -> None:
    *looks, again = looks_at_a_fading_question(foresight=True)
    assert all(look.end_of_turn > 0 for look in looks)
    assert again.end_of_turn > looks[-1].end_of_turn + 0.1 and again.text == looks[-1].text


def test_who_does_not_ask_for_foresight_is_told_each_look_once_and_no_probability() -> None:
    looks = looks_at_a_fading_question(foresight=False)
    assert len(looks) == len(looks_at_a_fading_question(foresight=True)) - 1
    assert {look.end_of_turn for look in looks} == {0.0}


def test_a_long_monologue_is_recognised_piecewise_and_whole() -> None:
    desk = Desk(interim=True, end_of_turn=0.0)
    for _ in range(10):
        desk.feed(np.concatenate([loud(200), quiet(10)]))
    desk.end_of_turn = 1.0
    desk.feed(quiet(40))
    final = desk.events[-1]
    assert final.event is Event.FINAL
    assert sum(int(word) for word in final.text.split()) == 2000
    pieces = [work for work in desk.asked if isinstance(work, Transcribe)]
    assert max(len(work.pcm) for work in pieces) <= LONGEST_PIECE_SAMPLES
    starts = [segment.start_samples for segment in final.segments]
    assert starts == sorted(starts)
    assert len(starts) >= 3


def test_speech_without_a_pause_is_cut_too() -> None:
    desk = Desk(interim=True)
    desk.feed(loud(1500))
    desk.feed(quiet(20))
    assert Purpose.SETTLE in {w.purpose for w in desk.asked if isinstance(w, Transcribe)}
    assert sum(int(word) for word in desk.events[-1].text.split()) == 1500


class Reciting(Desk):
    """Each half second of sound is a word, and always the same one."""

    def answer(self) -> None:
        work = self.waiting[0]
        if isinstance(work, Transcribe):
            half_s = SAMPLE_RATE_HZ // 2
            words = range(-(-work.start_samples // half_s), work.end_samples // half_s)
            self.text = " ".join(f"w{word}" for word in words)
        super().answer()


def test_words_behind_a_piece_that_is_left_behind_are_not_said_twice() -> None:
    desk = Reciting(interim=True)
    desk.feed(np.concatenate([loud(530), quiet(2), loud(130), quiet(40)]))
    assert Purpose.SETTLE in {w.purpose for w in desk.asked if isinstance(w, Transcribe)}
    words = desk.events[-1].text.split()
    assert words == sorted(set(words), key=words.index)


def test_a_piece_left_behind_before_its_text_came_is_not_lost() -> None:
    desk = Desk()
    desk.answers_at_once = False
    desk.feed(np.concatenate([loud(500), quiet(5), loud(100), quiet(5)]))
    desk.answers_at_once = True
    while desk.waiting:
        desk.answer()
    desk.feed(quiet(20))
    assert desk.events[-1].text.split() == ["500", "100"]


def test_words_that_were_understood_otherwise_behind_a_pause_cut_no_others() -> None:
    desk = Desk(interim=True, end_of_turn=0.0)
    desk.text = ""
    desk.feed(loud(320))
    desk.text = "We crossed all of it in 2 days."
    desk.feed(np.concatenate([quiet(6), loud(1)]))
    desk.text = "We crossed all of it in two days and then we took the boat back home again"
    desk.feed(loud(60))
    desk.end_of_turn, desk.text = 1.0, "and then we took the boat back home again."
    desk.feed(quiet(40))
    whole = "We crossed all of it in 2 days. and then we took the boat back home again."
    assert desk.events[-1].text == whole


@pytest.mark.parametrize("said", [94, 470])
@pytest.mark.parametrize("understood_late", [False, True])
def test_however_long_a_pause_is_waited_for_a_recogniser_hears_no_more_than_it_takes(
    said: int, understood_late: bool
) -> None:
    desk = Desk(interim=True)
    minute = replace(RULES, silence_frames=60 * SAMPLE_RATE_HZ // FRAME_SAMPLES)
    desk.listener.take_turns_by(minute)
    desk.feed(loud(said))
    desk.answers_at_once = not understood_late
    desk.feed(np.concatenate([quiet(1094), loud(1)]))
    desk.answers_at_once = True
    while desk.waiting:
        desk.answer()
    desk.feed(loud(93))
    desk.take(desk.listener.finish())
    final = desk.events[-1]
    assert final.event is Event.FINAL
    assert sum(map(int, final.text.split())) == said + 94
    assert final.text.startswith(desk.events[-2].text[: desk.events[-2].stable_characters])
    pieces = [len(work.pcm) for work in desk.asked if isinstance(work, Transcribe)]
    assert max(pieces) <= LONGEST_PIECE_SAMPLES


def test_a_click_behind_a_long_pause_is_heard_together_with_what_was_said_before() -> None:
    """Alone, recognisers make words of it."""
    desk = Desk(interim=True)
    minute = replace(RULES, silence_frames=60 * SAMPLE_RATE_HZ // FRAME_SAMPLES)
    desk.listener.take_turns_by(minute)
    desk.feed(np.concatenate([loud(94), quiet(160), loud(1), quiet(160), loud(1), quiet(40)]))
    desk.take(desk.listener.finish())
    assert desk.events[-1].text == "96"


def test_a_stop_within_a_word_does_not_cut_a_long_utterance() -> None:
    desk = Desk(end_of_turn=0.0)
    desk.feed(np.concatenate([loud(450), quiet(2), loud(100)]))
    desk.end_of_turn = 1.0
    desk.feed(quiet(20))
    assert desk.events[-1].text == "550"


def test_an_hour_of_waiting_keeps_little_sound() -> None:
    desk = Desk()
    for _ in range(20):
        desk.feed(quiet(300))
    assert desk.listener.kept_samples < 16_000


def test_the_language_changes_with_the_next_utterance() -> None:
    desk = Desk()
    desk.feed(loud(20))
    desk.listener.language = "zh"
    desk.feed(quiet(20))
    desk.feed(np.concatenate([loud(20), quiet(RULES.longest_wait_frames)]))
    finals = [event for event in desk.events if event.event is Event.FINAL]
    assert [final.language for final in finals] == ["en", "zh"]
    assert [final.utterance for final in finals] == [1, 2]


def test_a_pause_supersedes_a_look_that_waits_and_the_next_look_comes_later() -> None:
    desk = Desk(interim=True)
    desk.answers_at_once = False
    desk.feed(np.concatenate([quiet(10), loud(20), quiet(8)]))
    look = next(work for work in desk.asked if isinstance(work, Transcribe))
    pause = [work for work in desk.asked if isinstance(work, Transcribe)][-1]
    assert (look.purpose, look.urgency.priority) == (Purpose.PARTIAL, Order.PARTIAL)
    assert (pause.purpose, pause.urgency.priority) == (Purpose.PAUSE, Order.PAUSE)
    assert pause.urgency.supersedes == look.urgency.key is not None
    assert pause.urgency.key != look.urgency.key, "no look supersedes what a final is made of"
    desk.listener.passed_over(look)
    desk.waiting.remove(look)
    while desk.waiting:
        desk.answer()
    desk.feed(loud(30))
    looks = [w for w in desk.asked if isinstance(w, Transcribe) and w.purpose is Purpose.PARTIAL]
    assert len(looks) == 2 and looks[1].urgency.key == look.urgency.key


def test_the_text_of_speech_that_was_cut_off_goes_first() -> None:
    desk = Desk()
    desk.answers_at_once = False
    desk.feed(np.concatenate([quiet(10), loud(20)]))
    desk.take(desk.listener.finish())
    work = desk.asked[-1]
    assert isinstance(work, Transcribe) and work.urgency.priority == Order.FINAL


def test_a_pause_whose_text_is_late_is_asked_for_as_a_final_once_it_is_the_end() -> None:
    desk = Desk()
    desk.answers_at_once = False
    desk.feed(np.concatenate([loud(40), quiet(60)]))
    asked = [work for work in desk.waiting if isinstance(work, Transcribe)]
    (pause,) = (work for work in asked if work.urgency.priority == Order.PAUSE)
    assert desk.requeued == [Requeue(pause.urgency.key, Order.FINAL)]


@pytest.mark.parametrize("answered", [0, 1])
def test_what_was_asked_at_a_pause_leaves_the_queue_where_the_visitor_goes_on(
    answered: int,
) -> None:
    desk = Desk(end_of_turn=0.0)
    desk.answers_at_once = False
    desk.feed(np.concatenate([loud(40), quiet(5)]))
    for _ in range(answered):
        desk.answer()  # The recogniser has, the turn detector has not.
    (work,) = desk.waiting
    assert isinstance(work, Judge if answered else Transcribe)
    desk.feed(np.concatenate([quiet(5), loud(3)]))
    assert Requeue(work.urgency.key, None) in desk.requeued
    assert all(requeue.order is None for requeue in desk.requeued)
    for work in desk.waiting:
        if isinstance(work, Transcribe):
            desk.listener.passed_over(work)
    desk.waiting.clear()
    desk.answers_at_once = True
    desk.end_of_turn = 1.0
    desk.feed(np.concatenate([loud(27), quiet(20)]))
    assert desk.events[-1].event is Event.FINAL and desk.events[-1].text == "70"


def test_the_more_speak_at_once_the_fewer_looks_each_gets() -> None:
    def looks(speaking: int) -> int:
        desk = Desk(interim=True)
        desk.cost_s = 0.1
        desk.listener.speaking = speaking
        desk.feed(loud(300))
        return len(desk.asked)

    assert looks(1) == looks(2) > 1.5 * looks(5) > 2 * looks(10) > 2


def test_a_television_far_behind_the_visitor_is_told_of_no_more_once_it_goes_on() -> None:
    desk = Desk()
    desk.text = "words"
    for _ in range(2):
        desk.feed(np.concatenate([quiet(20), loud(60, 0.9), quiet(60)]))
    for _ in range(8):
        desk.feed(np.concatenate([loud(100, 0.14), quiet(20)]))
    before = len(desk.events)
    for _ in range(3):
        desk.feed(np.concatenate([loud(100, 0.14), quiet(20)]))
    assert len(desk.events) == before
    desk.feed(np.concatenate([loud(60, 0.9), quiet(60)]))
    assert desk.kinds[before:] == [Event.SPEECH_STARTED, Event.PAUSED, Event.FINAL]
