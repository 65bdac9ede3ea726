"""Questions that nothing was tuned on: who says them, with which pauses, in what noise."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from visavis.serving.errors import InvalidInputError
from visavis.tools.bench.held_out import (
    NOISES,
    SPEAKERS,
    held_out_lines,
    in_noise,
    put_together,
    simulated_noise,
    write_held_out,
)
from visavis.tools.bench.questions import QUESTIONS
from visavis.tools.bench.visitor.clips import HELD_OUT, RATE_HZ, load_clips


def voice(seconds: float, hz: float = 200.0) -> NDArray[np.int16]:
    at = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    return (8000 * np.sin(2 * np.pi * hz * at)).astype(np.int16)


def test_every_voice_speaks_in_every_noise_and_says_nothing_that_is_known() -> None:
    lines = held_out_lines()
    said = {(line.voice, line.noise) for line in lines}
    assert said == set(product(SPEAKERS, NOISES))
    assert not {line.text for line in lines} & {text for _language, text in QUESTIONS}
    assert len({line.text for line in lines}) == len(lines) >= 40
    broken = [line for line in lines if len(line.parts) > 1]
    assert len(broken) == 12 and all(len(x.pauses_ms) == len(x.parts) - 1 for x in broken)
    assert not any("{" in line.text for line in lines)


def test_pauses_are_as_long_as_they_are_said_to_be() -> None:
    first, second = voice(0.5), voice(0.25)
    pcm, start, end = put_together([first, second], [600])
    assert (end - start) / RATE_HZ == pytest.approx(0.5 + 0.6 + 0.25, abs=0.005)
    assert end == len(pcm) and not pcm[:start].any()


@pytest.mark.parametrize(("noise", "below_db"), [("room 20 dB", 20), ("babble 10 dB", 10)])
def test_noise_lies_so_far_below_and_goes_on_behind_the_speech(noise: str, below_db: int) -> None:
    pcm, start, _end = put_together([voice(1.0)], [])
    others = [voice(0.7, hz) for hz in (150.0, 330.0, 470.0)]
    noisy = in_noise(pcm, start, noise, 1, others)
    tail = noisy[len(pcm) :]
    assert len(tail) == 2 * RATE_HZ
    level_db = 20 * np.log10(np.std(pcm[start:]) / np.std(tail))
    assert level_db == pytest.approx(below_db, abs=1.0)
    assert np.array_equal(noisy, in_noise(pcm, start, noise, 1, others)), "the same every time"
    assert in_noise(pcm, start, "", 1, others) is pcm
    with pytest.raises(InvalidInputError, match="room and babble"):
        simulated_noise("rain", 100, 1, [])


def test_what_is_written_is_read_back_with_its_labels(tmp_path: Path) -> None:
    lines = held_out_lines()
    spoken = [[voice(0.1, 100.0 + 5 * n)] * len(line.parts) for n, line in enumerate(lines)]
    write_held_out(tmp_path, spoken)
    clips = load_clips(tmp_path)
    assert [(c.name, c.text) for c in clips] == [(line.name, line.text) for line in lines]
    assert {clip.group for clip in clips} == {HELD_OUT}
    assert all(clip.span.method.startswith("label") for clip in clips)
