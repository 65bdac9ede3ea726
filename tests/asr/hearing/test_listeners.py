"""What tells a listener's short sounds: how loud they are on the whole must not count."""

import numpy as np
import pytest

from services.asr.hearing.listeners import SoundModel, rows_of, sound_model

HOP = 320


def test_a_row_is_told_with_its_loudness_beside_the_loudest() -> None:
    dice = np.random.default_rng(1)
    hidden = dice.normal(size=(3, 4)).astype(np.float32)
    pcm = np.repeat(np.float32([0.5, 0.05, 0.0]), HOP)
    rows = rows_of(hidden, pcm, HOP)
    assert rows[:, :-1] == pytest.approx(hidden)
    assert rows[:, -1] == pytest.approx([1, 0, -2], abs=1e-4)
    assert rows_of(hidden, 0.1 * pcm, HOP) == pytest.approx(rows, abs=1e-3)
    assert np.isfinite(rows_of(hidden, np.zeros(2 * HOP, np.float32), HOP)).all()


def test_the_network_goes_over_the_rows_as_it_was_trained_to() -> None:
    dice = np.random.default_rng(2)

    def drawn(*shape: int) -> np.ndarray:
        return dice.normal(size=shape).astype(np.float32)

    n_rows, k, w, c = 7, 3, 2, 4
    parts = (drawn(k, w), drawn(w), drawn(5, w, c), drawn(c), drawn(5, c, c), drawn(c),
             drawn(c, 2), drawn(3 * c), drawn())  # fmt: skip
    into, into_bias, near, near_bias, far, far_bias, looks, tells, bias = parts
    rows = drawn(n_rows, k)

    def bent(x: np.ndarray) -> np.ndarray:
        return x / (1 + np.exp(-x))

    def across(heard: np.ndarray, weights: np.ndarray, apart: int) -> np.ndarray:
        found = np.zeros((n_rows, c), np.float32)
        for t in range(n_rows):
            for tap in range(-2, 3):
                if 0 <= t + tap * apart < n_rows:
                    found[t] += heard[t + tap * apart] @ weights[tap + 2]
        return found

    heard = bent(rows @ into + into_bias)
    heard = bent(across(heard, near, 1) + near_bias)
    heard = bent(across(heard, far, 2) + far_bias)
    shares = np.exp(heard @ looks) / np.exp(heard @ looks).sum(axis=0)
    found = np.concatenate([*(share @ heard for share in shares.T), heard.max(axis=0)])
    assert SoundModel(*parts).odds(rows) == pytest.approx(float(found @ tells + bias), rel=1e-4)


@pytest.mark.parametrize("bundle", ["moonshine-tiny-en", "whisper-base"])
def test_recognisers_have_models_of_their_own(bundle: str) -> None:
    assert sound_model("somebody-s-own") is None
    model = sound_model(bundle)
    assert model is not None
    assert np.isfinite(model.odds(np.zeros((1, len(model.into)), np.float32)))
