"""Our own voice in the microphone, with real speech: the room's echo, and a visitor over it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import soxr

from gateway.playout.playout import Playout
from gateway.talk.actions import Action, DuckTurn, PauseTurn, ResumeTurn
from gateway.talk.conversation import Conversation
from gateway.talk.echo import EchoGuard, Likeness
from gateway.talk.interruption import Interruption
from gateway.talk.microphone import level_of
from gateway.talk.speech_over import BargeIn, Verdict
from visavis.tools.bench.visitor.clips import read_mono

CLIPS = Path(__file__).parents[2] / "clips"
TICK_S = 0.02


def leveled(name: str, rate_hz: int, level: float) -> np.ndarray:
    """A clip with this effective amplitude: [N] float64."""
    pcm = read_mono(CLIPS / name, rate_hz).astype(np.float64)
    return np.asarray(pcm * level / np.sqrt(np.mean(pcm**2)))


@pytest.fixture(scope="module")
def answer() -> np.ndarray:
    """What the avatar says: 3.5 s at 48 kHz."""
    voice = np.clip(leveled("two_cities_01.wav", 48_000, 1700), -32768, 32767)
    return voice[: len(voice) // 960 * 960].astype(np.int16)


@pytest.fixture(scope="module")
def visitor() -> np.ndarray:
    return leveled("jfk.wav", 16_000, 1700)[6_000:]


def microphone(answer: np.ndarray, *, echo_db: float, delay_ms: int) -> np.ndarray:
    """What comes back of `answer` through a small room, and a little noise. [N] float64."""
    draws = np.random.default_rng(1)
    room = draws.normal(size=1600) * np.exp(-np.arange(1600) / 300)
    room[0] = 6
    dry = soxr.resample(answer.astype(np.float64), 48_000, 16_000)
    wet = np.convolve(dry, room / np.sqrt(np.sum(room**2)))[: len(dry)] * 10 ** (echo_db / 20)
    late = np.concatenate([np.zeros(16 * delay_ms), wet])[: len(wet)]
    return np.asarray(late + draws.normal(size=len(late)) * 15)


def likenesses(answer: np.ndarray, mic: np.ndarray, every: int = 5) -> list[Likeness]:
    """Every so many ticks, once there is a second of it."""
    guard, found = EchoGuard(), []
    for tick in range(len(mic) // 320):
        guard.play(answer[960 * tick : 960 * (tick + 1)])
        guard.hear(np.clip(mic[320 * tick : 320 * (tick + 1)], -32768, 32767).astype(np.int16))
        if tick % every == 0 and (likeness := guard.likeness(0.2)) is not None:
            found.append(likeness)
    return found


@pytest.mark.parametrize(("echo_db", "delay_ms"), [(-6, 500), (-12, 0), (-20, 150)])
def test_an_echo_is_known_for_one(answer: np.ndarray, echo_db: float, delay_ms: int) -> None:
    found = likenesses(answer, microphone(answer, echo_db=echo_db, delay_ms=delay_ms))
    assert len(found) > 10
    assert np.mean([likeness.is_echo for likeness in found]) >= 0.9
    delay_s = float(np.median([likeness.delay_s for likeness in found]))
    assert delay_s == pytest.approx(delay_ms / 1000, abs=0.02)


@pytest.fixture(scope="module")
def phrases(answer: np.ndarray) -> np.ndarray:
    """What the avatar says, in phrases of 1 s with 0.7 s of silence behind each. 48 kHz."""
    silence = np.zeros(round(0.7 * 48_000), np.int16)
    pieces = [answer[start : start + 48_000] for start in range(0, 3 * 48_000, 48_000)]
    return np.concatenate([sound for piece in pieces for sound in (piece, silence)])


def test_the_first_word_behind_a_silence_is_an_echo(phrases: np.ndarray) -> None:
    mic = microphone(phrases, echo_db=-6, delay_ms=120)
    assert all(likeness.is_echo for likeness in likenesses(phrases, mic, every=3))


def test_a_visitor_is_heard_where_the_echo_is_known(
    phrases: np.ndarray, visitor: np.ndarray
) -> None:
    mic = microphone(phrases, echo_db=-12, delay_ms=120)
    starts_s = 3.4
    start = round(starts_s * 16_000)
    mic[start:] += visitor[: len(mic) - start]
    found = likenesses(phrases, mic, every=3)
    over = found[-round((len(mic) / 16_000 - starts_s - 0.2) / 0.06) :]
    assert np.mean([likeness.is_echo for likeness in over]) < 0.3


def test_a_visitor_is_no_echo(answer: np.ndarray, visitor: np.ndarray) -> None:
    mic = visitor[: len(answer) // 3]
    found = likenesses(answer, mic)
    assert np.mean([likeness.is_echo for likeness in found]) < 0.05


def test_an_echo_is_alike_and_no_louder_than_what_was_played() -> None:
    assert Likeness(0.9, 2.0, 0.1).is_echo
    assert not Likeness(0.9, 9.0, 0.1).is_echo
    assert not Likeness(0.3, 2.0, 0.1).is_echo


def test_one_odd_look_does_not_make_an_echo_a_voice(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = [True, True, False, True, False, False, False, False]
    monkeypatch.setattr(
        EchoGuard, "likeness", lambda *_: Likeness(0.9 if looks.pop(0) else 0.1, 0.0, 0.1)
    )
    judge, verdicts = BargeIn(0.18), []
    judge.speech_began(0.0)
    for index in range(8):
        judge.hear(np.full(320, 1000, np.int16), 1000.0, 0.2 + 0.06 * index)
        verdicts.append(judge.verdict(0.2 + 0.06 * index))
    assert verdicts == [Verdict.ECHO] * 5 + [Verdict.VOICE] * 3


@pytest.mark.parametrize("later_s", [0.1, 0.3])
def test_who_speaks_as_an_answer_begins_is_known_by_how_little_came_back_of_the_last(
    answer: np.ndarray, visitor: np.ndarray, later_s: float
) -> None:
    """Both have begun, and are alike in that."""
    judge, rest = BargeIn(0.14), np.zeros(2 * 48_000, np.int16)
    began_s = (2 * len(rest) + len(answer)) / 48_000
    voice = np.concatenate([rest, answer, rest, answer])
    mic = np.random.default_rng(1).normal(size=len(voice) // 3) * 15
    start = round((began_s + later_s) * 16_000)
    mic[start:] += visitor[: len(mic) - start]
    told, stopped_s = False, float("inf")
    for tick in range(len(mic) // 320):
        now = (tick + 1) * TICK_S
        pcm = mic[320 * tick : 320 * (tick + 1)].astype(np.int16)
        judge.hear(pcm, level_of(pcm), now)
        judge.play(voice[960 * tick : 960 * (tick + 1)])
        if not told and now < began_s + later_s + 0.1:
            judge.nobody_speaks(now)
            continue
        if not told:
            judge.speech_began(began_s + later_s)
        told = True
        if judge.verdict(now) is Verdict.VOICE:
            stopped_s = now
            break
    assert stopped_s - (began_s + later_s) < 0.22


def test_silence_is_nothing() -> None:
    guard = EchoGuard()
    assert guard.likeness(0.2) is None
    for _ in range(200):
        guard.play(np.zeros(960, np.int16))
        guard.hear(np.zeros(320, np.int16))
    assert guard.likeness(0.2) is None


# ------------------------------------------------------------ in the conversation


def answering(text: str) -> Conversation:
    """In which this is being said."""
    talk = Conversation()
    talk.submit_text("Tell me.", 0)
    talk.token(1, text, last=True, now=0)
    talk.started(1)
    return talk


class Room:
    """An avatar that speaks, and what its microphone hears. The VAD marks whatever is loud."""

    def __init__(self, answer: np.ndarray) -> None:
        self.now = 0.0
        self.talk = answering("It was the best of times, it was the worst.")
        self.playout = Playout()
        self.interruption = Interruption("s", self.playout, BargeIn(0.18))
        self.did: list[tuple[float, Action]] = []
        self.playout.open_turn(1)
        self.playout.push_voice(1, answer, last=True)

    def run(self, mic: np.ndarray, *, speech_at_s: float) -> None:
        for tick in range(len(mic) // 320):
            self.now += TICK_S
            sound = mic[320 * tick : 320 * (tick + 1)]
            pcm = np.clip(sound, -32768, 32767).astype(np.int16)
            self.interruption.hear(pcm, level_of(pcm), self.now)
            if tick == round((speech_at_s + 0.1) / TICK_S):
                self.interruption.speech_began(speech_at_s, self.now)
                self.perform(self.talk.speech_started(1, self.now))
                self.perform(self.interruption.judge(self.talk, self.now))
            out = self.playout.tick()
            self.talk.played(1, self.playout.played_samples / 48_000, self.now)
            self.perform(self.interruption.tick(out.pcm, self.talk, self.now))

    def perform(self, actions: Sequence[Action]) -> None:
        for action in actions:
            self.did.append((self.now, action))
            if isinstance(action, DuckTurn | PauseTurn | ResumeTurn):
                self.interruption.carry_out(action, self.now)


def test_the_avatar_does_not_interrupt_itself(answer: np.ndarray) -> None:
    room = Room(answer)
    room.run(microphone(answer, echo_db=-10, delay_ms=120), speech_at_s=1.9)
    assert [type(action) for _, action in room.did] == [DuckTurn, ResumeTurn]
    assert room.did[0][0] == room.did[1][0]  # nobody has heard that
    assert room.talk.doubt is not None and room.talk.doubt.echo
    text = "It was the best of times."
    assert room.talk.paused(1, text, 0.9, room.now) == [ResumeTurn(1, room.talk.turn.resume_s())]  # type: ignore[union-attr]
    room.talk.final(1, text, room.now)
    assert room.talk.turn is not None and room.talk.state == "speaking"


def test_a_visitor_stops_it_over_its_own_echo(answer: np.ndarray, visitor: np.ndarray) -> None:
    room = Room(answer)
    mic = microphone(answer, echo_db=-12, delay_ms=120)
    spoken_s = 1.9
    start = round(spoken_s * 16_000)
    mic[start:] += visitor[: len(mic) - start]
    room.run(mic, speech_at_s=spoken_s - 0.2)  # the echo is the utterance's beginning
    paused_s = [at_s for at_s, action in room.did if isinstance(action, PauseTurn)]
    assert len(paused_s) == 1 and paused_s[0] - spoken_s < 0.5
    room.talk.partial(1, "It was the best of times. And so my fellow")
    assert room.talk.turn is None
    room.talk.final(1, "It was the best of times. And so my fellow Americans.", room.now)
    assert room.talk.turn is not None
    assert room.talk.turn.question == "And so my fellow Americans."


def test_what_a_recogniser_makes_up_of_an_echo_ends_nothing_before_a_pause() -> None:
    talk = answering("Dig a hole twice as wide as its roots.")
    talk.speech_started(1, 2.0)
    talk.echo_heard(2.1)
    talk.partial(1, "I think I am going to be a little more")
    assert talk.turn is not None
    talk.voice_persists()
    talk.partial(1, "I think I am going to be a little more")
    assert talk.turn is None


@pytest.mark.parametrize("hum", ["Mm-hm.", ""])
def test_a_hum_made_of_an_echo_does_not_hide_who_speaks_over_it(hum: str) -> None:
    talk = answering("Rivers carry stones down from the mountains.")
    talk.speech_started(1, 0.3)
    talk.echo_heard(0.4)
    talk.partial(1, hum)
    assert talk.voice_persists() != []
    talk.partial(1, "Rivers carry stones")
    talk.partial(1, "Rivers carry stones. Stop talking")
    assert talk.turn is None


@pytest.mark.parametrize("told_s", [10.3, 14.0])
def test_the_tail_of_an_answer_is_not_answered(told_s: float) -> None:
    """Nor where it is told late, by a recogniser that came in another's place."""
    talk = answering("It was the best of times, it was the worst.")
    talk.finished(1, 10.0)
    talk.speech_started(1, told_s, 10.3)
    talk.echo_heard(10.4)
    assert talk.paused(1, "was the worst", 0.9, 10.5) == []
    talk.final(1, "was the worst", 11)
    assert talk.turn is None
    talk.speech_started(2, 12.0)
    talk.final(2, "it was the worst of all times", 13)
    assert talk.turn is not None
