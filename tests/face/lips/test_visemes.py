from __future__ import annotations

import numpy as np
import pytest

from services.face.lips.phonemes import VISEME_INDEX, VISEMES, phone
from services.face.lips.visemes import (
    BITE,
    CLOSED,
    JAW,
    PUCKER,
    WIDE,
    close_gaps,
    frame_visemes,
    lip_coefficients,
    segments,
)
from visavis.serving.errors import InvalidInputError
from visavis.wire.media import PhonemeSpan

RATE = 24_000

ARPABET = (
    "AA AE AH AO AW AX AY B CH D DH EH ER EY F G HH IH IX IY JH K L M N NG OW OY P R S SH T TH "
    "UH UW V W Y Z ZH"
).split()
PINYIN_INITIALS = "b p m f d t n l g k h j q x zh ch sh r z c s y w".split()
PINYIN_FINALS = (
    "a ai an ang ao e ei en eng er i ia ian iang iao ie ii iii in ing iong iou iu o ong ou u ua "
    "uai uan uang uei ui uen un ueng uo v van ve vn"
).split()


def spoken(*sounds: tuple[str, float]) -> list[PhonemeSpan]:
    """Spans of (symbol, milliseconds), one after the other."""
    spans, start = [], 0
    for symbol, duration_ms in sounds:
        samples = round(duration_ms * RATE / 1000)
        spans.append(PhonemeSpan(symbol, start, samples))
        start += samples
    return spans


def lips(*sounds: tuple[str, float], fps: int = 25, offset_s: float = 0.0) -> np.ndarray:
    total_s = sum(duration for _, duration in sounds) / 1000
    times = np.arange(offset_s, total_s, 1 / fps)
    return lip_coefficients(close_gaps(segments(spoken(*sounds), RATE)), times)


def test_every_symbol_of_both_languages_has_a_shape() -> None:
    marked = "AA0 IY1 ER2 ang4 iii5 ve2".split()
    for symbol in (*ARPABET, *PINYIN_INITIALS, *PINYIN_FINALS, *marked):
        known = phone(symbol)
        assert known is not None
        assert sum(share for _, share in known.parts) == pytest.approx(1.0)
        assert all(viseme in VISEMES for viseme, _ in known.parts)
    assert phone("V") != phone("v")  # the English "v" bites the lip, the Mandarin one rounds it


def test_unstressed_vowels_open_less() -> None:
    stressed, unstressed = phone("AA1"), phone("AA0")
    assert stressed is not None and unstressed is not None
    assert unstressed.strength < stressed.strength


def test_unknown_symbols_are_bridged_by_their_neighbours() -> None:
    whole = lips(("sil", 200), ("AA1", 160), ("sil", 200))
    holed = lips(("sil", 200), ("AA1", 80), ("?!", 20), ("AA1", 60), ("sil", 200))
    assert holed[:, JAW].max() == pytest.approx(whole[:, JAW].max(), abs=0.08)


def test_negative_durations_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="lasts -5"):
        segments([PhonemeSpan("AA", 0, -5)], RATE)


def test_closures_are_reached_in_some_frame() -> None:
    for symbol, column in (("P", CLOSED), ("m", CLOSED), ("V", BITE)):
        for duration_ms in (12, 25, 60, 120):
            for offset_s in (0.0, 0.007, 0.02, 0.033):
                curve = lips(("AA1", 120), (symbol, duration_ms), ("AA1", 120), offset_s=offset_s)
                assert curve[:, column].max() == pytest.approx(1.0)


def test_the_jaw_gives_way_to_a_closure() -> None:
    curve = lips(("AA1", 200), ("B", 60), ("AA1", 200))
    assert curve[:, JAW].max() > 0.3
    assert curve[curve[:, CLOSED] == 1.0, JAW].max() < 0.08


def test_lips_open_between_two_closures() -> None:
    curve = lips(("M", 80), ("AA1", 100), ("M", 80), fps=100)
    assert curve[10:16, CLOSED].min() < 0.2


def test_rounding_is_anticipated_by_about_a_tenth_of_a_second() -> None:
    curve = lips(("sil", 300), ("S", 120), ("UW1", 200), ("sil", 300), fps=100)
    vowel = 42
    peak = curve[:, PUCKER].max()
    assert curve[vowel - 4, PUCKER] > 0.15 * peak
    assert curve[vowel - 20, PUCKER] < 0.15 * peak


def test_a_stop_takes_the_lips_of_its_vowels() -> None:
    spread = lips(("IY1", 150), ("K", 60), ("IY1", 150), fps=100)
    rounded = lips(("UW1", 150), ("K", 60), ("UW1", 150), fps=100)
    assert spread[18, WIDE] > rounded[18, WIDE] + 0.2
    assert rounded[18, PUCKER] > spread[18, PUCKER] + 0.3


def test_speech_opens_moderately_and_silence_shuts() -> None:
    curve = lips(("sil", 400), ("HH", 60), ("AA1", 150), ("T", 60), ("sil", 400), fps=100)
    assert 0.3 < curve[:, JAW].max() <= 0.55
    assert np.all(curve[:15] < 0.05) and np.all(curve[-15:] < 0.05)


def test_gaps_between_words_do_not_rest_the_mouth() -> None:
    running = lips(("AA1", 150), ("sil", 50), ("AA1", 150), fps=100)
    pausing = lips(("AA1", 150), ("sil", 300), ("AA1", 150), fps=100)
    assert running[15:20, JAW].min() > 0.3
    assert pausing[25:35, JAW].min() < 0.05


def test_frame_visemes_follow_the_spans() -> None:
    shapes = segments(spoken(("sil", 100), ("AY1", 100), ("sil", 100)), RATE)
    classes = frame_visemes(shapes, np.arange(0.005, 0.3, 0.01))
    names = [VISEMES[index] for index in classes]
    assert names[:10] == ["sil"] * 10 and names[20:] == ["sil"] * 10
    assert names[10:20] == ["aa"] * 10
    assert set(classes) <= set(VISEME_INDEX.values())


def test_an_off_glide_counts_with_its_vowel() -> None:
    for symbol, labels in (
        ("OY1", ["O"]),
        ("iao3", ["I", "aa"]),
        ("uo1", ["U", "O"]),
        ("uang4", ["U", "aa", "nn"]),
    ):
        shapes = segments(spoken((symbol, 200)), RATE)
        assert list(dict.fromkeys(VISEMES[shape.label] for shape in shapes)) == labels


def test_coefficients_stay_in_range() -> None:
    rng = np.random.default_rng(3)
    sounds = [(str(rng.choice(ARPABET + PINYIN_FINALS)), float(d)) for d in rng.uniform(5, 200, 80)]
    curve = lips(*sounds, fps=100)
    assert curve.min() >= 0.0 and curve.max() <= 1.0
    assert np.isfinite(curve).all()
