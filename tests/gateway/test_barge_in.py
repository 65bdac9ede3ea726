"""What the microphone's level says of a sound over the answer, and what is measured."""

from __future__ import annotations

import numpy as np
import pytest

from gateway import metrics
from gateway.talk.actions import PauseTurn, ResumeTurn
from gateway.talk.conversation import Conversation
from gateway.talk.interruption import Interruption
from gateway.talk.microphone import level_of
from gateway.talk.speech_over import BargeIn, Verdict
from tests.gateway.test_playout import H264, playout, run, speak

CHUNK_S = 0.02


def heard(
    judge: BargeIn, levels: list[float], onset: int = 0, told_after: int = 5
) -> list[Verdict]:
    """A verdict after each 20 ms of these levels; the VAD tells so much after chunk `onset`."""
    verdicts = []
    for index, level in enumerate(levels):
        now = index * CHUNK_S
        pcm = np.full(320, round(level * 10_000), np.int16)
        judge.hear(pcm, level_of(pcm), now)
        if index == onset + told_after:
            judge.speech_began(onset * CHUNK_S)
        verdicts.append(judge.verdict(now))
    return verdicts


def test_a_voice_that_lasts_is_one_after_200_ms() -> None:
    verdicts = heard(BargeIn(after_s=0.2), [1.0] * 20)
    assert verdicts.index(Verdict.VOICE) == 10


@pytest.mark.parametrize("length", [3, 5, 6])
def test_a_cough_is_none(length: int) -> None:
    decay = [0.1 * 0.6**i for i in range(30)]
    assert Verdict.VOICE not in heard(BargeIn(after_s=0.2), [1.0] * length + decay)


def test_the_closure_of_a_consonant_is_no_end() -> None:
    verdicts = heard(BargeIn(after_s=0.2), [1.0] * 8 + [0.01] * 3 + [1.0] * 10)
    assert verdicts.index(Verdict.VOICE) == 10


def test_a_short_word_that_is_told_late_is_one() -> None:
    word = [1.0] * 13 + [0.01] * 20
    assert heard(BargeIn(after_s=0.2), word, told_after=20).index(Verdict.VOICE) == 20


def test_a_cough_that_is_told_late_is_none() -> None:
    cough = [1.0] * 5 + [0.01] * 25
    assert Verdict.VOICE not in heard(BargeIn(after_s=0.2), cough, told_after=20)


def test_a_voice_that_comes_back_is_one() -> None:
    verdicts = heard(BargeIn(after_s=0.2), [1.0] * 5 + [0.01] * 10 + [0.8] * 3)
    assert verdicts.index(Verdict.VOICE) == 15


def test_a_loud_past_is_not_counted() -> None:
    verdicts = heard(BargeIn(after_s=0.2), [1.0] * 20 + [0.2] * 15, onset=20)
    assert verdicts.index(Verdict.VOICE) == 30


def test_without_a_microphone_the_vad_is_believed() -> None:
    judge = BargeIn(after_s=0.2)
    judge.speech_began(1.0)
    assert judge.verdict(1.1) is Verdict.OPEN
    assert judge.verdict(1.2) is Verdict.VOICE
    judge.speech_known()
    assert judge.verdict(9.0) is Verdict.OPEN


# ------------------------------------------------------------ the measurement


class Scene:
    """An answer is being heard; time runs with the playout's ticks."""

    def __init__(self) -> None:
        self.now = 10.0
        self.playout = playout(H264)
        self.talk = Conversation()
        self.interruption = Interruption("s", self.playout, BargeIn(after_s=0.2))
        self.talk.submit_text("Hi.", self.now)
        self.playout.open_turn(1)
        speak(self.playout, 1, 100)
        run(self.playout, 5)
        self.talk.started(1)

    def pass_ticks(self, count: int) -> None:
        for _ in range(count):
            tick = self.playout.tick()
            self.now += CHUNK_S
            self.perform(self.interruption.tick(tick.pcm, self.talk, self.now))

    def perform(self, actions: object) -> None:
        for action in actions:  # type: ignore[attr-defined]
            if isinstance(action, PauseTurn | ResumeTurn):
                self.interruption.carry_out(action, self.now)

    def speech(self, onset_s: float) -> None:
        self.interruption.speech_began(onset_s, self.now)
        self.perform(self.talk.speech_started(1, self.now))


def observed() -> tuple[float, float]:
    """How many interruptions were measured, and the seconds of all."""
    (samples,) = metrics.barge_in_to_silence_seconds.collect()
    found = {s.name.rpartition("_")[2]: s.value for s in samples.samples}
    return found["count"], found["sum"]


def test_silence_is_measured_from_the_first_sample_of_the_speech() -> None:
    scene, (count, seconds) = Scene(), observed()
    scene.speech(scene.now - 0.1)
    scene.pass_ticks(10)
    assert scene.playout.paused
    assert observed() == (count, seconds)  # it may yet be nothing
    scene.talk.partial(1, "Stop it")
    scene.interruption.void("speech", scene.now)
    scene.playout.void(2)
    scene.pass_ticks(1)
    assert observed()[0] == count + 1
    assert observed()[1] - seconds == pytest.approx(0.22)


def test_a_false_interruption_is_not_measured() -> None:
    scene, before = Scene(), observed()
    given = metrics.false_interruptions.labels("paused")
    paused = given._value.get()
    scene.speech(scene.now - 0.1)
    scene.pass_ticks(10)
    scene.perform(scene.talk.discarded(1, scene.now))
    scene.pass_ticks(20)
    assert observed() == before and not scene.playout.paused
    assert given._value.get() == paused + 1


def test_an_earlier_false_interruption_does_not_count_for_a_later_one() -> None:
    scene = Scene()
    scene.speech(scene.now - 0.1)
    scene.pass_ticks(10)
    scene.perform(scene.talk.discarded(1, scene.now))
    scene.pass_ticks(20)
    _, seconds = observed()
    scene.speech(scene.now - 0.1)
    scene.pass_ticks(10)
    scene.interruption.void("speech", scene.now)
    scene.playout.void(2)
    scene.pass_ticks(1)
    assert observed()[1] - seconds == pytest.approx(0.22)
