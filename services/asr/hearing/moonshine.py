"""Moonshine (Jeffries et al. 2024, arXiv:2410.15608): English speech to text.

The encoder's cost grows with the length of the sound, so that short questions
cost little. The model gives no times: a transcript is one segment.
"""

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from services.asr.hearing.decoding import Cache, agreed, empty_cache, loop_start
from services.asr.hearing.listeners import (
    LONGEST_HEARD_SAMPLES,
    SoundModel,
    rows_of,
)
from services.asr.hearing.log_mel import SAMPLE_RATE_HZ
from services.asr.hearing.transcript import Encoded, Segment, Transcriber, Transcript
from visavis.engine import Engine, Resident, Tensors, host_array
from visavis.engine.rows import RowAsk, RowNetwork, most_rows, result_of
from visavis.serving.errors import UnknownNameError
from visavis.wire.clock import MonotonicClock

LANGUAGE = "en"
MAX_SAMPLES = 30 * SAMPLE_RATE_HZ

_CLOCK = MonotonicClock()

# Sound cut off right after speech gives no text at all; silence put before speech makes for
# wrong words and now and then none.
_MARGIN_SAMPLES = SAMPLE_RATE_HZ // 10
# A quarter of a second of quiet before a word can make the model mute: then it hears the
# rest once more without it.
_QUIET_START_SAMPLES = SAMPLE_RATE_HZ * 4 // 25
# The encoder's convolutions need about this much to give one frame.
_FEWEST_SAMPLES = SAMPLE_RATE_HZ // 8
# Longer ones may be pieces of a text, which no later one may overtake: they are heard in one go,
# and nobody's row is filled up to theirs.
_LONGEST_SHARED_SAMPLES = 10 * SAMPLE_RATE_HZ
# The paper's bound for English; more is a loop.
_TOKENS_PER_SECOND = 6.5
_SPARE_TOKENS = 4
_START, _END = 1, 2
# The input of an encoder that has masks; see `visavis.bundles.moonshine`.
_LENGTHS = "lengths"
_HOP_SAMPLES = 384
_FRAME_SAMPLES = 895
"""That a frame of the encoder is made of."""
_HUM_WORDS = 2
_LONGEST_HUM_SAMPLES = SAMPLE_RATE_HZ * 5 // 4
_HUMS = ("Mm-hmm.", "Uh-huh.")
# Where no encoder was listened to: hums are so much less likely than the words written for them.
_EVEN_HUM_ODDS = -5.8


