"""What a simulation reads from sound, and what it concludes."""

from __future__ import annotations

from io import BytesIO

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from visavis.serving.errors import InvalidInputError
from visavis.tools.bench.load.exchange import Exchange
from visavis.tools.bench.load.ledger import Line
from visavis.tools.bench.simulate.client import UNCLEAR, Ear
from visavis.tools.bench.simulate.command import batches_of, numbers_of
from visavis.tools.bench.simulate.heard import Heard, judge_heard
from visavis.tools.bench.simulate.words import (
    GAP_S,
    MOST_VISITORS,
    NUMBERS,
    WORD_S,
    answer_pairs,
    answer_text,
    asked_in,
    asked_sound,
    question_of,
    read_sound,
    read_word,
    tones,
    understood,
    word_of,
)
from visavis.tools.bench.visitor.media import HeardSound

RATE_HZ = 24_000
WORDS = 12


def spoken(pairs: list[tuple[int, int]], rate_hz: int = RATE_HZ) -> NDArray[np.float32]:
    gap = np.zeros(round(GAP_S * rate_hz), np.float32)
    return np.concatenate([part for p in pairs for part in (tones(p, rate_hz, WORD_S), gap)])


def through_aac(pcm: NDArray[np.float32]) -> NDArray[np.float32]:
    """As a viewer's mp4 carries it."""
    file = BytesIO()
    with av.open(file, "w", format="adts") as out:
        stream = out.add_stream("aac", rate=RATE_HZ, layout="mono")
        frame = av.AudioFrame.from_ndarray(pcm[None], format="fltp", layout="mono")
        frame.sample_rate = RATE_HZ
        out.mux([*stream.encode(frame), *stream.encode(None)])
    file.seek(0)
    with av.open(file) as back:
        return np.concatenate([f.to_ndarray()[0] for f in back.decode(audio=0)])


def test_every_word_can_be_read_back_as_text() -> None:
    pairs = [(a, b) for a in range(NUMBERS) for b in range(NUMBERS)]
    assert [read_word(word_of(pair)) for pair in pairs] == pairs
    assert [read_word(word) for word in ("about", "zaveka", "Question", "today?")] == 4 * [None]


@pytest.mark.parametrize("visitor", [0, 77, MOST_VISITORS - 1])
def test_a_question_is_understood_by_its_sound(visitor: int) -> None:
    sound = asked_sound(visitor, 9, 16_000)
    text = understood([word.pair for word in read_sound(sound, 16_000)])
    assert text == question_of(visitor, 9)
    assert asked_in(f"Please begin with the word zaveka. Question 3: {text}") == (visitor, 9)
    assert asked_in(understood([w.pair for w in read_sound(sound[:16_000], 16_000)])) is None


def test_no_two_questions_in_a_row_share_a_word_of_their_answers() -> None:
    answers = [set(answer_pairs(3, number, WORDS)) for number in range(8)]
    assert len(set.union(*answers)) == sum(map(len, answers))
    assert [read_word(w) for w in answer_text(answer_pairs(3, 5, WORDS)).split()] == answer_pairs(
        3, 5, WORDS
    )


def test_an_ear_reads_words_as_they_come_through_the_sound_coder() -> None:
    random = np.random.default_rng(0)
    pairs = [(int(a), int(b)) for a, b in random.integers(0, NUMBERS, (20, 2))]
    pcm = np.rint(through_aac(spoken(pairs)) * 32767).astype(np.int16)
    found: list[str] = []
    ear = Ear(found.append)
    silence = np.zeros(1024, np.int16)
    for start in range(0, len(pcm) + 8 * 1024, 1024):
        chunk = pcm[start : start + 1024]
        ear.hear(HeardSound(0.0, 0.0, chunk if len(chunk) else silence, RATE_HZ))
    assert found == [word_of(pair) for pair in pairs]


def test_half_a_word_is_not_taken_for_one() -> None:
    found: list[str] = []
    ear = Ear(found.append)
    cut = spoken([(1, 2)])[: round(0.08 * RATE_HZ)]
    pcm = np.concatenate([cut, np.zeros(RATE_HZ // 4, np.float32)])
    for part in np.split(np.rint(pcm * 32767).astype(np.int16), 10):
        ear.hear(HeardSound(0.0, 0.0, part, RATE_HZ))
    assert found == [UNCLEAR]


def verdict(*heard: tuple[int, int], outcome: str = "answered") -> Heard:
    """Of visitor 3, who asked two questions and heard all of the first answer, and this."""
    lines = [Line(3, 0.0, "typed", 1, question_of(3, 0))]
    lines += [Line(3, 1.0, "heard", 0, word_of(pair)) for pair in answer_pairs(3, 0, WORDS)]
    lines += [Line(3, 2.0, "spoken", 0, question_of(3, 1))]
    lines += [Line(3, 3.0, "heard", 0, word_of(pair)) for pair in heard]
    exchanges = [
        Exchange(3, 0, False, False, 0.0, "answered"),
        Exchange(3, 1, True, False, 2.0, outcome),  # type: ignore[arg-type]
    ]
    return judge_heard(lines, exchanges, WORDS)


def test_words_that_are_lost_repeated_or_anothers_are_found() -> None:
    whole = answer_pairs(3, 1, WORDS)
    assert verdict(*whole).perfect
    lost = verdict(*whole[:4], *whole[5:])
    assert (lost.lost, lost.repeated, lost.whole, lost.answers) == (1, 0, 1, 2)
    repeated = verdict(*whole, whole[2])
    assert (repeated.lost, repeated.repeated) == (0, 1)
    foreign = verdict(*whole, (4, whole[0][1]))
    assert (foreign.foreign, foreign.lost, foreign.perfect) == (1, 0, False)
    old = verdict(*whole, answer_pairs(3, 6, WORDS)[0])
    assert old.foreign == 1


def test_an_interrupted_answer_need_not_be_whole_but_has_no_holes() -> None:
    whole = answer_pairs(3, 1, WORDS)
    assert verdict(*whole[:5], outcome="interrupted").perfect
    assert verdict(*whole[:3], *whole[4:6], outcome="interrupted").lost == 1


def test_options_are_read() -> None:
    assert numbers_of("sessions", "4,8", int) == [4, 8]
    assert numbers_of("sessions", "0", int, least=0) == [0], "none but those who only watch"
    assert batches_of("1:280,4:320") == ((1, 280.0), (4, 320.0))
    for text in ("", "2:1", "1:1,1:2", "1:3,4:2", "1"):
        with pytest.raises(InvalidInputError):
            batches_of(text)
    for text in ("0.5", "nan", "inf"):
        with pytest.raises(InvalidInputError):
            numbers_of("dilation", text, float)
