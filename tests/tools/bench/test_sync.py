"""Skew out of a histogram, and pictures against the sound that they belong to."""

from tests.tools.bench.test_turn_figures import sound
from visavis.tools.bench.figures.counters import bucket_quantile
from visavis.tools.bench.sync import behind_sound, summed
from visavis.tools.bench.visitor.media import SeenPicture
from visavis.tools.bench.visitor.trace import Trace

SKEW = {
    "av_skew_seconds_count": 100.0,
    "av_skew_seconds_bucket{le=0.0025}": 60.0,
    "av_skew_seconds_bucket{le=0.015}": 99.0,
    "av_skew_seconds_bucket{le=0.04}": 100.0,
    "av_skew_seconds_bucket{le=+Inf}": 100.0,
}


def test_a_quantile_is_bounded_by_the_bucket_that_holds_it() -> None:
    assert bucket_quantile(SKEW, "av_skew_seconds", 0.5) == 0.0025
    assert bucket_quantile(SKEW, "av_skew_seconds", 0.99) == 0.015
    assert bucket_quantile(SKEW, "av_skew_seconds", 1.0) == 0.04
    assert bucket_quantile({}, "av_skew_seconds", 0.5) is None


def test_figures_of_a_run() -> None:
    run = summed({**SKEW, "gateway_late_pictures_total": 3.0}, [0.01])
    assert (run.pictures, run.within_15_ms) == (100, 0.99)
    assert run.skew["p99"] == 0.015
    assert run.counts == {"underruns": 0.0, "late_pictures": 3.0, "dropped_pictures": 0.0}


def test_pictures_are_held_against_the_sound_of_their_moment() -> None:
    trace = Trace(sounds=[sound(100 + 0.02 * i, 50 + 0.02 * i, 0) for i in range(10)])
    trace.sounds.insert(0, sound(99.98, 49.98, None))
    trace.pictures = [SeenPicture(99.0, 49.0), SeenPicture(100.14, 50.1), SeenPicture(101.0, 51.0)]
    # The sound that holds 50.1 s came at 100.08 s or, in the next packet, at 100.10 s.
    (behind,) = behind_sound(trace)
    assert 0.03 < behind < 0.07
    assert behind_sound(Trace(pictures=trace.pictures)) == [], "there was no answer"
