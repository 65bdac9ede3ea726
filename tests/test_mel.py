"""The mel scale at values that everybody knows, and the triangles over a spectrum."""

from __future__ import annotations

import numpy as np
import pytest

from visavis.mel import HTK, triangles


def test_the_scale_at_known_places_and_back() -> None:
    """Slaney's: `tests/asr/hearing/test_log_mel.py`, by filters as published."""
    hz = [0.0, 700.0, 1000.0]
    np.testing.assert_allclose(HTK.from_hz(hz), [0.0, 781.17, 999.99], rtol=1e-5)
    np.testing.assert_allclose(HTK.to_hz(HTK.from_hz(hz)), hz, atol=1e-9)


def test_triangles_overlap_to_a_sum_of_one_and_may_have_equal_area() -> None:
    edges_hz = HTK.edges_hz(20, 300.0, 6000.0)
    assert (edges_hz[0], edges_hz[-1]) == pytest.approx((300.0, 6000.0))
    weights = triangles(edges_hz, 16_000, 2048)
    assert weights.shape == (20, 1025)
    hz = np.arange(1025) * 16_000 / 2048
    between = (hz > edges_hz[1]) & (hz < edges_hz[-2])
    np.testing.assert_allclose(weights[:, between].sum(axis=0), 1.0)
    assert not weights[:, (hz < 300.0) | (hz > 6000.0)].any()
    areas = triangles(edges_hz, 16_000, 2048, equal_area=True).sum(axis=1) * 16_000 / 2048
    np.testing.assert_allclose(areas, 1.0, rtol=0.01)
