"""What the face's benchmark says and how it counts; the measuring itself needs a face."""

from __future__ import annotations

from itertools import pairwise

import pytest

from visavis.serving.errors import VisavisError
from visavis.tools.bench.face import FaceCost, mel_chunk


def test_the_answer_that_is_spoken_has_no_gaps_and_no_end() -> None:
    chunks = [mel_chunk(k) for k in range(8)]
    for chunk, following in pairwise(chunks):
        assert following.place.pts == chunk.place.pts + len(chunk.mel)
        assert following.place.seq == chunk.place.seq + 1
    for span, next_span in pairwise(span for chunk in chunks for span in chunk.phonemes):
        assert next_span.start_samples == span.start_samples + span.duration_samples
    for chunk in chunks:
        assert chunk.phonemes[0].start_samples == chunk.place.pts * chunk.hop_samples
        assert not chunk.place.last


def test_costs_are_counted_by_the_frame() -> None:
    cost = FaceCost(seconds=10.0, cpu_s=1.5, frames=250, payload_bytes=1_000_000)
    told = (cost.share, cost.frame_cpu_s, cost.bits_per_second)
    assert told == pytest.approx((0.15, 0.006, 800_000))
    with pytest.raises(VisavisError, match="no pictures"):
        _ = FaceCost(10.0, 1.5, 0, 0).frame_cpu_s
