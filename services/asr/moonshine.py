"""Moonshine (Jeffries et al. 2024, arXiv:2410.15608): English speech to text.

The encoder's cost grows with the length of the sound, so that short questions
cost little. The model gives no times: a transcript is one segment.
"""

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from services.asr.loop_guard import loop_start
from services.asr.transcript import Segment, Transcript
from visavis.engine import Engine, Resident, host_array
from visavis.errors import UnknownNameError

SAMPLE_RATE_HZ = 16_000
LANGUAGE = "en"
MAX_SAMPLES = 30 * SAMPLE_RATE_HZ

# Sound cut off right after speech gives no text at all.
_MARGIN_SAMPLES = SAMPLE_RATE_HZ // 10
# The encoder's convolutions need about this much to give one frame.
_FEWEST_SAMPLES = SAMPLE_RATE_HZ // 8
# The paper's bound for English; more is a loop.
_TOKENS_PER_SECOND = 6.5
_SPARE_TOKENS = 4
_START, _END = 1, 2

Cache = dict[str, Resident]


class Moonshine:
    """Encoder and merged decoder as Useful Sensors publish them."""

    def __init__(self, encoder: Engine, decoder: Engine, tokenizer: Tokenizer) -> None:
        self._encoder = encoder
        self._decoder = decoder
        self._tokenizer = tokenizer

    @property
    def languages(self) -> tuple[str, ...]:
        return (LANGUAGE,)

    def transcribe(self, pcm: NDArray[np.float32], language: str = LANGUAGE) -> Transcript:
        """pcm: [N] float32 in -1..1 at 16 kHz, at most 30 s.

        Raises UnknownNameError for another language than English, ValueError
        for too much sound.
        """
        if language not in ("", LANGUAGE):
            raise UnknownNameError(f"language: Moonshine knows {LANGUAGE!r} only, not {language!r}")
        if pcm.ndim != 1 or len(pcm) > MAX_SAMPLES:
            raise ValueError(f"Moonshine takes [N] samples, N <= {MAX_SAMPLES}, got {pcm.shape}")
        if len(pcm) < _FEWEST_SAMPLES:
            return Transcript("", LANGUAGE)
        padded = np.pad(pcm, _MARGIN_SAMPLES)[None]
        hidden = self._encoder.infer({"input_values": padded})["last_hidden_state"]
        budget = int(len(pcm) / SAMPLE_RATE_HZ * _TOKENS_PER_SECOND) + _SPARE_TOKENS
        text = self._tokenizer.decode(self._decode(hidden, budget)).strip()
        segments = (Segment(text, 0, len(pcm)),) if text else ()
        return Transcript(text, LANGUAGE, segments)

    def _empty_cache(self) -> Cache:
        cache: Cache = {}
        for name, spec in self._decoder.inputs.items():
            if name.startswith("past_key_values."):
                _, heads, _, width = spec.shape
                assert heads and width
                cache[name] = np.zeros((1, heads, 0, width), np.float32)
        return cache

    def _decode(self, hidden: NDArray[np.float32], budget: int) -> list[int]:
        cache = self._empty_cache()
        tokens: list[int] = []
        latest = _START
        for step in range(budget):
            # On a GPU the cache stays there: it would cost more to move than to use.
            out = self._decoder.infer_resident(
                {
                    "input_ids": np.array([[latest]], np.int64),
                    "encoder_hidden_states": hidden,
                    "use_cache_branch": np.array([step > 0]),
                    **cache,
                },
                [_present(name) for name in cache],
            )
            latest = int(host_array(out["logits"])[0, -1].argmax())
            if latest == _END:
                break
            tokens.append(latest)
            if (start := loop_start(tokens)) is not None:
                return tokens[:start]
            for name in cache:
                # The keys and values of the sound are made in the first step only.
                if step == 0 or ".decoder." in name:
                    cache[name] = out[_present(name)]
        return tokens


def _present(past: str) -> str:
    """Output that is the input `past` of the next step."""
    return past.replace("past_key_values", "present")
