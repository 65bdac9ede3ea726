"""The Mandarin voice: text -> phonemes -> durations -> mel -> sound, vocoded piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from services.tts.normalizer_zh import normalize
from services.tts.phonemes_zh import BREAK, END, BakerPhonemes, is_final, pinyin_spans
from services.tts.prosody import PLAIN, Prosody
from services.tts.sound import (
    HOP_SAMPLES,
    MEL_MARGIN_SAMPLES,
    SILENCE,
    Block,
    Span,
    cut_spans,
    fade,
    log_mel_padded,
    place_spans,
)
from services.tts.word_ends import last_spoken_words, owners_within, place_words
from visavis.engine import Engine, Resident, host_array

# The vocoder sees 24 frames to each side: with that much context a piece comes out as it does in
# the whole, down to 1e-5.
CONTEXT_FRAMES = 24
# Small at first, so that sound leaves early; then larger, so that less is computed twice.
FIRST_PIECE_FRAMES = 12
PIECE_FRAMES = 64
MIN_FRAMES = 10
"""Fewer, and the vocoder's reflection at the edges has nothing to reflect."""
MAX_FRAMES = 2048
"""The decoder has no more positions."""

MAX_SYMBOLS = 144
"""At once: 48 syllables of at most 20 frames, 40 at half speed, are within MAX_FRAMES."""

_MARGIN_FRAMES = 1
# Brings the voice's speech to the loudness that both voices share.
_GAIN = np.float32(1.15)
_MEL_REACH = -(-MEL_MARGIN_SAMPLES // HOP_SAMPLES)


class MandarinVoice:
    """Engines: encoder.onnx, decoder.onnx and vocoder.onnx, loaded. `mapper`: mapper.json."""

    language = "zh"

    def __init__(self, encoder: Engine, decoder: Engine, vocoder: Engine, mapper: Path) -> None:
        self._encoder = encoder
        self._decoder = decoder
        self._vocoder = vocoder
        self.phonemes = BakerPhonemes(mapper)

    def speak(self, text: str, prosody: Prosody = PLAIN) -> Iterator[Block]:
        """Sound of `text`, first pieces first; nothing where it has no sound.

        Its pitch cannot be changed: the graph has the predictor's melody inside.
        """
        symbols = self.phonemes.symbols(normalize(text))
        owners = last_spoken_words(text, sum(map(is_final, symbols)))
        spoken = 0
        for part in split_symbols(symbols):
            count = sum(map(is_final, part))
            here = owners_within(owners, spoken, count)
            spoken += count
            mel, spans, ends = self._acoustics(part, prosody.speed)
            yield from self._vocode(mel, spans, ends, here)

    def acoustics(self, symbols: list[str], speed: float) -> tuple[NDArray[np.float32], list[Span]]:
        """The network's own mel [1, T, 80] float32 and the phonemes' spans, T hops in all."""
        mel, spans, _ = self._acoustics(symbols, speed)
        return host_array(mel), spans

    def _acoustics(
        self, symbols: list[str], speed: float
    ) -> tuple[Resident, list[Span], list[int]]:
        """The same, and the hop where each syllable ends.

        On a GPU the mel stays there: only the vocoder needs it.

        What the bus carries is the mel of the voice, which both languages have: 80 float32
        every 300 samples, 25.6 kB for a second of speech.
        """
        ids = np.array([self.phonemes.ids(symbols)], np.int64)
        encoded = self._encoder.infer({"ids": ids})
        durations = np.rint(encoded["durations"][0] / speed).astype(np.int64)
        durations[-1] = max(durations[-1], MIN_FRAMES - int(durations[:-1].sum()))
        if durations.sum() > MAX_FRAMES:  # speech does not get there: the parts are too short
            durations = durations * MAX_FRAMES // int(durations.sum())
        hidden = np.repeat(encoded["hidden"], durations, axis=1)
        mask = np.ones(hidden.shape[:2], np.float32)
        mel = self._decoder.infer_resident({"hidden": hidden, "mask": mask}, ["mel"])["mel"]
        heard = np.cumsum(durations)
        ends = [int(heard[i]) for i, symbol in enumerate(symbols) if is_final(symbol)]
        return mel, pinyin_spans([*symbols, END], durations.tolist()), ends

    def vocode(self, mel: Resident, first: int, end: int) -> NDArray[np.float32]:
        """Voice [(end - first) * 300] of the frames `first` to `end` of mel [1, T, 80].

        As it is in the voice of the whole mel. Needs a T of MIN_FRAMES at least.
        """
        left = max(0, min(first - CONTEXT_FRAMES, mel.shape[1] - MIN_FRAMES))
        right = min(mel.shape[1], max(end + CONTEXT_FRAMES, MIN_FRAMES))
        voice: NDArray[np.float32] = self._vocoder.infer({"mel": mel[:, left:right]})["voice"][0]
        return voice[(first - left) * HOP_SAMPLES : (end - left) * HOP_SAMPLES] * _GAIN

    def _vocode(
        self,
        mel: Resident,
        spans: list[Span],
        ends_hops: Sequence[int],
        owners: Sequence[int | None],
    ) -> Iterator[Block]:
        total = mel.shape[1]
        begin, finish = _without_silence(spans, total)
        start, size = begin, FIRST_PIECE_FRAMES
        while start < finish:
            end = start + size if finish - start - size >= FIRST_PIECE_FRAMES else finish
            left, right = max(0, start - _MEL_REACH), min(total, end + _MEL_REACH)
            around = self.vocode(mel, left, right)
            around = np.pad(
                around,
                (
                    (left - start + _MEL_REACH) * HOP_SAMPLES,
                    (end + _MEL_REACH - right) * HOP_SAMPLES,
                ),
            )
            margin = _MEL_REACH * HOP_SAMPLES
            voice = fade(around[margin:-margin], at_start=start == begin, at_end=end == finish)
            surplus = margin - MEL_MARGIN_SAMPLES
            yield Block(
                voice,
                log_mel_padded(around[surplus : len(around) - surplus]),
                place_spans(cut_spans(spans, begin, finish), start - begin, end - begin),
                place_words(owners, ends_hops, start, end),
            )
            start, size = end, min(PIECE_FRAMES, 3 * size)


def _without_silence(spans: list[Span], total: int) -> tuple[int, int]:
    """First and last frame to be spoken: silence at the ends is left out but for a margin."""
    lead = spans[0].hops if spans[0].symbol == SILENCE else 0
    tail = spans[-1].hops if spans[-1].symbol == SILENCE else 0
    return max(0, lead - _MARGIN_FRAMES), min(total, total - tail + _MARGIN_FRAMES)


def split_symbols(symbols: list[str]) -> Iterator[list[str]]:
    """Symbols in parts that the decoder has positions for, cut between syllables."""
    inner = [symbol for symbol in symbols if symbol != SILENCE]
    while inner:
        size = len(inner)
        if size > MAX_SYMBOLS:
            breaks = [i for i in range(MAX_SYMBOLS // 2, MAX_SYMBOLS) if inner[i] == BREAK]
            marks = [i for i in range(MAX_SYMBOLS) if inner[i].startswith("#")]
            size = (breaks or marks or [MAX_SYMBOLS])[-1]
        yield [SILENCE, *inner[:size], SILENCE]
        inner = inner[size:]
        while inner and inner[0].startswith("#"):
            inner = inner[1:]
