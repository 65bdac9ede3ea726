from __future__ import annotations

import json
from typing import ClassVar

import numpy as np
import pytest

from services.face.lips.audio_to_face import (
    CONTEXT_FRAMES,
    HOP_SAMPLES,
    LOOK_AHEAD_S,
    N_MELS,
    WEIGHTS,
    WINDOW_SAMPLES,
    AudioToFace,
    AudioToFaceStream,
    log_mel,
    output_times_s,
)
from services.face.lips.phonemes import VISEME_INDEX
from services.face.lips.visemes import CLOSED, JAW, LIP_COEFFICIENTS
from tests.face.fake_studio import LoudnessNetwork
from tests.rows import together
from visavis.bundles.store import recipes_of
from visavis.engine import Tensors, open_engine
from visavis.engine.rows import result_of
from visavis.serving.errors import EngineError, InvalidInputError


@pytest.fixture(scope="module")
def network() -> AudioToFace:
    engine = LoudnessNetwork()
    engine.load()
    return AudioToFace(engine)


def burst(rate: int, *, at_s: float, length_s: float, total_s: float) -> np.ndarray:
    times = np.arange(round(total_s * rate)) / rate
    inside = (times >= at_s) & (times < at_s + length_s)
    sound = np.sin(2 * np.pi * 300 * times) + np.sin(2 * np.pi * 1200 * times)
    return (8000 * sound * inside).astype(np.int16)


def stream_in_pieces(network: AudioToFace, pcm: np.ndarray, rate: int, piece: int) -> np.ndarray:
    stream = AudioToFaceStream(network, rate)
    pieces = [pcm[i : i + piece] for i in range(0, len(pcm), piece)]
    out = [stream.hear(p, last=i == len(pieces) - 1) for i, p in enumerate(pieces)]
    return np.concatenate(out)


