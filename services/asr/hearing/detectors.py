"""Voice activity (Silero VAD) and the end of a turn by intonation (smart-turn)."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from services.asr.hearing.log_mel import SAMPLE_RATE_HZ as SAMPLE_RATE_HZ
from services.asr.hearing.log_mel import log_mel
from visavis.engine import Engine

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


class VoiceDetector:
    """How likely 32 ms of sound hold speech, by the Silero VAD network.

    It is stateless: the state of a stream is passed in and moved on.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._rate = np.array(SAMPLE_RATE_HZ, np.int64)

    def probability(self, frame: NDArray[np.float32], state: VadState) -> float:
        """frame: [FRAME_SAMPLES] float32 in -1..1 at 16 kHz -> 0..1.

        Raises ValueError for another shape.
        """
        if frame.shape != (FRAME_SAMPLES,):
            raise ValueError(f"a VAD frame is [{FRAME_SAMPLES}], got {frame.shape}")
        seen = np.concatenate([state.context, frame])[None]
        out = self._engine.infer({"input": seen, "state": state.memory, "sr": self._rate})
        state.memory = out["stateN"]
        state.context = frame[-_CONTEXT_SAMPLES:].copy()
        return float(out["output"][0, 0])


class TurnDetector:
    """Has the visitor finished, or only paused? Asks the smart-turn v3 network, which judges by
    the sound alone, in any of the 23 languages it was trained on.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def probability(self, pcm: NDArray[np.float32]) -> float:
        """Of the turn being over. pcm: [N] float32 in -1..1 at 16 kHz, the turn
        so far; only its last 8 s count. Raises ValueError for another rank."""
        if pcm.ndim != 1:
            raise ValueError(f"the turn detector takes [N] samples, got shape {pcm.shape}")
        recent = pcm[-WINDOW_SAMPLES:]
        window = np.pad(recent, (WINDOW_SAMPLES - len(recent), 0))
        level = (window - window.mean()) / np.sqrt(window.var() + _VARIANCE_FLOOR)
        out = self._engine.infer({"input_features": log_mel(level.astype(np.float32))[None]})
        # Named logits, but the graph ends in a sigmoid.
        return float(out["logits"][0, 0])
