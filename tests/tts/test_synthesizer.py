"""One answer's clock, pauses, options: with a voice that needs no weights."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from services.tts.sound import HOP_SAMPLES
from services.tts.speech_options import SpeechOptions
from services.tts.synthesizer import SpeechPiece
from services.tts.text.chunker import Pause, Phrase
from tests.tts.fakes import HOPS_PER_WORD, word_synthesizer


def spoken(text: str, **options: object) -> list[SpeechPiece]:
    return list(word_synthesizer()[0].speak(text, **options))  # type: ignore[arg-type]


def test_voice_mel_and_phonemes_share_one_clock() -> None:
    pieces = spoken("Hello there. How are you today? Fine!")
    pts = 0
    for piece in pieces:
        assert piece.pts_samples == pts
        assert piece.pts_hops * HOP_SAMPLES == pts
        assert len(piece.voice) == len(piece.mel) * HOP_SAMPLES
        assert all(pts <= span.start_samples < pts + len(piece.voice) for span in piece.phonemes)
        pts += len(piece.voice)
    spans = [span for piece in pieces for span in piece.phonemes]
    for before, after in itertools.pairwise(spans):
        assert before.start_samples + before.duration_samples == after.start_samples
    assert spans[-1].start_samples + spans[-1].duration_samples == pts


def test_pieces_are_a_quarter_second_and_the_first_is_small() -> None:
    pieces = spoken("one two three four five six")
    assert len(pieces[0].voice) < 0.11 * 24_000
    assert max(len(piece.voice) for piece in pieces) <= 6_000


def test_pauses_between_phrases_are_silence_and_grow_with_the_ending() -> None:
    synthesizer, _ = word_synthesizer()
    lengths = []
    for pause in Pause:
        answer = synthesizer.answer(SpeechOptions())
        pieces = [*answer.say(Phrase("one", pause)), *answer.say(Phrase("two", Pause.SENTENCE))]
        quiet = [p for p in pieces if any(span.symbol == "sil" for span in p.phonemes)]
        assert not any(piece.voice[:300].any() for piece in quiet)
        lengths.append(answer.produced_samples - 2 * HOPS_PER_WORD * HOP_SAMPLES)
    assert lengths == sorted(set(lengths))
    assert lengths[0] > 0


def test_unspeakable_phrase_is_skipped_but_its_pause_counts() -> None:
    synthesizer, _ = word_synthesizer()
    answer = synthesizer.answer(SpeechOptions())
    assert [*answer.say(Phrase("😀 ...", Pause.PARAGRAPH))] == []
    assert answer.produced_samples == 0
    assert next(answer.say(Phrase("one", Pause.CLAUSE))).pts_samples == 0


def test_each_script_goes_to_its_voice() -> None:
    synthesizer, voices = word_synthesizer()
    assert list(synthesizer.speak("我用 Python 写程序。", language="en", voice="heart"))
    assert voices["zh"].heard == ["我用 ", "写程序。"]
    assert voices["en"].heard == ["Python "]


def test_what_no_voice_can_read_is_told_once_and_no_silence() -> None:
    synthesizer, voices = word_synthesizer()
    for language in ("en", "zh"):
        assert list(synthesizer.speak("½!\nمرحبا! שלום. مرحبا", language=language))
    assert voices["en"].heard == ["½!", "I can write this, but not say it."]
    assert voices["zh"].heard == ["½!", "这些文字我会写，但念不出来。"]


def test_language_decides_only_where_the_script_does_not() -> None:
    synthesizer, voices = word_synthesizer()
    for language in ("zh-CN", "en-GB", ""):
        list(synthesizer.speak("42", language=language))
    list(synthesizer.speak("42", voice="baker"))
    assert len(voices["zh"].heard) == 2
    assert len(voices["en"].heard) == 2


def test_volume_and_speed() -> None:
    normal, quiet, loud = (spoken("one", volume=volume)[0].voice for volume in (1.0, 0.0, 2.0))
    assert not quiet.any()
    assert loud.max() == pytest.approx(2 * normal.max(), rel=0.01)
    slow, fast = (sum(len(p.voice) for p in spoken("a b c", speed=s)) for s in (0.5, 2.0))
    assert slow == pytest.approx(4 * fast, rel=0.1)


def test_loud_voice_does_not_wrap_around() -> None:
    synthesizer, _ = word_synthesizer(level=0.9)
    voice = np.concatenate([p.voice for p in synthesizer.speak("one", volume=2.0)])
    assert voice.min() > 0