def test_log_mel_frames_are_whole_windows() -> None:
    sound = np.random.default_rng(1).normal(size=16_000).astype(np.float32)
    features = log_mel(sound)
    assert features.shape == ((16_000 - WINDOW_SAMPLES) // HOP_SAMPLES + 1, N_MELS)
    assert features.dtype == np.float32
    np.testing.assert_allclose(log_mel(sound[HOP_SAMPLES:]), features[1:], atol=1e-5)
    assert log_mel(sound[: WINDOW_SAMPLES - 1]).shape == (0, N_MELS)


def test_log_mel_refuses_other_types() -> None:
    with pytest.raises(InvalidInputError, match="float64"):
        log_mel(np.zeros(800))  # type: ignore[arg-type]


@pytest.mark.parametrize("piece", [77, 4800])
def test_pieces_give_what_the_whole_gives(network: AudioToFace, piece: int) -> None:
    pcm = burst(16_000, at_s=0.3, length_s=0.4, total_s=1.0)
    whole = stream_in_pieces(network, pcm, 16_000, len(pcm))
    np.testing.assert_allclose(stream_in_pieces(network, pcm, 16_000, piece), whole, atol=1e-5)


@pytest.mark.parametrize("rate", [8_000, 24_000, 48_000])
def test_lips_move_with_the_sound_at_every_rate(network: AudioToFace, rate: int) -> None:
    pcm = burst(rate, at_s=0.3, length_s=0.4, total_s=1.0)
    lips = stream_in_pieces(network, pcm, rate, rate // 50)
    assert len(lips) == 100
    times = output_times_s(0, len(lips))
    open_s = times[lips[:, JAW] > 0.5]
    assert open_s[0] == pytest.approx(0.3, abs=0.02)
    assert open_s[-1] == pytest.approx(0.7, abs=0.02)


def test_output_waits_no_longer_than_the_look_ahead(network: AudioToFace) -> None:
    stream = AudioToFaceStream(network, 16_000)
    heard = 0
    for _ in range(40):
        stream.hear(np.zeros(320, np.int16))
        heard += 320
    newest_s = output_times_s(stream.produced - 1, 1)[0]
    assert heard / 16_000 - newest_s <= LOOK_AHEAD_S + 0.02
    assert LOOK_AHEAD_S < 0.1


def test_streams_share_the_network_and_nothing_else(network: AudioToFace) -> None:
    pcm = burst(16_000, at_s=0.1, length_s=0.5, total_s=0.8)
    alone = stream_in_pieces(network, pcm, 16_000, 640)
    one, other = AudioToFaceStream(network, 16_000), AudioToFaceStream(network, 16_000)
    out = []
    for start in range(0, len(pcm), 640):
        out.append(one.hear(pcm[start : start + 640], last=start + 640 >= len(pcm)))
        other.hear(np.full(640, 9000, np.int16))
    np.testing.assert_array_equal(np.concatenate(out), alone)


def test_bad_sound_is_refused(network: AudioToFace) -> None:
    with pytest.raises(InvalidInputError, match="sample_rate_hz"):
        AudioToFaceStream(network, 4_000)
    stream = AudioToFaceStream(network, 16_000)
    with pytest.raises(InvalidInputError, match="int16"):
        stream.hear(np.zeros(100, np.float32))
    with pytest.raises(InvalidInputError, match="shape"):
        network.infer(np.zeros((CONTEXT_FRAMES, N_MELS), np.float32))


def test_empty_sound_gives_nothing(network: AudioToFace) -> None:
    stream = AudioToFaceStream(network, 16_000)
    assert stream.hear(np.zeros(0, np.int16), last=True).shape == (0, len(LIP_COEFFICIENTS))


def test_another_network_is_refused() -> None:
    class Other(LoudnessNetwork):
        takes: ClassVar = {"audio": LoudnessNetwork.takes["mel"]}

    engine = Other()
    engine.load()
    with pytest.raises(EngineError, match="not an audio-to-face network"):
        AudioToFace(engine)


@pytest.mark.parametrize(
    ("closed", "bilabial", "shut"),
    [
        (0.22, 0.27, True),  # half believed, twice
        (0.22, 0.02, False),
        (0.05, 0.9, False),
        (0.5, 0.0, True),
        (0.08, 0.08, False),
    ],
)
def test_a_likely_closure_is_a_whole_one(closed: float, bilabial: float, shut: bool) -> None:
    class Believing(LoudnessNetwork):
        def _infer(self, inputs: Tensors) -> dict[str, np.ndarray]:
            out = super()._infer(inputs)
            out["coefficients"][..., CLOSED] = closed
            out["visemes"][..., VISEME_INDEX["PP"]] = bilabial
            return out

    engine = Believing()
    engine.load()
    lips = result_of(AudioToFace(engine).lips(np.zeros((CONTEXT_FRAMES + 3, N_MELS), np.float32)))
    assert (lips[:, CLOSED] > 0.9).all() if shut else (lips[:, CLOSED] < 0.35).all()


def test_the_committed_network_fits_and_was_good_when_measured() -> None:
    assert WEIGHTS.stat().st_size < 1_000_000
    with open_engine(WEIGHTS) as engine:
        trained = AudioToFace(engine)
        quiet = AudioToFaceStream(trained, 16_000)
        lips = quiet.hear(np.zeros(16_000, np.int16), last=True)
        two = engine.infer({"mel": np.zeros((2, CONTEXT_FRAMES + 5, N_MELS), np.float32)})
    assert lips.shape == (100, len(LIP_COEFFICIENTS)) and lips.max() < 0.15
    assert two["visemes"].shape == (2, 5, 15)
    np.testing.assert_allclose(two["visemes"].sum(axis=2), 1, atol=1e-4)
    measured = json.loads(WEIGHTS.with_suffix(".json").read_text(encoding="utf-8"))
    for language in ("en", "zh"):
        assert measured[language]["viseme_frame_accuracy"] >= 0.9


def test_a_long_voice_in_one_piece_is_within_the_plan() -> None:
    (recipe,) = recipes_of("audio-to-face")
    mel = np.random.default_rng(7).normal(-8, 2, (9000, N_MELS)).astype(np.float32)
    with open_engine(WEIGHTS, device="cpu") as engine:
        whole = engine.infer({"mel": mel[None]})
        asked: list[tuple[int, ...]] = []
        infer = engine.infer

        def noted(inputs: Tensors) -> dict[str, np.ndarray]:
            asked.append(inputs["mel"].shape)
            return infer(inputs)

        engine.infer = noted  # type: ignore[method-assign]
        made = AudioToFace(engine).infer(mel)
    assert len(asked) > 1
    for shape in asked:
        recipe.check({"mel": shape})
    for name, piecewise in zip(("visemes", "coefficients"), made, strict=True):
        np.testing.assert_allclose(piecewise, whole[name][0], atol=1e-5)


def test_voices_that_share_a_run_move_lips_as_each_alone() -> None:
    sounds = [
        burst(16_000, at_s=0.1, length_s=length_s, total_s=length_s + 0.2)
        for length_s in (0.4, 0.9, 0.5)
    ]
    with open_engine(WEIGHTS) as engine:
        trained = AudioToFace(engine)
        streams = [AudioToFaceStream(trained, 16_000) for _ in sounds]
        works = [s.steps(pcm, last=True) for s, pcm in zip(streams, sounds, strict=True)]
        made, rows = together(works)
        assert rows == [3]
        for pcm, (lips,) in zip(sounds, made, strict=True):
            apart = AudioToFaceStream(trained, 16_000).hear(pcm, last=True)
            assert lips == pytest.approx(apart, abs=1e-5)