class Moonshine(Transcriber):
    """Recognises English: encoder and merged decoder as Useful Sensors publish them."""

    def __init__(
        self,
        encoder: Engine,
        decoder: Engine,
        tokenizer: Tokenizer,
        listeners: SoundModel | None = None,
    ) -> None:
        """listeners: fitted to this encoder; None: the decoder is asked about hums."""
        self._encoder = encoder
        self._decoder = decoder
        self._tokenizer = tokenizer
        self._listeners = listeners
        # Without masks, as published, a row would come out otherwise beside a longer one.
        rows = most_rows(encoder, "input_values", _LENGTHS) if _LENGTHS in encoder.inputs else 1
        self._encodings = RowNetwork(self._encode, rows, len)

    @property
    def languages(self) -> tuple[str, ...]:
        return (LANGUAGE,)

    def transcribe(
        self, pcm: NDArray[np.float32], language: str = LANGUAGE, draft: str = ""
    ) -> Transcript:
        """pcm: [N] float32 in -1..1 at 16 kHz, at most 30 s.

        draft: a guess at the text. The decoder looks at all of it in one step and goes
        on from where it would have said something else (speculative decoding, Leviathan
        et al. 2022, arXiv:2211.17192, with the guess as the draft model).

        Raises UnknownNameError for another language than English, ValueError
        for too much sound.
        """
        return result_of(self.steps(pcm, language, draft))

    def steps(
        self, pcm: NDArray[np.float32], language: str = LANGUAGE, draft: str = ""
    ) -> Generator[RowAsk, Any, Transcript]:
        """The same; the encoder's rows can be shared. Raises as `transcribe` does."""
        if language not in ("", LANGUAGE):
            raise UnknownNameError(f"language: Moonshine knows {LANGUAGE!r} only, not {language!r}")
        if pcm.ndim != 1 or len(pcm) > MAX_SAMPLES:
            raise ValueError(f"Moonshine takes [N] samples, N <= {MAX_SAMPLES}, got {pcm.shape}")
        if len(pcm) < _FEWEST_SAMPLES:
            return Transcript("", LANGUAGE)
        if len(pcm) < _LONGEST_SHARED_SAMPLES:
            encoded = yield RowAsk(self._encodings, _with_margin(pcm))
        else:
            (encoded,) = self._encode([_with_margin(pcm)])
        text, hum_odds = self._heard(pcm, encoded.states, draft)
        if not text and len(pcm) >= 2 * _QUIET_START_SAMPLES:
            rest = pcm[_QUIET_START_SAMPLES:]
            (encoded,) = self._encode([_with_margin(rest)])
            text, hum_odds = self._heard(rest, encoded.states, draft)
        segments = (Segment(text, 0, len(pcm)),) if text else ()
        return Transcript(text, LANGUAGE, segments, hum_odds)

    def _heard(
        self, pcm: NDArray[np.float32], hidden: NDArray[np.float32], draft: str
    ) -> tuple[str, float | None]:
        """The text and, of a short sound, the log odds of a hum. hidden: the encoder's of pcm."""
        budget = int(len(pcm) / SAMPLE_RATE_HZ * _TOKENS_PER_SECOND) + _SPARE_TOKENS
        guess = self._tokenizer.encode(draft, add_special_tokens=False).ids if draft else []
        tokens = self._decode(hidden, budget, guess[:budget])
        text = str(self._tokenizer.decode(tokens)).strip()
        if self._listeners is not None:
            if not text or len(pcm) > LONGEST_HEARD_SAMPLES:
                return text, None
            return text, self._listeners.odds(rows_of(hidden[0], pcm, _HOP_SAMPLES))
        if not text or len(pcm) > _LONGEST_HUM_SAMPLES or len(text.split()) > _HUM_WORDS:
            return text, None
        hums = (self._tokenizer.encode(hum, add_special_tokens=False).ids for hum in _HUMS)
        likeliest = max(self._log_likelihood(hidden, hum) for hum in hums)
        return text, likeliest - self._log_likelihood(hidden, tokens) - _EVEN_HUM_ODDS

    def rows(self, pcm: NDArray[np.float32]) -> NDArray[np.float32]:
        """What a SoundModel hears of pcm, [N] float32 at 16 kHz."""
        (encoded,) = self._encode([_with_margin(pcm)])
        return rows_of(encoded.states[0], pcm, _HOP_SAMPLES)

    def _encode(self, sounds: Sequence[NDArray[np.float32]]) -> list[Encoded]:
        """sounds: [N] float32 each, with their margins, N of _FRAME_SAMPLES at least."""
        began_s = _CLOCK.now()
        sizes = [len(sound) for sound in sounds]
        padded = [np.pad(sound, (0, max(sizes) - len(sound))) for sound in sounds]
        inputs: dict[str, Resident] = {"input_values": np.stack(padded)}
        if _LENGTHS in self._encoder.inputs:
            inputs[_LENGTHS] = np.array(sizes, np.int64)[:, None]
        states = self._encoder.infer(inputs)["last_hidden_state"]
        seconds = _CLOCK.now() - began_s
        frames = [(size - _FRAME_SAMPLES) // _HOP_SAMPLES + 1 for size in sizes]
        return [Encoded(states[i : i + 1, :n], seconds) for i, n in enumerate(frames)]

    def _log_likelihood(self, hidden: NDArray[np.float32], tokens: list[int]) -> float:
        """Of exactly these tokens, [N] ids, for the sound: one step of the decoder."""
        out = self._step([_START, *tokens], hidden, empty_cache(self._decoder), first=True)
        logits = host_array(out["logits"])[0].astype(np.float64)
        peaks = logits.max(axis=-1)
        totals = peaks + np.log(np.exp(logits - peaks[:, None]).sum(axis=-1))
        told = logits[np.arange(len(tokens) + 1), [*tokens, _END]]
        return float((told - totals).sum())

    def _decode(
        self, hidden: NDArray[np.float32], budget: int, guess: list[int] | None = None
    ) -> list[int]:
        cache = empty_cache(self._decoder)
        tokens: list[int] = []
        seen = [_START, *(guess or [])]
        for step in range(budget):
            out = self._step(seen, hidden, cache, first=step == 0)
            best: list[int] = host_array(out["logits"])[0].argmax(axis=-1).tolist()
            right = agreed(best, seen[1:])
            tokens += best[: right + 1]
            if _END in tokens:
                return tokens[: tokens.index(_END)]
            if (start := loop_start(tokens)) is not None:
                return tokens[:start]
            for name in cache:
                # The keys and values of the sound are made in the first step only.
                if step == 0 or ".decoder." in name:
                    cache[name] = out[_present(name)]
            if right < len(seen) - 1:
                cache = _first_positions(cache, right + 1)
            seen = tokens[-1:]
            if len(tokens) >= budget:
                break
        return tokens

    def _step(
        self, tokens: list[int], hidden: NDArray[np.float32], cache: Cache, *, first: bool
    ) -> Tensors:
        """Logits of `tokens`, and the cache with them, which stays on a GPU where it is used."""
        return self._decoder.infer_resident(
            {
                "input_ids": np.array([tokens], np.int64),
                "encoder_hidden_states": hidden,
                "use_cache_branch": np.array([not first]),
                **cache,
            },
            [_present(name) for name in cache],
        )


def _with_margin(pcm: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.pad(pcm, (0, _MARGIN_SAMPLES))


def _first_positions(cache: Cache, n_positions: int) -> Cache:
    """The cache less what was computed of a guess that turned out wrong."""
    return {
        name: host_array(kept)[:, :, :n_positions] if ".decoder." in name else kept
        for name, kept in cache.items()
    }


def _present(past: str) -> str:
    """Output that is the input `past` of the next step."""
    return past.replace("past_key_values", "present")
