"""Voice activity (Silero VAD) and the end of a turn by intonation (smart-turn)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from services.asr.hearing.log_mel import SAMPLE_RATE_HZ as SAMPLE_RATE_HZ
from services.asr.hearing.log_mel import log_mel
from visavis.engine import Engine
from visavis.engine.rows import most_rows

# Of a frame of voice activity: 32 ms.
FRAME_SAMPLES = 512
# The network sees the end of the previous frame before the new one.
_CONTEXT_SAMPLES = 64
_MEMORY_SHAPE = (2, 1, 128)

# What the turn detector looks at.
WINDOW_SAMPLES = 8 * SAMPLE_RATE_HZ
_VARIANCE_FLOOR = 1e-7


@dataclass(slots=True)
class VadState:
    """What one stream of sound has left behind in a VoiceDetector. One per stream, never shared."""

    memory: NDArray[np.float32] = field(default_factory=lambda: np.zeros(_MEMORY_SHAPE, np.float32))
    context: NDArray[np.float32] = field(
        default_factory=lambda: np.zeros(_CONTEXT_SAMPLES, np.float32)
    )


@dataclass(frozen=True, slots=True, eq=False)
class VadAsk:
    """Frames of one stream, [K, FRAME_SAMPLES] float32 in -1..1 at 16 kHz, and its state."""

    frames: NDArray[np.float32]
    state: VadState


class VoiceDetector:
    """How likely 32 ms of sound hold speech, by the Silero VAD network.

    It is stateless: the state of a stream is passed in and moved on.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._rate = np.array(SAMPLE_RATE_HZ, np.int64)

    @property
    def rows(self) -> int:
        """Streams in one run."""
        return most_rows(self._engine, "input")

    def probability(self, frame: NDArray[np.float32], state: VadState) -> float:
        """frame: [FRAME_SAMPLES] float32 in -1..1 at 16 kHz -> 0..1.

        Raises ValueError for another shape.
        """
        (heard,) = self.probabilities([VadAsk(frame[None], state)])
        return heard[0]

    def probabilities(self, asks: Sequence[VadAsk]) -> list[list[float]]:
        """For each ask a probability per frame; at every step all streams that have one more.

        At most `rows` asks, each of a stream of its own. Raises ValueError for a frame that is not
        [FRAME_SAMPLES].
        """
        told: list[list[float]] = [[] for _ in asks]
        for step in range(max(len(ask.frames) for ask in asks)):
            at = [row for row, ask in enumerate(asks) if step < len(ask.frames)]
            heard = self._step([(asks[row].frames[step], asks[row].state) for row in at])
            for row, probability in zip(at, heard, strict=True):
                told[row].append(probability)
        return told

    def _step(self, rows: Sequence[tuple[NDArray[np.float32], VadState]]) -> list[float]:
        for frame, _ in rows:
            if frame.shape != (FRAME_SAMPLES,):
                raise ValueError(f"a VAD frame is [{FRAME_SAMPLES}], got {frame.shape}")
        seen = np.stack([np.concatenate([state.context, frame]) for frame, state in rows])
        memory = np.concatenate([state.memory for _, state in rows], axis=1)
        out = self._engine.infer({"input": seen, "state": memory, "sr": self._rate})
        for row, (frame, state) in enumerate(rows):
            state.memory = out["stateN"][:, row : row + 1]
            state.context = frame[-_CONTEXT_SAMPLES:].copy()
        return [float(probability) for probability in out["output"][:, 0]]


class TurnDetector:
    """Has the visitor finished, or only paused? Asks the smart-turn v3 network, which judges by
    the sound alone, in any of the 23 languages it was trained on.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def rows(self) -> int:
        """Turns in one run."""
        return most_rows(self._engine, "input_features")

    def probability(self, pcm: NDArray[np.float32]) -> float:
        """Of the turn being over. pcm: [N] float32 in -1..1 at 16 kHz, the turn
        so far; only its last 8 s count. Raises ValueError for another rank."""
        return self.probabilities([pcm])[0]

    def probabilities(self, turns: Sequence[NDArray[np.float32]]) -> list[float]:
        """The same for several, at most `rows`, in one run."""
        features = np.stack([_turn_features(pcm) for pcm in turns])
        out = self._engine.infer({"input_features": features})
        # Named logits, but the graph ends in a sigmoid.
        return [float(probability) for probability in out["logits"][:, 0]]


def _turn_features(pcm: NDArray[np.float32]) -> NDArray[np.float32]:
    if pcm.ndim != 1:
        raise ValueError(f"the turn detector takes [N] samples, got shape {pcm.shape}")
    recent = pcm[-WINDOW_SAMPLES:]
    even = WINDOW_SAMPLES - len(recent)
    window = np.pad(recent, (even, 0))
    level = (window - window.mean()) / np.sqrt(window.var() + _VARIANCE_FLOOR)
    return log_mel(level.astype(np.float32), even_samples=even)
