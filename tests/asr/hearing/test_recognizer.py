"""Languages find their recogniser; networks are fed what they were trained on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from services.asr.hearing.detectors import (
    FRAME_SAMPLES,
    WINDOW_SAMPLES,
    TurnDetector,
    VadState,
    VoiceDetector,
)
from services.asr.hearing.networks import (
    BundledNetworks,
    Ear,
    Languages,
    pieces_of,
    speech_probabilities,
)
from services.asr.settings import AsrSettings
from tests.asr.doubles import CountingTranscriber, loud, quiet
from visavis.serving.errors import EngineLoadError, SettingsError, UnknownNameError

EAR = Ear("fake", CountingTranscriber())


class RecordingEngine:
    """Keeps what it is given and answers with zeros of the right names."""

    def __init__(self) -> None:
        self.given: list[dict[str, Any]] = []

    def infer(self, inputs: dict[str, Any]) -> dict[str, Any]:
        self.given.append(inputs)
        n = len(self.given)
        return {
            "output": np.full((1, 1), 0.5, np.float32),
            "stateN": np.full((2, 1, 128), n, np.float32),
            "logits": np.full((1, 1), 0.25, np.float32),
        }


def test_tags_are_understood() -> None:
    for tag, code in (
        ("en", "en"),
        ("en-GB", "en"),
        ("EN_us", "en"),
        ("cmn-Hans", "zh"),
        ("zh-CN", "zh"),
        ("", "en"),
    ):
        assert Languages({"en": EAR, "zh": EAR}, "en").resolve(tag)[0] == code


def test_unknown_languages_are_named_with_those_known() -> None:
    with pytest.raises(UnknownNameError, match=r"tlh.*en, zh"):
        Languages({"en": EAR, "zh": EAR}, "en").resolve("tlh")
    with pytest.raises(SettingsError, match=r"default_language.*'zh'"):
        Languages({"en": EAR}, "zh")


def test_the_vad_sees_the_end_of_the_frame_before() -> None:
    engine = RecordingEngine()
    detector = VoiceDetector(engine)  # type: ignore[arg-type]
    state, other = VadState(), VadState()
    first = np.arange(FRAME_SAMPLES, dtype=np.float32)
    detector.probability(first, state)
    detector.probability(first, state)
    detector.probability(first, other)
    seen = [given["input"][0] for given in engine.given]
    assert seen[0].shape == (FRAME_SAMPLES + 64,)
    assert not seen[0][:64].any()
    assert np.array_equal(seen[1][:64], first[-64:])
    assert engine.given[1]["state"].max() == 1
    assert not engine.given[2]["state"].any()
    assert not seen[2][:64].any()
    with pytest.raises(ValueError, match="512"):
        detector.probability(first[:100], state)


def test_the_turn_detector_sees_the_last_eight_seconds_padded_in_front() -> None:
    engine = RecordingEngine()
    detector = TurnDetector(engine)  # type: ignore[arg-type]
    sound = np.random.default_rng(0).normal(size=WINDOW_SAMPLES * 2).astype(np.float32)
    assert detector.probability(sound) == 0.25
    detector.probability(sound[-WINDOW_SAMPLES:])
    detector.probability(sound[:16_000])
    whole, last, short = (given["input_features"] for given in engine.given)
    assert whole.shape == (1, 80, 800)
    assert np.array_equal(whole, last)
    before, during = short[0, :, :690], short[0, :, 710:]
    assert before.std(axis=1).max() < 0.01 < during.std(axis=1).min()


def test_level_does_not_change_the_turn_detectors_view() -> None:
    engine = RecordingEngine()
    detector = TurnDetector(engine)  # type: ignore[arg-type]
    sound = np.random.default_rng(0).normal(size=WINDOW_SAMPLES).astype(np.float32)
    detector.probability(sound * 0.1)
    detector.probability(sound * 0.5)
    soft, strong = (given["input_features"] for given in engine.given)
    assert soft == pytest.approx(strong, abs=1e-3)


def test_a_recording_is_judged_in_blocks_to_its_last_sample() -> None:
    engine = RecordingEngine()
    detector = VoiceDetector(engine)  # type: ignore[arg-type]
    sound = np.ones(FRAME_SAMPLES * 7 + 1, np.float32)
    blocks = list(speech_probabilities(sound, detector, block_frames=3))
    assert [len(block) for block in blocks] == [3, 3, 2]
    assert engine.given[-1]["input"][0, 64] == 1


def test_pieces_end_with_the_recording_and_silence_has_none() -> None:
    sound = np.concatenate([quiet(20), loud(40)])[:-100]
    (piece,) = pieces_of(sound, [0.0] * 20 + [1.0] * 40)
    assert piece.end == len(sound)
    assert pieces_of(quiet(60), [1.0] * 60) == []
    assert pieces_of(quiet(0), []) == []


def test_a_profile_without_a_recogniser_is_refused() -> None:
    with pytest.raises(EngineLoadError, match="recogniser"):
        BundledNetworks({}, lambda path: None)  # type: ignore[arg-type, return-value]


def test_waits_are_set_in_milliseconds() -> None:
    rules = AsrSettings(shortest_wait_ms=320, longest_wait_ms=640).endpoint_rules()
    assert (rules.shortest_wait_frames, rules.longest_wait_frames) == (10, 20)
    impatient = AsrSettings(shortest_wait_ms=64, longest_wait_ms=64).endpoint_rules()
    assert impatient.pause_frames <= impatient.shortest_wait_frames
    assert impatient.longest_wait_frames >= impatient.shortest_wait_frames
    assert max(impatient.wait_frames(p) for p in (0.0, 0.5, 0.85, 1.0)) == 2
