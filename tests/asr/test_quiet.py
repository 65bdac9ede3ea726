"""Frames as quiet as the room."""

import numpy as np

from services.asr.hearing.detectors import FRAME_SAMPLES
from services.asr.sound import QuietFrames


def noise(level: float, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).normal(size=FRAME_SAMPLES) * level).astype(np.float32)


def after_speech(room: float, speech: float = 0.1) -> QuietFrames:
    quiet = QuietFrames()
    for i in range(30):
        quiet.is_quiet(noise(room, i), 0.0)
    for i in range(20):
        assert not quiet.is_quiet(noise(speech, i), 1.0)
    return quiet


def test_the_room_is_known_by_its_level_while_the_vad_still_hears_speech() -> None:
    assert after_speech(room=0.001).is_quiet(noise(0.001), 0.9)
    assert not after_speech(room=0.001).is_quiet(noise(0.01), 0.9)


def test_speech_that_is_hardly_above_the_room_is_left_to_the_vad() -> None:
    assert not after_speech(room=0.03).is_quiet(noise(0.03), 0.9)


def test_a_room_that_gets_louder_is_learned() -> None:
    quiet = after_speech(room=0.0005)
    assert not quiet.is_quiet(noise(0.005), 0.0)
    for i in range(60):
        quiet.is_quiet(noise(0.005, i), 0.0)
    for i in range(5):
        quiet.is_quiet(noise(0.2, i), 1.0)
    assert quiet.is_quiet(noise(0.005), 0.9)
