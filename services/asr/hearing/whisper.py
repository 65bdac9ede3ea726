"""Whisper (Radford et al. 2022, arXiv:2212.04356): speech of 99 languages to text.

Greedy decoding with the paper's timestamp rules. The encoder sees only as
much sound as there is, plus a margin of silence, instead of always 30 s: with
none of it the model, trained on padded windows, stumbles at the end.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from opencc import OpenCC
from tokenizers import Tokenizer

from services.asr.hearing.decoding import Cache, empty_cache, loop_start
from services.asr.hearing.listeners import LONGEST_HEARD_SAMPLES, SoundModel, rows_of
from services.asr.hearing.log_mel import N_MELS, SAMPLE_RATE_HZ, log_mel
from services.asr.hearing.transcript import UNSPACED, Segment, Transcriber, Transcript
from visavis.engine import Engine, Tensors, host_array
from visavis.serving.errors import UnknownNameError

MAX_SAMPLES = 30 * SAMPLE_RATE_HZ

_SAMPLES_PER_AUDIO_FRAME = 320
_MARGIN_SAMPLES = SAMPLE_RATE_HZ * 3 // 2
_TOKENS_PER_SECOND = 14
_SPARE_TOKENS = 16
_LATEST_FIRST_TIMESTAMP = 50
_ROWS = "cross_value_0"
_FITTED_LANGUAGE = "zh"
"""Whose listeners are told."""
_ENGLISH_VOCABULARY = 51_864
"""Models for English alone have so many tokens, all others have more."""
# Signs that only transcribe sounds other than speech: "[music]", "♪".
_NON_SPEECH = frozenset("♪♩♫♬♭♮♯[](){}<>#*+/=@\\^_`|~「」『』【】")


@dataclass(frozen=True, slots=True)
class Guards:
    """Limits beyond which a decoding counts as no speech."""

    no_speech: float = 0.6
    mean_log_probability: float = -1.0


@dataclass(frozen=True, slots=True)
class Decoded:
    """Tokens without the prompt and the end, and how sure the model was."""

    tokens: list[int]
    mean_log_probability: float
    no_speech: float


class Whisper(Transcriber):
    """Recognises 99 languages: encoder and decoder as visavis.bundles.whisper.graph writes them."""

    def __init__(
        self,
        encoder: Engine,
        decoder: Engine,
        tokenizer: Tokenizer,
        guards: Guards | None = None,
        listeners: SoundModel | None = None,
    ) -> None:
        """listeners: fitted to Mandarin as this encoder hears it; None: hums are not told."""
        self._encoder = encoder
        self._decoder = decoder
        self._tokenizer = tokenizer
        self._guards = guards or Guards()
        self._listeners = listeners
        self._simplify = OpenCC("t2s")
        self._tokens = _SpecialTokens(tokenizer)
        n_vocabulary = decoder.outputs["logits"].shape[-1]
        self._is_english = n_vocabulary is not None and n_vocabulary <= _ENGLISH_VOCABULARY
        # 128 bands since large-v3.
        self._n_mels = encoder.inputs["mel"].shape[1] or N_MELS

    @property
    def languages(self) -> tuple[str, ...]:
        """Codes as Whisper writes them, mostly ISO 639-1."""
        return ("en",) if self._is_english else tuple(self._tokens.languages)

    def transcribe(self, pcm: NDArray[np.float32], language: str, draft: str = "") -> Transcript:
        """pcm: [N] float32 in -1..1 at 16 kHz, at most 30 s.

        draft: a guess at the text, see Moonshine.transcribe. An empty `language` is
        detected from the sound. Raises UnknownNameError for one that Whisper does not
        know, ValueError for too much sound.
        """
        if pcm.ndim != 1 or len(pcm) > MAX_SAMPLES:
            raise ValueError(f"Whisper takes [N] samples, N <= {MAX_SAMPLES}, got {pcm.shape}")
        if language and language not in self.languages:
            raise UnknownNameError(f"language: Whisper knows no {language!r}")
        if not len(pcm):
            return Transcript("", language)
        audio = self._encode(pcm)
        language = language or ("en" if self._is_english else self._detect(audio))
        budget = int(len(pcm) / SAMPLE_RATE_HZ * _TOKENS_PER_SECOND) + _SPARE_TOKENS
        guess = self._guess(draft, language)[:budget]
        decoded = self._decode(audio, language, budget, guess)
        segments = self._segments(decoded.tokens, language, len(pcm))
        if not segments or self._is_no_speech(decoded):
            return Transcript("", language)
        space = "" if language in UNSPACED else " "
        text = space.join(s.text for s in segments)
        hum_odds = None
        if self._listeners is not None and language == _FITTED_LANGUAGE:
            short = len(pcm) <= LONGEST_HEARD_SAMPLES
            hum_odds = self._listeners.odds(self._rows(audio, pcm)) if short else None
        return Transcript(text, language, tuple(segments), hum_odds)

    def rows(self, pcm: NDArray[np.float32]) -> NDArray[np.float32]:
        """What a SoundModel hears of pcm, [N] float32 at 16 kHz."""
        return self._rows(self._encode(pcm), pcm)

    def _rows(self, audio: Tensors, pcm: NDArray[np.float32]) -> NDArray[np.float32]:
        """Of the encoder's view of pcm: what a layer reads of its rows is a matrix times each."""
        values = host_array(audio[_ROWS])[0]
        heard = -(-len(pcm) // _SAMPLES_PER_AUDIO_FRAME)
        hidden = values[:, :heard].transpose(1, 0, 2).reshape(heard, -1)
        return rows_of(hidden, pcm, _SAMPLES_PER_AUDIO_FRAME)

    def _encode(self, pcm: NDArray[np.float32]) -> Tensors:
        """Keys and values of the sound, which on a GPU stay there: every step reads them."""
        wanted = min(len(pcm) + _MARGIN_SAMPLES, MAX_SAMPLES)
        wanted = -(-wanted // _SAMPLES_PER_AUDIO_FRAME) * _SAMPLES_PER_AUDIO_FRAME
        mel = log_mel(np.pad(pcm, (0, wanted - len(pcm))), self._n_mels)[None]
        return self._encoder.infer_resident({"mel": mel}, list(self._encoder.outputs))

    def _step(self, tokens: list[int], audio: Tensors, cache: Cache) -> NDArray[np.float32]:
        """Logits [N, vocabulary]; moves the cache on."""
        present = {name: name.replace("past_", "present_") for name in cache}
        out = self._decoder.infer_resident(
            {"tokens": np.array([tokens], np.int64), **audio, **cache}, list(present.values())
        )
        for name in cache:
            cache[name] = out[present[name]]
        logits: NDArray[np.float32] = host_array(out["logits"])[0]
        return logits

    def _detect(self, audio: Tensors) -> str:
        logits = self._step([self._tokens.start], audio, empty_cache(self._decoder))[0]
        codes = self._tokens.languages
        return max(codes, key=lambda code: float(logits[codes[code]]))

    def _decode(self, audio: Tensors, language: str, budget: int, guess: list[int]) -> Decoded:
        special = self._tokens
        cache = empty_cache(self._decoder)
        # Models for English alone were trained without language and task.
        told = [] if self._is_english else [special.languages[language], special.transcribe]
        prompt = [special.start, *told]
        # The guess is looked at in one step: row i tells what follows i tokens of it.
        rows = self._step([*prompt, *guess], audio, cache)
        no_speech = float(np.exp(_log_softmax(rows[0])[special.no_speech]))
        rows, row = rows[len(prompt) - 1 :], 0
        tokens: list[int] = []
        total = 0.0
        for _ in range(budget):
            scores = _log_softmax(rows[row])
            scores = self._allowed(scores, tokens)
            token = int(scores.argmax())
            total += float(scores[token])
            if token == special.end:
                break
            tokens.append(token)
            if (start := loop_start(tokens)) is not None:
                tokens = tokens[:start]
                break
            if row < len(guess) and guess[row] == token:
                row += 1
                continue
            if row < len(guess):
                _keep_positions(cache, len(prompt) + row)
            rows, row, guess = self._step([token], audio, cache), 0, []
        return Decoded(tokens, total / (len(tokens) + 1), no_speech)

    def _guess(self, draft: str, language: str) -> list[int]:
        """The draft as tokens, from the first timestamp on."""
        if not draft:
            return []
        space = "" if language in UNSPACED else " "
        ids = self._tokenizer.encode(space + draft, add_special_tokens=False).ids
        return [self._tokens.first_timestamp, *ids]

    def _allowed(self, scores: NDArray[np.float32], tokens: list[int]) -> NDArray[np.float32]:
        """Log probabilities [vocabulary] with what may not come next at -inf.

        Timestamps stand in pairs around text and never go back; where all of
        them together are likelier than any text, a timestamp it is.
        """
        first = self._tokens.first_timestamp
        scores[self._tokens.suppressed] = -np.inf
        if not tokens:
            scores[:first] = -np.inf
            scores[first + _LATEST_FIRST_TIMESTAMP + 1 :] = -np.inf
            return scores
        stamps = [token for token in tokens if token >= first]
        if tokens[-1] >= first:
            if len(tokens) < 2 or tokens[-2] >= first:
                scores[first:] = -np.inf
            else:
                scores[: self._tokens.end] = -np.inf
        # An end may not equal its start, or the segment would be empty.
        earliest = stamps[-1] + (0 if tokens[-1] >= first else 1)
        scores[first:earliest] = -np.inf
        likeliest_stamp = scores[first:].max()
        if np.isfinite(likeliest_stamp):
            together = likeliest_stamp + np.log(np.exp(scores[first:] - likeliest_stamp).sum())
            if together > scores[:first].max():
                scores[:first] = -np.inf
        return scores

    def _segments(self, tokens: list[int], language: str, n_samples: int) -> list[Segment]:
        first = self._tokens.first_timestamp
        segments: list[Segment] = []
        start, text = 0, list[int]()
        for token in [*tokens, first + n_samples // _SAMPLES_PER_AUDIO_FRAME]:
            if token < first:
                text.append(token)
                continue
            at = min((token - first) * _SAMPLES_PER_AUDIO_FRAME, n_samples)
            if text:
                written = self._write(text, language)
                if written:
                    segments.append(Segment(written, start, max(at, start)))
                text = []
            start = at
        return segments

    def _write(self, tokens: list[int], language: str) -> str:
        text: str = (
            self._tokenizer.decode(tokens, skip_special_tokens=True).replace("\ufffd", "").strip()
        )
        return str(self._simplify.convert(text)) if language == "zh" else text

    def _is_no_speech(self, decoded: Decoded) -> bool:
        return (
            decoded.no_speech > self._guards.no_speech
            and decoded.mean_log_probability < self._guards.mean_log_probability
        )


def _keep_positions(cache: Cache, n_positions: int) -> None:
    """Drop from the cache what was computed of a guess that turned out wrong."""
    for name, kept in cache.items():
        cache[name] = host_array(kept)[:, :, :n_positions]


class _SpecialTokens:
    """Ids of Whisper's control tokens, found by their names."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.start = self._id("<|startoftranscript|>")
        self.end = self._id("<|endoftext|>")
        self.transcribe = self._id("<|transcribe|>")
        self.no_speech = self._id("<|nocaptions|>", "<|nospeech|>")
        self.first_timestamp = self._id("<|notimestamps|>") + 1
        names = (
            str(tokenizer.id_to_token(i)) for i in range(self.start + 1, self._id("<|translate|>"))
        )
        self.languages = {name[2:-2]: self._id(name) for name in names}

    def _id(self, *names: str) -> int:
        for name in names:
            if (found := self._tokenizer.token_to_id(name)) is not None:
                return int(found)
        raise ValueError(f"the tokenizer has no {names[0]}: it is not Whisper's")

    @cached_property
    def suppressed(self) -> NDArray[np.int64]:
        """Every control token but the end, and every sign that is not speech."""
        control = range(self.end + 1, self.first_timestamp)
        texts = self._tokenizer.decode_batch([[i] for i in range(self.end)])
        signs = [i for i, text in enumerate(texts) if (s := text.strip()) and set(s) <= _NON_SPEECH]
        return np.array([*signs, *control], np.int64)


def _log_softmax(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    shifted = logits - logits.max()
    return np.asarray(shifted - np.log(np.exp(shifted).sum()), dtype=np.float32)
