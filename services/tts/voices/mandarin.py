"""The Mandarin voice: text -> phonemes -> durations -> mel -> sound, vocoded piece by piece."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.tts.prosody import PLAIN, Prosody
from services.tts.sound import (
    HOP_SAMPLES,
    MEL_MARGIN_SAMPLES,
    NOTHING,
    SILENCE,
    Block,
    Span,
    VoiceSteps,
    cut_spans,
    fade,
    first_audible,
    log_mel_padded,
    place_spans,
)
from services.tts.text.mandarin import (
    BREAK,
    END,
    BakerPhonemes,
    going_on,
    is_final,
    pinyin_spans,
)
from services.tts.text.mandarin_numbers import normalize
from services.tts.text.surroundings import ALONE, Surroundings
from services.tts.voices.joining import TAIL_SAMPLES, cut_out
from services.tts.word_ends import last_spoken_words, owners_within, place_words
from visavis.engine import Engine, Resident, host_array
from visavis.engine.rows import RowAsk, RowNetwork, most_rows, result_of

# The vocoder sees 24 frames to each side: with that much context a piece comes out as it does in
# the whole, down to 1e-5.
CONTEXT_FRAMES = 24
# Small at first, so that sound leaves early; then larger, so that less is computed twice.
FIRST_PIECE_FRAMES = 12
PIECE_FRAMES = 64
MAX_PIECE_FRAMES = 192
"""With their context they are within what the compiled vocoder takes, 256 frames."""
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
_MARGIN_SAMPLES = _MEL_REACH * HOP_SAMPLES
_REACH_FRAMES = _MEL_REACH + 1


class _Made(NamedTuple):
    """Voice of the frames from `left` to `right`."""

    left: int
    right: int
    voice: NDArray[np.float32]


class _Part(NamedTuple):
    """Symbols to be made at once, and which of their syllables are to be heard."""

    symbols: list[str]
    owners: list[int | None]
    """For every word of the text its last syllable, counted from `first`."""
    first: int
    stop: int
    goes_on: bool
    """Syllables from `stop` on are there for the sentence to go on."""


class _Spoken(NamedTuple):
    """A part before it is sound, one frame to a hop."""

    mel: Resident
    """[1, T, 80] float32."""
    spans: list[Span]
    owners: Sequence[int | None]
    """As in _Part."""
    ends: Sequence[int]
    """Where the syllables to be heard end."""
    begin: int
    """The first frame to be heard."""
    finish: int
    """The one behind the last."""
    goes_on: bool


class MandarinVoice:
    """Speaks Mandarin by FastSpeech 2 and multi-band MelGAN, the first sound of a phrase early.

    Sessions share runs of the acoustic model, whose graphs know where a row ends. The vocoder's
    reflects what stands at the edges of its whole run, padding as well: it takes one at a time.
    Engines: encoder.onnx, decoder.onnx and vocoder.onnx, loaded. `mapper`: mapper.json.
    """

    language = "zh"

    def __init__(self, encoder: Engine, decoder: Engine, vocoder: Engine, mapper: Path) -> None:
        self._encoder = encoder
        self._decoder = decoder
        self._vocoder = vocoder
        self._encodings = RowNetwork(self._encode, most_rows(encoder, "ids"), len)
        self._decodings = RowNetwork(self._decode, most_rows(decoder, "hidden", "mask"), len)
        self.phonemes = BakerPhonemes(mapper)

    def speak(
        self, text: str, prosody: Prosody = PLAIN, around: Surroundings = ALONE
    ) -> VoiceSteps:
        """Sound of `text`, first pieces first; nothing where it has no sound.

        Its pitch cannot be changed: the graph has the predictor's melody inside.
        """
        part = self._within(text, around)
        if part is not None:
            yield from self._speak_part(part, prosody)
            return
        symbols = self.phonemes.symbols(normalize(text))
        owners = last_spoken_words(text, sum(map(is_final, symbols)))
        spoken = 0
        for section in split_symbols(symbols):
            count = sum(map(is_final, section))
            here = owners_within(owners, spoken, count)
            spoken += count
            yield from self._speak_part(_Part(section, here, 0, count, False), prosody)

    def _within(self, text: str, around: Surroundings) -> _Part | None:
        """`text` with what is around it; None where that is nothing, or too much."""
        ahead = going_on(around.ahead)
        if not (around.before or ahead):
            return None
        first = self._syllables(around.before)
        stop = self._syllables(around.before + text)
        symbols = self.phonemes.symbols(normalize(around.before + text + ahead))
        if stop <= first or len(symbols) > MAX_SYMBOLS:
            return None
        owners = last_spoken_words(text, stop - first)
        return _Part(symbols, owners, first, stop, bool(ahead))

    def _syllables(self, text: str) -> int:
        return sum(map(is_final, self.phonemes.symbols(normalize(text))))

    def _speak_part(self, part: _Part, prosody: Prosody) -> VoiceSteps:
        mel, spans, ends = yield from self._acoustics(part.symbols, prosody.speed)
        begin, finish = _without_silence(spans, mel.shape[1])
        begin = ends[part.first - 1] if part.first else begin
        finish = ends[part.stop - 1] if part.goes_on else finish
        heard = ends[part.first : part.stop]
        spoken = _Spoken(mel, spans, part.owners, heard, begin, finish, part.goes_on)
        if part.first:
            yield self._vocode_at_once(spoken)
        else:
            yield from self._vocode(spoken)

    def acoustics(self, symbols: list[str], speed: float) -> tuple[NDArray[np.float32], list[Span]]:
        """The network's own mel [1, T, 80] float32 and the phonemes' spans, T hops in all."""
        mel, spans, _ = result_of(self._acoustics(symbols, speed))
        return host_array(mel), spans

    def _acoustics(
        self, symbols: list[str], speed: float
    ) -> Generator[RowAsk, Any, tuple[Resident, list[Span], list[int]]]:
        """The same, and the hop where each syllable ends.

        On a GPU the mel stays there: only the vocoder needs it.

        What the bus carries is the mel of the voice, which both languages have: 80 float32
        every 300 samples, 25.6 kB for a second of speech.
        """
        ids = np.array(self.phonemes.ids(symbols), np.int64)
        states, lasting = yield RowAsk(self._encodings, ids)
        durations = np.rint(lasting / speed).astype(np.int64)
        durations[-1] = max(durations[-1], MIN_FRAMES - int(durations[:-1].sum()))
        if durations.sum() > MAX_FRAMES:  # speech does not get there: the parts are too short
            durations = durations * MAX_FRAMES // int(durations.sum())
        mel = yield RowAsk(self._decodings, np.repeat(states, durations, axis=0))
        heard = np.cumsum(durations)
        ends = [int(heard[i]) for i, symbol in enumerate(symbols) if is_final(symbol)]
        return mel, pinyin_spans([*symbols, END], durations.tolist()), ends

    def _encode(
        self, rows: Sequence[NDArray[np.int64]]
    ) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
        """Hidden states [L, 256] and durations [L] of each row of ids [L]; 0 is no symbol."""
        ids = np.stack([np.pad(row, (0, max(map(len, rows)) - len(row))) for row in rows])
        out = self._encoder.infer({"ids": ids})
        return [
            (out["hidden"][i, : len(row)], out["durations"][i, : len(row)])
            for i, row in enumerate(rows)
        ]

    def _decode(self, rows: Sequence[NDArray[np.float32]]) -> list[Resident]:
        """Mel [1, T, 80] of each row of states [T, 256]."""
        longest = max(map(len, rows))
        hidden = np.stack([np.pad(row, ((0, longest - len(row)), (0, 0))) for row in rows])
        sizes = np.array([[len(row)] for row in rows])
        mask = (np.arange(longest)[None] < sizes).astype(np.float32)
        mel = self._decoder.infer_resident({"hidden": hidden, "mask": mask}, ["mel"])["mel"]
        return [mel[i : i + 1][:, : len(row)] for i, row in enumerate(rows)]

    def vocode(self, mel: Resident, first: int, end: int) -> NDArray[np.float32]:
        """Voice [(end - first) * 300] of the frames `first` to `end` of mel [1, T, 80], float32.

        As it is in the voice of the whole mel. Needs a T of MIN_FRAMES at least.
        """
        left = max(0, min(first - CONTEXT_FRAMES, mel.shape[1] - MIN_FRAMES))
        right = min(mel.shape[1], max(end + CONTEXT_FRAMES, MIN_FRAMES))
        voice: NDArray[np.float32] = self._vocoder.infer({"mel": mel[:, left:right]})["voice"][0]
        return voice[(first - left) * HOP_SAMPLES : (end - left) * HOP_SAMPLES] * _GAIN

    def _vocode(self, spoken: _Spoken) -> Iterator[Block]:
        """What is to be heard of it, the first few frames at once."""
        mel, spans, owners, ends, begin, finish, goes_on = spoken
        made = self._make(mel, begin, min(finish, begin + FIRST_PIECE_FRAMES))
        heard = first_audible(made.voice[(begin - made.left) * HOP_SAMPLES :]) or 0
        quiet_frames = min(round(heard / HOP_SAMPLES), finish - begin - 1)
        late = heard - quiet_frames * HOP_SAMPLES
        # What is left of the first piece without its quiet begin leaves at once, if it is anything.
        size = FIRST_PIECE_FRAMES - quiet_frames
        size = size if size >= FIRST_PIECE_FRAMES // 3 else FIRST_PIECE_FRAMES
        begin += quiet_frames
        start = begin
        while start < finish:
            end = start + size if finish - start - size >= FIRST_PIECE_FRAMES else finish
            around = self._surrounded(mel, start, end, late, made)
            ends_here = end == finish
            voice = around[_MARGIN_SAMPLES:-_MARGIN_SAMPLES]
            voice = fade(voice, at_start=start == begin, at_end=ends_here and not goes_on)
            behind = around[-_MARGIN_SAMPLES:][:TAIL_SAMPLES]
            yield Block(
                voice,
                _mel_of(around),
                place_spans(cut_spans(spans, begin, finish), start - begin, end - begin),
                place_words(owners, ends, start, end),
                tail=behind if ends_here and goes_on else NOTHING,
            )
            start, size = end, min(PIECE_FRAMES, 3 * max(size, FIRST_PIECE_FRAMES))

    def _vocode_at_once(self, spoken: _Spoken) -> Block:
        """The same as one block, which follows what was said before: there is time."""
        mel, spans, owners, ends, begin, finish, goes_on = spoken
        around = self._surrounded(mel, begin, finish, 0, self._make(mel, begin, finish))
        lead, voice, tail = cut_out(
            around, _MEL_REACH, len(around) // HOP_SAMPLES - _MEL_REACH, opens=True, goes_on=goes_on
        )
        placed = place_spans(cut_spans(spans, begin, finish), 0, finish - begin)
        heard = place_words(owners, ends, begin, finish)
        return Block(voice, _mel_of(around), placed, heard, lead, tail)

    def _make(self, mel: Resident, start: int, end: int) -> _Made:
        """Voice of the frames from `start` to `end` and of a few on both sides."""
        left, right = max(0, start - _REACH_FRAMES), min(mel.shape[1], end + _REACH_FRAMES)
        steps = range(left, right, MAX_PIECE_FRAMES)
        parts = [self.vocode(mel, at, min(right, at + MAX_PIECE_FRAMES)) for at in steps]
        return _Made(left, right, np.concatenate(parts))

    def _surrounded(
        self, mel: Resident, start: int, end: int, late: int, made: _Made
    ) -> NDArray[np.float32]:
        """Voice from `late` samples behind the frame `start` on to the same behind `end`, with
        _MARGIN_SAMPLES more on both sides; of `made` as far as that goes."""
        if start < made.left or end + _REACH_FRAMES > made.right:
            made = self._make(mel, start, end)
        first = (start - _REACH_FRAMES - made.left) * HOP_SAMPLES
        last = (end + _REACH_FRAMES - made.left) * HOP_SAMPLES
        whole = np.pad(made.voice, (max(0, -first), max(0, last - len(made.voice))))
        first = max(0, first) + HOP_SAMPLES + late
        return whole[first : first + (end - start) * HOP_SAMPLES + 2 * _MARGIN_SAMPLES]


def _mel_of(around: NDArray[np.float32]) -> NDArray[np.float32]:
    surplus = _MARGIN_SAMPLES - MEL_MARGIN_SAMPLES
    return log_mel_padded(around[surplus : len(around) - surplus])


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
