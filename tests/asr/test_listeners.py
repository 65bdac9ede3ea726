"""What tells a listener's short sounds: loudness and what is far around them must not count."""

import numpy as np
import pytest

from services.asr.hearing.listeners import FirstWords, listener_model, summary

HOP = 320


def test_loudness_and_the_silence_around_a_sound_change_nothing() -> None:
    dice = np.random.default_rng(1)
    hidden = dice.normal(size=(20, 4)).astype(np.float32)
    pcm = dice.normal(size=20 * HOP).astype(np.float32)
    told = summary(hidden, pcm, HOP)
    assert told.shape == (2 * 4 + 2,)
    assert summary(hidden, 0.01 * pcm, HOP) == pytest.approx(told, rel=1e-3)

    padded = np.pad(pcm, 5 * HOP)
    around = np.zeros((30, 4), np.float32)
    around[5:25] = hidden
    near = summary(around, padded, HOP)
    around[:3] = around[27:] = 1e6
    assert summary(around, padded, HOP) == pytest.approx(near)


def test_nothing_but_silence_has_a_summary() -> None:
    told = summary(np.ones((6, 4), np.float32), np.zeros(6 * HOP, np.float32), HOP)
    assert np.isfinite(told).all()


def test_a_recogniser_that_none_was_fitted_to_has_no_model() -> None:
    assert listener_model("somebody-s-own") is None
    model = listener_model("moonshine-tiny-en")
    assert model is not None
    assert model.odds(np.zeros(len(model.weights), np.float32)) == pytest.approx(model.bias)


def test_a_listener_s_first_words_speak_for_one_and_others_against_it() -> None:
    vocabulary = ["嗯", "对", "停", "等", "别的"]
    first = FirstWords(lambda word: [vocabulary.index(word)] if word in vocabulary else [0, 1])
    told = first.summary(np.log(np.array([0.5, 0.25, 0.1, 0.1, 0.05], np.float32)))
    assert told == pytest.approx(np.log([0.75, 0.2]), rel=1e-5)

    model = listener_model("whisper-base")
    assert model is not None
    likely, not_likely = np.log(np.array([[0.75, 0.02], [0.02, 0.75]], np.float32))
    assert model.odds(likely) > 0.6 > model.odds(not_likely)
