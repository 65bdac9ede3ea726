"""Styles: what they change, where they begin, and that nothing is ignored in silence."""

from __future__ import annotations

import math

import numpy as np
import pytest

from services.tts.phrase_feed import cut_phrases, phrases_of
from services.tts.prosody import Prosody, needs, prosody_of, styles_within
from services.tts.speech_options import SpeechOptions
from services.tts.synthesizer import SpeechPiece
from services.tts.text.chunker import Pause
from services.tts.voices.base import VOICES
from services.tts.voices.english import bent_melody, with_prosody
from tests.tts.fakes import WordVoice, word_synthesizer
from tests.tts.test_servicer import requests, serving
from visavis.serving.errors import InvalidInputError
from visavis.styles import STYLES, CaptionText
from visavis.v1 import tts_pb2


def spoken(text: str, **options: object) -> tuple[list[SpeechPiece], dict[str, WordVoice]]:
    synthesizer, voices = word_synthesizer()
    return list(synthesizer.speak(text, **options)), voices  # type: ignore[arg-type]


def test_a_tag_is_not_spoken_and_holds_from_its_phrase_on() -> None:
    pieces, voices = spoken("Well then. [happy] How nice! I mean it. [sad] Alas.")
    assert voices["en"].heard == ["Well then.", "How nice!", "I mean it.", "Alas."]
    styles = list(dict.fromkeys(piece.style for piece in pieces))
    assert styles == ["neutral", "happy", "sad"]
    speeds = [prosody.speed for prosody in voices["en"].prosodies]
    assert speeds[1] == speeds[2] > speeds[0] > speeds[3]


def test_a_tag_within_a_sentence_parts_it_with_a_short_pause() -> None:
    phrases = phrases_of("I am [happy] so glad. [calm] Yes.")
    assert [(p.text.strip(), p.pause, p.style) for p in phrases if p.text.strip()] == [
        ("I am", Pause.CLAUSE, ""),
        ("so glad.", Pause.SENTENCE, "happy"),
        ("Yes.", Pause.SENTENCE, "calm"),
    ]


async def test_tags_split_over_tokens_are_found() -> None:
    async def tokens():  # type: ignore[no-untyped-def]
        for token in ("[", "hap", "py", "] Hel", "lo there. ", "[s", "ad]", " Bye."):
            yield token

    phrases = [p async for p in cut_phrases(tokens())]
    said = [(p.text.strip(), p.style) for p in phrases if p.text.strip()]
    assert said == [("Hello there.", "happy"), ("Bye.", "sad")]


def test_words_end_where_the_captions_have_them() -> None:
    """Marks count the characters of the text without its tags."""
    text = "[happy] How nice! [sad] Alas."
    shown = CaptionText().feed(text, last=True)
    marks = [mark for piece in spoken(text)[0] for mark in piece.marks]
    heard = [shown[: mark.chars].strip() for mark in marks]
    assert {"How", "How nice!", "How nice! Alas"} <= {h.rstrip(".") for h in heard}


def test_the_requests_style_and_numbers_multiply() -> None:
    _, voices = spoken("Hi.", style="excited", speed=1.5, pitch_range=0.5)
    (prosody,) = voices["en"].prosodies
    style = prosody_of("excited")
    assert prosody.speed == pytest.approx(1.5 * style.speed)
    assert prosody.pitch_range == pytest.approx(0.5 * style.pitch_range)


def test_energy_is_heard() -> None:
    loud, _ = spoken("Hi.", style="angry")
    soft, _ = spoken("Hi.", energy=0.5)
    plain, _ = spoken("Hi.")
    levels = [np.abs(pieces[0].voice).max() for pieces in (soft, plain, loud)]
    assert levels[0] < levels[1] < levels[2]


def test_what_a_voice_lacks_is_left_out_and_told_once() -> None:
    pieces, voices = spoken("[happy] 你好。你好吗？ [sad] 再见。")
    assert all(prosody.controls() <= {"speed", "energy"} for prosody in voices["zh"].prosodies)
    notices = [notice for piece in pieces for notice in piece.notices]
    assert [n.split(":")[0] for n in notices] == ["style 'happy'", "style 'sad'"]
    assert "'baker' cannot change its pitch and its pitch range" in notices[0]
    assert not [n for piece in spoken("[happy] Hello.")[0] for n in piece.notices]


