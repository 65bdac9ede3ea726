"""The measures of the recording are right where the truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.browser.tape import Tape, begun_s, best_lag_s

RATE_HZ = 48_000


def tape_of(loudness: NDArray[np.float64], start_s: float = 3.0) -> Tape:
    """Noise with the loudness given every 20 ms."""
    noise = np.random.default_rng(1).standard_normal(len(loudness) * RATE_HZ // 50)
    sound = (noise * np.repeat(loudness, RATE_HZ // 50)).astype(np.float32)
    return Tape([], np.empty(0), [], sound, RATE_HZ, start_s + np.arange(len(loudness)) / 50)


def test_speech_span_is_where_the_sound_is() -> None:
    loudness = np.zeros(500)
    loudness[100:200] = 0.1
    begin_s, end_s = tape_of(loudness).speech_span_s()
    assert begin_s == pytest.approx(5.0, abs=0.06)
    assert end_s == pytest.approx(7.0, abs=0.06)


def test_silence_has_no_speech() -> None:
    with pytest.raises(ValueError, match="nothing was heard"):
        tape_of(np.zeros(50)).speech_span_s()


def test_speech_for_the_recogniser_has_16_khz_and_margins() -> None:
    loudness = np.zeros(500)
    loudness[100:200] = 0.1
    assert len(tape_of(loudness).speech_16khz()) == pytest.approx(3 * 16_000, abs=2000)


@pytest.mark.parametrize("lag_s", [-0.2, 0.0, 0.12])
def test_lag_of_the_lips_is_found(lag_s: float) -> None:
    syllables = 0.1 * np.abs(np.random.default_rng(2).standard_normal(40))
    tape = tape_of(np.interp(np.arange(400) / 10, np.arange(40), syllables))
    times_s = 3.0 + np.arange(20, 180) / 25
    lips = np.interp(times_s - lag_s - 3.0, np.arange(40) / 5, np.sqrt(syllables))
    found_s, agreement = best_lag_s(times_s, lips, tape, reach_s=0.4)
    assert found_s == pytest.approx(lag_s, abs=0.06)
    assert agreement > 0.9


def test_sound_that_stood_still_is_not_taken_for_messages_that_came_late() -> None:
    came_s = 5 + 0.04 * np.arange(1, 101)
    came_s[20:22] += 0.3  # late
    came_s[50:] += 0.4  # stood still
    begun = begun_s(came_s, 0.04)
    assert begun[20] == pytest.approx(5.8)
    assert begun[49:52] == pytest.approx([6.96, 7.4, 7.44])
    level = np.repeat([0.1, 0.2], [50 * 1920, 50 * 1920]).astype(np.float32)
    tape = Tape([], np.empty(0), [], level, RATE_HZ, begun)
    assert tape.loudness(np.array([6.9, 7.5])) == pytest.approx([0.1, 0.2])
    assert tape.speech_span_s()[1] == pytest.approx(9.4, abs=0.06)
