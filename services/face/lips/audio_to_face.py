"""The audio-to-face network and its features, run on a voice as it comes in."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import soxr
from numpy.typing import NDArray

from services.face.lips.loudness import Loudness
from services.face.lips.phonemes import VISEME_INDEX
from services.face.lips.visemes import BITE, CLOSED, JAW, LIP_COEFFICIENTS, TONGUE, TONGUE_OUT
from visavis.engine import Engine
from visavis.engine.rows import RowAsk, RowNetwork, alone, most_rows, result_of
from visavis.mel import HTK, triangles
from visavis.serving.errors import EngineError, InvalidInputError
from visavis.wire.media import check_sample_rate

WEIGHTS = Path(__file__).parents[1] / "weights" / "audio_to_face.onnx"

SAMPLE_RATE_HZ = 16_000
HOP_SAMPLES = 160
WINDOW_SAMPLES = 400
N_MELS = 40
_FFT_SIZE = 512
_LOW_HZ, _HIGH_HZ = 60.0, 7600.0
_FLOOR = 1e-6

CONTEXT_FRAMES = 32
"""Feature frames that an output needs beside its own."""
LOOK_AHEAD_FRAMES = 8
"""How many of them lie in the future: 80 ms."""
_MOST_FRAMES = 4096
"""At once: what the compiled network takes."""
OUTPUT_RATE_HZ = SAMPLE_RATE_HZ / HOP_SAMPLES
LOOK_AHEAD_S = (LOOK_AHEAD_FRAMES * HOP_SAMPLES + WINDOW_SAMPLES / 2) / SAMPLE_RATE_HZ
SILENCE_LOG = -13.8
"""Log-mel of digital silence: what stands before the first sample."""

LipSteps: TypeAlias = Generator[RowAsk | NDArray[np.float32], Any, None]
"""Lips, behind the asks of the network, which several sessions share."""
_Told: TypeAlias = tuple[NDArray[np.float32], NDArray[np.float32]]
"""Visemes and coefficients, as AudioToFace.infer gives them."""

_LIKELY = (0.1, 0.45)
"""Of held-out sentences' p, b and m the network gives 179 of 180 more than this, and of everything
else 3 of 1000 frames."""
_TONGUE_VISEMES = {"TH": 1.0, "nn": 0.9, "DD": 0.8, "SS": 0.3}


def output_times_s(first: int, count: int) -> NDArray[np.float64]:
    """When the outputs from `first` on happen, the middle of their windows: [count] float64
    seconds.
    """
    middle = WINDOW_SAMPLES / 2
    return (np.arange(first, first + count) * HOP_SAMPLES + middle) / SAMPLE_RATE_HZ


class AudioToFace:
    """The network: log-mel in, viseme probabilities and lip coefficients out. No state."""

    def __init__(self, engine: Engine) -> None:
        """`engine` is loaded. Raises EngineError where it holds another network."""
        if set(engine.inputs) != {"mel"} or set(engine.outputs) != {"visemes", "coefficients"}:
            raise EngineError(f"{engine.model.name} is not an audio-to-face network")
        self._engine = engine
        self._network = RowNetwork(self._run, most_rows(engine, "mel"), len)

    def infer(self, mel: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """mel [T, 40] -> visemes [T - CONTEXT_FRAMES, 15] probabilities, coefficients [.., 5], all
        float32.

        Raises InvalidInputError for another shape, or too few frames.
        """
        self._check(mel)
        return result_of(self._inferred(mel))

    def lips(self, mel: NDArray[np.float32]) -> Generator[RowAsk, Any, NDArray[np.float32]]:
        """mel [T, 40] -> [T - CONTEXT_FRAMES, len(LIP_COEFFICIENTS)] float32. Raises as `infer`
        does.
        """
        self._check(mel)
        visemes, coefficients = yield from self._inferred(mel)
        out = np.zeros((len(visemes), len(LIP_COEFFICIENTS)), np.float32)
        out[:, :TONGUE] = coefficients
        for name, height in _TONGUE_VISEMES.items():
            out[:, TONGUE] += height * visemes[:, VISEME_INDEX[name]]
        out[:, TONGUE_OUT] = visemes[:, VISEME_INDEX["TH"]]
        # A closure that the network half believes in, twice, is one.
        agreed = 2 * np.minimum(out[:, CLOSED], visemes[:, VISEME_INDEX["PP"]])
        out[:, CLOSED] = np.maximum(out[:, CLOSED], agreed)
        out[:, [CLOSED, BITE]] = _decided(out[:, [CLOSED, BITE]])
        return np.clip(out, 0.0, 1.0)

    def _check(self, mel: NDArray[np.float32]) -> None:
        if mel.ndim != 2 or mel.shape[1] != N_MELS or len(mel) <= CONTEXT_FRAMES:
            raise InvalidInputError(
                f"mel: shape {list(mel.shape)} instead of [more than {CONTEXT_FRAMES}, {N_MELS}]"
            )

    def _inferred(self, mel: NDArray[np.float32]) -> Generator[RowAsk, Any, _Told]:
        # An output depends on its own context alone, so pieces come out as the whole does.
        pieces: list[_Told] = []
        for start in range(0, len(mel) - CONTEXT_FRAMES, _MOST_FRAMES - CONTEXT_FRAMES):
            pieces.append((yield RowAsk(self._network, mel[start : start + _MOST_FRAMES])))
        visemes, coefficients = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
        return visemes, coefficients

    def _run(self, rows: Sequence[NDArray[np.float32]]) -> list[_Told]:
        """Rows of other lengths go together for the same reason: what stands behind the end of
        one is no context of its own outputs."""
        longest = max(map(len, rows))
        mel = np.stack([np.pad(row, ((0, longest - len(row)), (0, 0))) for row in rows])
        out = self._engine.infer({"mel": mel})
        sizes = [len(row) - CONTEXT_FRAMES for row in rows]
        told = zip(out["visemes"], out["coefficients"], sizes, strict=True)
        return [(visemes[:n], coefficients[:n]) for visemes, coefficients, n in told]


class AudioToFaceStream:
    """Hears one voice: sound in pieces of any length, lip coefficients out at 100 Hz."""

    def __init__(self, network: AudioToFace, sample_rate_hz: int) -> None:
        """Raises InvalidInputError for a rate outside 8000 to 48000."""
        self._network = network
        self.sample_rate_hz = check_sample_rate(sample_rate_hz)
        self._resampler = None
        if sample_rate_hz != SAMPLE_RATE_HZ:
            self._resampler = soxr.ResampleStream(
                sample_rate_hz, SAMPLE_RATE_HZ, 1, dtype="float32", quality="MQ"
            )
        self._sound = np.zeros(0, np.float32)
        past = CONTEXT_FRAMES - LOOK_AHEAD_FRAMES
        self._features = np.full((past, N_MELS), SILENCE_LOG, np.float32)
        self._loudness = Loudness(1 / OUTPUT_RATE_HZ)
        self._gains = np.ones(past, np.float32)
        """Of the jaw, one for each row of the features."""
        self._heard_samples = 0
        self.produced = 0
        """Outputs so far; output k happens at output_times_s(k, 1)."""

    @property
    def heard_s(self) -> float:
        """Length of the sound so far."""
        return self._heard_samples / SAMPLE_RATE_HZ

    def hear(self, pcm: NDArray[np.int16], *, last: bool = False) -> NDArray[np.float32]:
        """Coefficients that have become certain: [K, len(LIP_COEFFICIENTS)] float32, K may be 0.

        pcm: [N] int16. With `last` the rest comes too, up to the end of the sound. Raises
        InvalidInputError for another rank or dtype.
        """
        (lips,) = alone(self.steps(pcm, last=last))
        return lips

    def steps(self, pcm: NDArray[np.int16], *, last: bool = False) -> LipSteps:
        """The same for a lane, behind what the network is asked."""
        if pcm.ndim != 1 or pcm.dtype != np.int16:
            raise InvalidInputError(f"pcm: {pcm.dtype} of rank {pcm.ndim}, not int16 of rank 1")
        sound = self._resampled(pcm.astype(np.float32) / 32768.0, last)
        self._heard_samples += len(sound)
        if last:
            silence = WINDOW_SAMPLES + (LOOK_AHEAD_FRAMES + 1) * HOP_SAMPLES
            sound = np.concatenate([sound, np.zeros(silence, np.float32)])
        self._sound = np.concatenate([self._sound, sound])
        fresh = log_mel(self._sound)
        self._sound = self._sound[len(fresh) * HOP_SAMPLES :]
        self._features = np.concatenate([self._features, fresh])
        self._gains = np.concatenate([self._gains, self._loudness.gains(fresh.mean(axis=1))])
        if len(self._features) <= CONTEXT_FRAMES:
            yield np.zeros((0, len(LIP_COEFFICIENTS)), np.float32)
            return
        out = yield from self._network.lips(self._features)
        past = CONTEXT_FRAMES - LOOK_AHEAD_FRAMES
        out[:, JAW] = np.minimum(1.0, out[:, JAW] * self._gains[past : past + len(out)])
        self._features = self._features[len(out) :]
        self._gains = self._gains[len(out) :]
        if last:
            out = out[: max(0, self._heard_samples // HOP_SAMPLES - self.produced)]
        self.produced += len(out)
        yield out

    def _resampled(self, sound: NDArray[np.float32], last: bool) -> NDArray[np.float32]:
        if self._resampler is None:
            return sound
        return np.asarray(self._resampler.resample_chunk(sound, last=last), np.float32)


def log_mel(pcm: NDArray[np.float32]) -> NDArray[np.float32]:
    """Log-mel of whole windows: pcm [N] float32 in -1..1 at 16 kHz -> [T, N_MELS] float32.

    Frame t covers samples t * HOP to t * HOP + WINDOW, so T = (N - WINDOW) // HOP + 1, or 0.
    Raises InvalidInputError for another rank or dtype.
    """
    if pcm.ndim != 1 or pcm.dtype != np.float32:
        raise InvalidInputError(f"pcm: {pcm.dtype} of rank {pcm.ndim} instead of float32 of rank 1")
    if len(pcm) < WINDOW_SAMPLES:
        return np.zeros((0, N_MELS), np.float32)
    frames = np.lib.stride_tricks.sliding_window_view(pcm, WINDOW_SAMPLES)[::HOP_SAMPLES]
    power = np.abs(np.fft.rfft(frames * _window(), _FFT_SIZE)) ** 2
    return np.asarray(np.log(power @ _filters() + _FLOOR), np.float32)


def _decided(closure: NDArray[np.float32]) -> NDArray[np.float32]:
    """Lips touch or they do not: what the network holds for likely is a whole closure."""
    unlikely, likely = _LIKELY
    x = np.clip((closure - unlikely) / (likely - unlikely), 0.0, 1.0)
    return np.asarray(x * x * (3 - 2 * x), np.float32)


@cache
def _filters() -> NDArray[np.float32]:
    """Over the power spectrum: [bins, N_MELS]."""
    edges_hz = HTK.edges_hz(N_MELS, _LOW_HZ, _HIGH_HZ)
    return triangles(edges_hz, SAMPLE_RATE_HZ, _FFT_SIZE).T.astype(np.float32)


@cache
def _window() -> NDArray[np.float32]:
    return np.hanning(WINDOW_SAMPLES).astype(np.float32)
