"""Long recordings are cut at pauses into pieces that a recogniser takes."""

from itertools import pairwise

import numpy as np
import pytest

from services.asr.hearing.cutter import LONGEST_PIECE_SAMPLES, CutRules, cut_at_pauses
from services.asr.hearing.detectors import FRAME_SAMPLES

RULES = CutRules()


@pytest.mark.parametrize(
    "speech", [[], [0.01] * 5000, [0.0] * 50 + [1.0] * 2 + [0.0] * 50], ids=["", "silence", "click"]
)
def test_what_is_no_speech_gives_nothing(speech: list[float]) -> None:
    assert cut_at_pauses(speech) == []


def test_speech_comes_with_a_margin_within_the_recording() -> None:
    (span,) = cut_at_pauses([0.0] * 50 + [1.0] * 100 + [0.0] * 50)
    assert span.start == (50 - RULES.margin_frames) * FRAME_SAMPLES
    assert span.end == (150 + RULES.margin_frames) * FRAME_SAMPLES
    (span,) = cut_at_pauses([1.0] * 30)
    assert (span.start, span.end) == (0, 30 * FRAME_SAMPLES)


def test_near_sentences_stay_together_far_ones_do_not() -> None:
    near = cut_at_pauses([1.0] * 100 + [0.0] * 30 + [1.0] * 100)
    assert len(near) == 1
    far = cut_at_pauses([1.0] * 100 + [0.0] * RULES.longest_frames + [1.0] * 100)
    assert len(far) == 2


def test_an_hour_is_cut_small_and_in_order_and_loses_no_speech() -> None:
    rng = np.random.default_rng(0)
    speech: list[float] = []
    while len(speech) < 3600 * 16_000 // FRAME_SAMPLES:
        speech += [0.9] * int(rng.integers(20, 400)) + [0.0] * int(rng.integers(1, 60))
    spans = cut_at_pauses(speech)
    assert all(0 < span.length <= LONGEST_PIECE_SAMPLES for span in spans)
    assert all(a.end <= b.start for a, b in pairwise(spans))
    covered = np.zeros(len(speech), bool)
    for span in spans:
        covered[span.start // FRAME_SAMPLES : span.end // FRAME_SAMPLES] = True
    assert covered[np.array(speech) > 0.5].all()


def test_speech_without_a_pause_is_cut_where_it_is_quietest() -> None:
    speech = [0.9] * 1000
    speech[500] = 0.6
    first, second = cut_at_pauses(speech)
    assert first.end == second.start == 500 * FRAME_SAMPLES
