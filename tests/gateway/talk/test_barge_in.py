"""What the microphone's level says of a sound over the answer, and what is measured."""

from __future__ import annotations

import numpy as np
import pytest

from gateway.talk.actions import PauseTurn, ResumeTurn
from gateway.talk.conversation import Conversation
from gateway.talk.interruption import Interruption
from gateway.talk.microphone import level_of
from gateway.talk.speech_over import BargeIn, Verdict
from tests.fakes import MetricGrowth
from tests.gateway.playout.test_playout import H264, playout, run, speak

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


@pytest.mark.parametrize(
    ("levels", "onset", "told_after", "stops_at"),
    [
        pytest.param([1.0] * 20, 0, 5, 10, id="it lasts"),
        pytest.param([1.0] * 8 + [0.01] * 3 + [1.0] * 10, 0, 5, 10, id="a consonant's closure"),
        pytest.param([1.0] * 13 + [0.01] * 20, 0, 20, 20, id="a short word, told late"),
        pytest.param([1.0] * 5 + [0.01] * 10 + [0.8] * 3, 0, 5, 15, id="it comes back"),
        pytest.param([1.0] * 20 + [0.2] * 15, 20, 5, 30, id="a loud past is not counted"),
    ],
)
def test_a_voice_is_one_after_200_ms(
    levels: list[float], onset: int, told_after: int, stops_at: int
) -> None:
    verdicts = heard(BargeIn(after_s=0.2), levels, onset, told_after)
    assert verdicts.index(Verdict.VOICE) == stops_at


@pytest.mark.parametrize(("length", "told_after"), [(3, 5), (5, 5), (6, 5), (5, 20)])
def test_a_cough_is_none(length: int, told_after: int) -> None:
    cough = [1.0] * length + [0.1 * 0.6**i for i in range(30)]
    assert Verdict.VOICE not in heard(BargeIn(after_s=0.2), cough, told_after=told_after)


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


def test_what_is_none_is_not_measured_and_speech_is_from_its_first_sample() -> None:
    scene = Scene()
    count, seconds = (MetricGrowth(f"barge_in_to_silence_seconds_{of}") for of in ("count", "sum"))
    went_on = MetricGrowth("false_interruptions_total", given="paused")
    scene.speech(scene.now - 0.1)
    scene.pass_ticks(10)
    assert scene.playout.paused
    scene.perform(scene.talk.discarded(1, scene.now))
    scene.pass_ticks(20)
    assert not scene.playout.paused and went_on.value == 1
    scene.speech(scene.now - 0.1)
    scene.pass_ticks(10)
    assert count.value == 0, "this may yet be nothing, too"
    scene.talk.partial(1, "Stop it")
    scene.interruption.void("speech", scene.now)
    scene.playout.void(2)
    scene.pass_ticks(1)
    assert count.value == 1 and seconds.value == pytest.approx(0.22)


def test_speech_that_is_told_again_has_not_come_after_the_silence_it_made() -> None:
    scene = Scene()
    seconds = MetricGrowth("barge_in_to_silence_seconds_sum")
    scene.speech(scene.now - 0.1)
    scene.pass_ticks(10)
    scene.perform(scene.talk.stage_lost("asr", "gone", scene.now))
    scene.pass_ticks(90)
    assert scene.playout.paused
    scene.speech(scene.now - 1.9)
    scene.interruption.void("speech", scene.now)
    scene.playout.void(2)
    scene.pass_ticks(1)
    assert seconds.value == pytest.approx(0.22)
