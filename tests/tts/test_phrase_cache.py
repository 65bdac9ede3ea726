"""Prerendered phrases: what is kept, what makes room, and that a hit sounds like a miss."""

from __future__ import annotations

import numpy as np
import pytest

from services.tts.phrase_cache import PhraseCache, PhraseKey
from services.tts.sound import Block, silence
from services.tts.speech_options import SpeechOptions
from services.tts.synthesizer import SpeechPiece, Synthesizer
from services.tts.text.chunker import Pause, Phrase
from tests.tts.fakes import WordVoice, word_synthesizer
from tests.tts.test_servicer import serving
from visavis.v1 import tts_pb2

HELLO = Phrase("Hello **there**.", Pause.SENTENCE)


def key(text: str) -> PhraseKey:
    return PhraseKey(text, "en", "heart", 1.0)


def blocks(hops: int) -> list[Block]:
    return [silence(hops)]


def prerendered(**options: object) -> tuple[Synthesizer, WordVoice]:
    synthesizer, voices = word_synthesizer()
    list(synthesizer.answer(SpeechOptions(**options)).prerender(HELLO))  # type: ignore[arg-type]
    return synthesizer, voices["en"]


def speech(synthesizer: Synthesizer, phrase: Phrase, **options: object) -> list[SpeechPiece]:
    return list(synthesizer.answer(SpeechOptions(**options)).say(phrase))  # type: ignore[arg-type]


def test_a_prerendered_phrase_is_spoken_without_synthesis_and_sounds_the_same() -> None:
    synthesizer, voice = prerendered()
    voice.heard.clear()
    kept = speech(synthesizer, HELLO)
    assert voice.heard == []
    fresh = speech(word_synthesizer()[0], HELLO)
    assert [p.pts_samples for p in kept] == [p.pts_samples for p in fresh]
    assert [p.phonemes for p in kept] == [p.phonemes for p in fresh]
    for one, other in zip(kept, fresh, strict=True):
        np.testing.assert_array_equal(one.voice, other.voice)


def test_what_changes_the_sound_needs_a_sound_of_its_own() -> None:
    synthesizer, voice = prerendered(voice="heart")
    voice.heard.clear()
    speech(synthesizer, HELLO, volume=0.5)
    assert voice.heard == [], "volume is applied to the kept sound"
    speech(synthesizer, HELLO)
    assert voice.heard == [], "heart is the voice of English"
    for options in ({"speed": 1.2}, {"voice": "baker"}):
        speech(synthesizer, HELLO, **options)
    speech(synthesizer, Phrase("Hello you.", Pause.SENTENCE))
    assert len(voice.heard) == 3


def test_a_phrase_is_made_once_and_an_ordinary_one_is_not_kept() -> None:
    synthesizer, voice = prerendered()
    assert list(synthesizer.answer(SpeechOptions()).prerender(HELLO)) == []
    other = Phrase("Something else.", Pause.SENTENCE)
    speech(synthesizer, other)
    speech(synthesizer, other)
    assert voice.heard.count("Something else.") == 2


def test_the_least_recently_used_phrase_makes_room() -> None:
    size = sum(b.voice.nbytes + b.mel.nbytes for b in blocks(10))
    cache = PhraseCache(2 * size)
    cache.keep(key("a"), blocks(10))
    cache.keep(key("b"), blocks(10))
    assert cache.find(key("a")) is not None
    cache.keep(key("c"), blocks(10))
    assert [p.key.text for p in cache.phrases()] == ["a", "c"]
    assert (cache.size_bytes, cache.evictions, cache.hits) == (2 * size, 1, 1)
    cache.keep(key("c"), blocks(10))
    assert cache.size_bytes == 2 * size, "kept anew, counted once"


def test_a_phrase_larger_than_the_room_pushes_nothing_out() -> None:
    cache = PhraseCache(blocks(10)[0].voice.nbytes * 2)
    cache.keep(key("a"), blocks(10))
    cache.keep(key("long"), blocks(1000))
    assert [p.key.text for p in cache.phrases()] == ["a"]
    assert cache.find(key("long")) is None
    assert cache.misses == 1


async def test_prerender_list_and_clear_over_the_wire() -> None:
    async with serving() as stub:
        text = "Hello there. We are open."
        made = await stub.Prerender(tts_pb2.PrerenderRequest(text=text))
        assert (made.phrases, made.made) == (2, 2)
        again = await stub.Prerender(tts_pb2.PrerenderRequest(text=text))
        assert (again.phrases, again.made) == (2, 0)
        listed = await stub.ListPhrases(tts_pb2.ListPhrasesRequest())
        assert [p.text for p in listed.phrases] == ["Hello there.", "We are open."]
        assert listed.phrases[0].voice == "heart"
        assert listed.phrases[0].seconds == pytest.approx(0.6)
        assert listed.bytes == sum(p.bytes for p in listed.phrases) < listed.limit_bytes
        removed = await stub.ClearPhrases(tts_pb2.ClearPhrasesRequest())
        assert removed.removed == 2
        assert not (await stub.ListPhrases(tts_pb2.ListPhrasesRequest())).phrases
