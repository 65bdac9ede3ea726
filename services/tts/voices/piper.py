"""An English voice of Piper out of a bundle of the user's, with the phonemes of espeak-ng."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import soxr
from numpy.typing import NDArray

from services.tts.prosody import PLAIN, Prosody
from services.tts.sound import HOP_SAMPLES, SAMPLE_RATE_HZ, VoiceSteps, gain_to_speech
from services.tts.text.english import (
    EnglishLetters,
    SpokenPart,
    ends_of_spoken_words,
)
from services.tts.text.surroundings import ALONE, Surroundings
from services.tts.voices.joining import trimmed
from visavis.engine import Engine
from visavis.engine.rows import RowAsk, RowNetwork, most_rows, result_of
from visavis.serving.errors import EngineLoadError

# The English front end's letters -> the IPA symbols of espeak's American English.
#
# Voices of Piper were trained on what espeak writes: diphthongs and affricates are two symbols,
# long vowels carry a length mark, and "ər" is one vowel. Both write the stress mark before the
# vowel.

_PAIRS = {
    "A": "eɪ", "I": "aɪ", "W": "aʊ", "Y": "ɔɪ", "O": "oʊ", "Q": "əʊ", "ʤ": "dʒ", "ʧ": "tʃ",
    "T": "ɾ", "ᵊ": "ə", "ʣ": "dz", "ʦ": "ts", "u": "uː", "ɑ": "ɑː", "ɔ": "ɔː", "—": ",", "…": ".",
    "“": '"', "”": '"',
}  # fmt: skip
_VOWELS = frozenset("AIWYOQæɑaɒɔɛeɜɚəᵊɐʌɪᵻɨiouʊ")
_STRESS = frozenset("ˈˌ")


def espeak_symbols(letters: Sequence[str]) -> list[str]:
    """For every letter its symbols, "" for one that the letter before it took in."""
    return [_symbols(letters, place) for place in range(len(letters))]


def _symbols(letters: Sequence[str], place: int) -> str:
    letter = letters[place]
    before = letters[place - 1] if place else ""
    after = letters[place + 1] if place + 1 < len(letters) else ""
    if letter == "ɜ":
        return "ɜː"
    if letter == "ə" and after == "ɹ":
        return "ɚ"
    if letter == "ɹ" and before in ("ɜ", "ə"):
        # Between vowels it is heard.
        return "ɹ" if after in _VOWELS or after in _STRESS else ""
    if letter == "i":
        return "iː" if before in _STRESS else "i"
    return _PAIRS.get(letter, letter)


# A VITS network in two halves, with the duration of every phoneme.
#
# The first half gives for each symbol a duration and the distribution of its latents, the second
# makes sound of latents; between them the host repeats every symbol's row by its duration and draws
# the noise (visavis.bundles.piper.vits).

_BEGIN, _END, _PAD = "^", "$", "_"
_LONGEST = 160
"""Letters at a time: the compiled voice takes 2400 frames, 28 s at 22 kHz."""
_TOGETHER_FRAMES = 640
"""Longer ones get a run of their own: the compiled voice takes no more in a run of several."""
_NOISE_SEED = 24_000
# Sound is much the same where frames beyond this are left out.
_REACH_FRAMES = 32
_SAMPLE_SENTENCE = "The quick brown fox jumps over the lazy dog."


_Text: TypeAlias = tuple[NDArray[np.int64], NDArray[np.float32]]
"""A row of the first half: ids [1, T] and the noise of the durations [2, T]."""


@dataclass(frozen=True, slots=True)
class PiperConfig:
    """voice.json of the bundle, as `visavis bundle make piper` writes it."""

    sample_rate_hz: int
    hop_samples: int
    noise_scale: float
    duration_noise_scale: float
    length_scale: float
    symbol_ids: Mapping[str, Sequence[int]]
    speaker: int | None

    @classmethod
    def read(cls, path: Path) -> PiperConfig:
        """Reads it. Raises EngineLoadError where it is missing or lacks a field."""
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return cls(**{key: found[key] for key in cls.__slots__})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise EngineLoadError(f"{path} cannot be read: {error!r}; make the voice again") from (
                error
            )


class PiperVoice:
    """Speaks English by a VITS network of the user's. `text`, `sound`: its halves, loaded."""

    language = "en"

    def __init__(self, text: Engine, sound: Engine, config: PiperConfig) -> None:
        self._text = text
        self._sound = sound
        self._config = config
        self._letters = EnglishLetters()
        # Voices that were made before their graphs had masks speak one by one.
        rows = most_rows(text, "ids", "mask") if "mask" in text.inputs else 1
        self._texts = RowNetwork(self._run_text, rows, lambda row: row[0].shape[-1])
        self._sounds = RowNetwork(self._run_sound, rows, lambda latents: latents.shape[-1])
        self._gain = np.float32(1.0)
        (sample,) = self._letters.spoken(_SAMPLE_SENTENCE, _LONGEST)
        self._gain = gain_to_speech(result_of(self._synthesise(sample, 1.0))[0])

    def speak(
        self, text: str, prosody: Prosody = PLAIN, around: Surroundings = ALONE
    ) -> VoiceSteps:
        """Sound of `text`, trimmed of silence at both ends; nothing where it has no sound."""
        for part in self._letters.spoken(text, _LONGEST, around):
            voice, hops = yield from self._synthesise(part, prosody.speed)
            block = trimmed(voice, hops, part)
            if block is not None:
                yield block

    def _synthesise(
        self, part: SpokenPart, speed: float
    ) -> Generator[RowAsk, Any, tuple[NDArray[np.float32], list[int]]]:
        """Sound [hops * 300] at 24 kHz, and the hops of the beginning, each letter and the end.

        Silence where `part` is not to be heard.
        """
        ids, owners = self._ids(part.letters)
        # A generator of its own makes the noise in the voice, and so the voice, repeatable.
        rng = np.random.default_rng(_NOISE_SEED)
        # Symbol by symbol: the same words have the same noise, whatever follows.
        noise = rng.standard_normal((len(ids), 2), np.float32).T
        noise = noise * np.float32(self._config.duration_noise_scale)
        durations, means, log_spreads = yield RowAsk(self._texts, (np.array([ids]), noise))
        scale = self._config.length_scale / speed
        frames = np.maximum(np.ceil(durations * scale), 1).astype(np.int64)
        latents = np.repeat(means, frames, axis=0)
        spread = np.exp(np.repeat(log_spreads, frames, axis=0))
        drawn = np.random.default_rng(_NOISE_SEED).standard_normal(latents.shape, np.float32)
        latents += drawn * spread * np.float32(self._config.noise_scale)
        by_owner = np.bincount(owners, weights=frames, minlength=len(part.letters) + 2)
        ends = np.cumsum(by_owner).astype(np.int64)
        start, stop = _heard_frames(part, ends)
        made = np.ascontiguousarray(latents[start:stop].T)
        if made.shape[1] > _TOGETHER_FRAMES:
            (sound,) = self._run_sound([made])
        else:
            sound = yield RowAsk(self._sounds, made)
        voice = soxr.resample(sound, self._config.sample_rate_hz, SAMPLE_RATE_HZ)
        before, behind = self._samples(start), self._samples(len(latents) - stop)
        voice = np.pad(np.asarray(voice, np.float32), (before, behind))
        voice = np.pad(voice, (0, -len(voice) % HOP_SAMPLES))
        return voice * self._gain, self._hops(ends, len(voice))

    def _run_text(self, rows: Sequence[_Text]) -> list[tuple[NDArray[np.float32], ...]]:
        """Durations [T] in frames, means and log spreads [T, C] of each row, all float32."""
        ids, sizes = _stacked([ids for ids, _ in rows])
        noise, _ = _stacked([noise for _, noise in rows])
        inputs = {"ids": ids[:, 0], "duration_noise": noise, **self._speaker(len(rows))}
        out = self._text.infer(inputs | _mask_for(self._text, sizes))
        durations, means, spreads = out["durations"][:, 0], out["means"], out["log_spreads"]
        return [(durations[i, :n], means[i, :n], spreads[i, :n]) for i, n in enumerate(sizes)]

    def _run_sound(self, rows: Sequence[NDArray[np.float32]]) -> list[NDArray[np.float32]]:
        """latents [C, F] float32 of each row -> its sound [F * hop] float32."""
        latents, sizes = _stacked(rows)
        inputs = {"latents": latents, **self._speaker(len(rows))}
        voice = self._sound.infer(inputs | _mask_for(self._sound, sizes))["voice"]
        return [voice[i, : n * self._config.hop_samples] for i, n in enumerate(sizes)]

    def _ids(self, letters: str) -> tuple[list[int], list[int]]:
        """Numbers of the symbols, a pad behind each, and which letter each belongs to; 0 is the
        beginning."""
        known = self._config.symbol_ids
        ids, owners = [*known[_BEGIN], *known[_PAD]], [0] * (len(known[_BEGIN]) + len(known[_PAD]))
        for place, symbols in enumerate(espeak_symbols(letters), start=1):
            for symbol in symbols:
                if symbol in known:
                    added = [*known[symbol], *known[_PAD]]
                    ids += added
                    owners += [place] * len(added)
        owners += [len(letters) + 1] * len(known[_END])
        return [*ids, *known[_END]], owners

    def _speaker(self, rows: int) -> dict[str, NDArray[np.int64]]:
        speaker = self._config.speaker
        return {} if speaker is None else {"sid": np.full(rows, speaker, np.int64)}

    def _samples(self, frames: int) -> int:
        """At 24 kHz."""
        config = self._config
        return round(frames * config.hop_samples * SAMPLE_RATE_HZ / config.sample_rate_hz)

    def _hops(self, frame_ends: NDArray[np.int64], samples: int) -> list[int]:
        """Frames of the network as hops of ours: every boundary moves to the nearest one."""
        seconds = frame_ends * self._config.hop_samples / self._config.sample_rate_hz
        ends = np.rint(seconds * SAMPLE_RATE_HZ / HOP_SAMPLES).astype(np.int64)
        ends[-1] = samples // HOP_SAMPLES
        return [int(n) for n in np.diff(np.minimum(ends, ends[-1]), prepend=0)]


