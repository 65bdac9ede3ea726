"""Phrases of one sentence: what the voice is told, what is heard between them, and what is kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from services.tts.phrase_cache import PhraseCache
from services.tts.prosody import PLAIN, Prosody
from services.tts.sound import Block
from services.tts.speech_options import SpeechOptions
from services.tts.synthesizer import Answer, SpeechPiece, Synthesizer
from services.tts.text.chunker import Pause, Phrase
from services.tts.text.surroundings import ALONE, Surroundings
from services.tts.voices.joining import MAX_SHIFT_SAMPLES, TAIL_SAMPLES
from tests.tts.fakes import HOPS_PER_WORD, WordVoice

WORD = HOPS_PER_WORD * 300
START = Phrase("The old man", Pause.NONE, " w")
END = Phrase(" went home.", Pause.SENTENCE)


class MinderVoice(WordVoice):
    """Minds what is around a phrase."""

    def speak(
        self, text: str, prosody: Prosody = PLAIN, around: Surroundings = ALONE
    ) -> Iterator[Block]:
        blocks = list(super().speak(text, prosody, around))
        if around.before:
            lead = np.full(MAX_SHIFT_SAMPLES, self.level, np.float32)
            blocks[0] = replace(blocks[0], lead=lead)
        if around.ahead:
            tail = np.full(TAIL_SAMPLES, self.level, np.float32)
            blocks[-1] = replace(blocks[-1], tail=tail)
        yield from blocks


def minders() -> tuple[Synthesizer, dict[str, MinderVoice]]:
    voices = {language: MinderVoice(language) for language in ("en", "zh")}
    return Synthesizer(voices, phrases=PhraseCache(10_000_000)), voices


def said(answer: Answer, *phrases: Phrase) -> list[SpeechPiece]:
    return [piece for phrase in phrases for piece in answer.say(phrase)]


def test_the_voice_is_told_what_is_around_and_nothing_is_heard_in_between() -> None:
    synthesizer, voices = minders()
    answer = synthesizer.answer(SpeechOptions())
    pieces = said(answer, START, END)
    assert voices["en"].told == [Surroundings("", " w"), Surroundings("The old man", "")]
    sound = np.concatenate([piece.voice for piece in pieces])
    assert len(sound) == 5 * WORD
    assert sound.min() == sound.max(), "no dip at the join"
    assert list(answer.finish()) == []


def test_words_end_where_they_did() -> None:
    pieces = said(minders()[0].answer(SpeechOptions()), START, END)
    marks = {mark.chars: mark.samples for piece in pieces for mark in piece.marks}
    assert marks == {3: WORD, 7: 2 * WORD, 11: 3 * WORD, 16: 4 * WORD, 22: 5 * WORD}


def test_a_third_phrase_is_told_of_both_before_and_a_new_sentence_of_none() -> None:
    synthesizer, voices = minders()
    middle = Phrase(" went", Pause.NONE, " h")
    rest = (Phrase(" home.", Pause.SENTENCE), Phrase(" He", Pause.NONE, " s"))
    said(synthesizer.answer(SpeechOptions()), START, middle, *rest)
    before = [told.before for told in voices["en"].told]
    assert before == ["", "The old man", "The old man went", ""]


def test_chinese_words_before_have_no_blank_between_them() -> None:
    synthesizer, voices = minders()
    parts = [Phrase("世界上最大", Pause.NONE, "的动"), Phrase("的动物", Pause.NONE, "是狮")]
    said(synthesizer.answer(SpeechOptions()), *parts, Phrase("是狮子。", Pause.SENTENCE))
    assert voices["zh"].told[-1].before == "世界上最大的动物"


def test_another_voice_is_not_told_what_it_did_not_say() -> None:
    synthesizer, voices = minders()
    answer = synthesizer.answer(SpeechOptions())
    pieces = said(answer, START, Phrase("世界。", Pause.SENTENCE))
    assert voices["zh"].told == [ALONE]
    assert any(span.symbol == "sil" for piece in pieces for span in piece.phonemes)


def test_where_the_text_ends_after_all_the_sound_dies_away() -> None:
    answer = minders()[0].answer(SpeechOptions())
    said(answer, START, Phrase(" ", Pause.SENTENCE))
    (rest,) = answer.finish()
    assert rest.pts_samples == 3 * WORD
    assert abs(int(rest.voice[-1])) < 10
    assert answer.produced_samples == 3 * WORD + len(rest.voice)


def test_a_prerendered_sentence_is_found_with_what_is_around_its_phrases() -> None:
    synthesizer, voices = minders()
    ahead = synthesizer.answer(SpeechOptions())
    for phrase in (START, END):
        assert list(ahead.prerender(phrase))
    voices["en"].told.clear()
    kept = said(synthesizer.answer(SpeechOptions()), START, END)
    assert voices["en"].told == []
    fresh = said(minders()[0].answer(SpeechOptions()), START, END)
    for one, other in zip(kept, fresh, strict=True):
        np.testing.assert_array_equal(one.voice, other.voice)
    said(synthesizer.answer(SpeechOptions()), END)
    assert voices["en"].told == [ALONE], "by itself it sounds otherwise"
