"""Has the visitor finished, or only paused? Asks the smart-turn v3 network."""

import numpy as np
from numpy.typing import NDArray

from services.asr.log_mel import SAMPLE_RATE_HZ, log_mel
from visavis.engine import Engine

WINDOW_SAMPLES = 8 * SAMPLE_RATE_HZ
_VARIANCE_FLOOR = 1e-7


class TurnDetector:
    """Judges by intonation and words alone, in any of the 23 languages it was trained on."""

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