def _stacked(rows: Sequence[NDArray[Any]]) -> tuple[NDArray[Any], list[int]]:
    """Rows [C, n] with zeros behind the shorter ones' ends [B, C, longest], and each one's n."""
    sizes = [row.shape[-1] for row in rows]
    longest = max(sizes)
    padded = [np.pad(row, ((0, 0), (0, longest - row.shape[-1]))) for row in rows]
    return np.stack(padded), sizes


def _mask_for(engine: Engine, sizes: Sequence[int]) -> dict[str, NDArray[np.float32]]:
    """1 where a row goes on, [B, 1, longest] float32, for a graph that takes it."""
    if "mask" not in engine.inputs:
        return {}
    places = np.arange(max(sizes))[None, None]
    return {"mask": (places < np.array(sizes)[:, None, None]).astype(np.float32)}


def _heard_frames(part: SpokenPart, letter_ends: NDArray[np.int64]) -> tuple[int, int]:
    """First frame of what is to be heard of `part` and the one behind, with some around it."""
    words = ends_of_spoken_words(part.letters)
    start, stop = 0, int(letter_ends[-1])
    if part.first:
        start = max(start, int(letter_ends[words[part.first - 1]]) - _REACH_FRAMES)
    if part.goes_on:
        stop = min(stop, int(letter_ends[words[part.stop - 1]]) + _REACH_FRAMES)
    return start, stop
