from __future__ import annotations

import numpy as np

from services.face.lips.loudness import Loudness


def levels(seconds: float) -> np.ndarray:
    """Speech: loud and soft by turns, 100 a second, with a pause now and then."""
    times = np.arange(0, seconds, 0.01)
    spoken = 1.5 * np.sin(2 * np.pi * 0.5 * times) + 0.4 * np.sin(2 * np.pi * 4 * times)
    return np.where(times % 5 > 4.5, -12.0, spoken)


def test_what_is_said_louder_opens_the_jaw_wider() -> None:
    told = levels(20.0)
    gains = Loudness(0.01).gains(told)[1000:]
    told = told[1000:]
    assert gains[told > 1.5].mean() > 1.08 > 0.95 > gains[(told < -1.5) & (told > -5)].mean()
    assert 0.8 <= gains.min() and gains.max() <= 1.25
    assert abs(gains[told > -5].mean() - 1) < 0.05, "a pause is no soft voice"


def test_pieces_come_out_as_the_whole_does() -> None:
    told, pieces = levels(3.0), Loudness(0.01)
    parts = [pieces.gains(told[k : k + 7]) for k in range(0, len(told), 7)]
    np.testing.assert_array_equal(np.concatenate(parts), Loudness(0.01).gains(told))


def test_at_first_nothing_is_known_of_what_is_usual() -> None:
    assert np.allclose(Loudness(0.01).gains(np.array([5.0, -5.0, 5.0])), 1.0, atol=0.01)