def test_who_cannot_whisper_says_so() -> None:
    pieces, voices = spoken("[whisper] 你好。")
    assert "'baker' cannot change to a whisper" in pieces[0].notices[0]
    assert pieces[0].style == "whisper"
    assert voices["zh"].prosodies[0].voicing == 1.0
    pieces, voices = spoken("[whisper] Psst.")
    assert pieces[0].notices == ()
    assert voices["en"].prosodies[0].voicing == 0.0


def test_a_whisper_is_noise_through_the_same_filter() -> None:
    voiced = np.array([0.0, 200.0, 210.0], np.float32)
    quiet = np.full((601, 3), -9.0, np.float32)
    spectra = {"f0": voiced, "lh": quiet + 8, "ln": quiet, "lr": quiet + 5, "phi": quiet}
    same = with_prosody(spectra, Prosody(speed=2.0))
    assert all(same[name] is spectra[name] for name in spectra)
    breath = with_prosody(spectra, Prosody(voicing=0.0))
    assert not breath["f0"].any()
    assert (breath["ln"][:, 1:] > quiet[:, 1:]).all()
    assert (breath["lr"][:, 1:] < spectra["lr"][:, 1:]).all()
    for name in ("ln", "lr"):
        np.testing.assert_array_equal(breath[name][:, 0], spectra[name][:, 0])
    assert breath["ln"][400, 1] > breath["ln"][5, 1], "less at the bottom than at the top"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"style": "grumpy"}, "grumpy"),
        ({"pitch_range": 3.0}, "pitch_range: 3 is not from 0.3 to 1.7"),
        ({"energy": 0.1}, "energy"),
        ({"pitch_range": 1.2, "language": "zh"}, "'baker' cannot change its pitch range"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidInputError, match=says):
        SpeechOptions(**options).checked()  # type: ignore[arg-type]


def test_every_style_is_within_some_bounds_and_voices_tell_which_they_can() -> None:
    assert set(map(prosody_of, STYLES))
    for style in STYLES:
        assert 0.85 <= prosody_of(style).speed <= 1.15
    heart, baker = VOICES
    assert styles_within(heart.controls) == STYLES
    assert styles_within(baker.controls) == ("neutral",)
    assert needs("happy") == {"speed", "pitch", "pitch_range", "energy"}


def test_the_melody_is_moved_and_stretched_and_silence_stays() -> None:
    f0 = np.array([[0.0, 150.0, 200.0, 266.6667, 0.0]], np.float32)
    same = bent_melody(f0, Prosody(speed=2.0, energy=0.5))
    np.testing.assert_array_equal(same, f0)
    moved = bent_melody(f0, Prosody(pitch=1.1))
    np.testing.assert_allclose(moved, f0 * 1.1, rtol=1e-5)
    wide = bent_melody(f0, Prosody(pitch_range=1.5))
    assert wide[0, 2] == pytest.approx(200.0, rel=1e-3)
    assert math.log(wide[0, 3] / wide[0, 1]) == pytest.approx(1.5 * math.log(f0[0, 3] / f0[0, 1]))
    assert (wide[0, [0, 4]] == 0).all()
    nothing = np.zeros((1, 3), np.float32)
    np.testing.assert_array_equal(bent_melody(nothing, Prosody(pitch=1.2)), nothing)


async def test_styles_and_notices_over_the_wire() -> None:
    async with serving() as stub:
        answers = [a async for a in stub.Synthesize(requests(["[whisper] 你好。"]))]
        assert answers[0].notice.code == "unsupported"
        assert "whisper" in answers[0].notice.message
        styles = {a.mel.style for a in answers if a.HasField("mel") and not a.mel.header.last}
        assert styles == {"whisper"}
        assert sum(a.HasField("notice") for a in answers) == 1
        voices = (await stub.ListVoices(tts_pb2.ListVoicesRequest())).voices
        assert "pitch_range" in voices[0].controls
        assert "happy" in voices[0].styles
        assert voices[1].controls == ["energy", "speed"]
