"""An English voice of Piper out of a bundle of the user's, with the phonemes of espeak-ng."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soxr
from numpy.typing import NDArray

from services.tts.prosody import PLAIN, Prosody
from services.tts.sound import HOP_SAMPLES, SAMPLE_RATE_HZ, Block, gain_to_speech
from services.tts.text.english import (
    EnglishLetters,
    SpokenPart,
    ends_of_spoken_words,
)
from services.tts.text.surroundings import ALONE, Surroundings
from services.tts.voices.joining import trimmed
from visavis.engine import Engine
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
_NOISE_SEED = 24_000
# Sound is much the same where frames beyond this are left out.
_REACH_FRAMES = 32
_SAMPLE_SENTENCE = "The quick brown fox jumps over the lazy dog."


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
        self._gain = np.float32(1.0)
        (sample,) = self._letters.spoken(_SAMPLE_SENTENCE, _LONGEST)
        self._gain = gain_to_speech(self._synthesise(sample, 1.0)[0])

    def speak(
        self, text: str, prosody: Prosody = PLAIN, around: Surroundings = ALONE
    ) -> Iterator[Block]:
        """Sound of `text`, trimmed of silence at both ends; nothing where it has no sound."""
        for part in self._letters.spoken(text, _LONGEST, around):
            voice, hops = self._synthesise(part, prosody.speed)
            block = trimmed(voice, hops, part)
            if block is not None:
                yield block

    def _synthesise(self, part: SpokenPart, speed: float) -> tuple[NDArray[np.float32], list[int]]:
        """Sound [hops * 300] at 24 kHz, and the hops of the beginning, each letter and the end.

        Silence where `part` is not to be heard.
        """
        ids, owners = self._ids(part.letters)
        # A generator of its own makes the noise in the voice, and so the voice, repeatable.
        rng = np.random.default_rng(_NOISE_SEED)
        speaker = self._speaker()
        # Symbol by symbol: the same words have the same noise, whatever follows.
        noise = np.ascontiguousarray(rng.standard_normal((len(ids), 2), np.float32).T[None])
        first = self._text.infer(
            {
                "ids": np.array([ids], np.int64),
                "duration_noise": noise * np.float32(self._config.duration_noise_scale),
                **speaker,
            }
        )
        scale = self._config.length_scale / speed
        frames = np.maximum(np.ceil(first["durations"][0, 0] * scale), 1).astype(np.int64)
        latents = np.repeat(first["means"][0], frames, axis=0)
        spread = np.exp(np.repeat(first["log_spreads"][0], frames, axis=0))
        drawn = np.random.default_rng(_NOISE_SEED).standard_normal(latents.shape, np.float32)
        latents += drawn * spread * np.float32(self._config.noise_scale)
        by_owner = np.bincount(owners, weights=frames, minlength=len(part.letters) + 2)
        ends = np.cumsum(by_owner).astype(np.int64)
        start, stop = _heard_frames(part, ends)
        made = np.ascontiguousarray(latents[start:stop].T)[None]
        sound = self._sound.infer({"latents": made, **speaker})["voice"][0]
        voice = soxr.resample(sound, self._config.sample_rate_hz, SAMPLE_RATE_HZ)
        before, behind = self._samples(start), self._samples(len(latents) - stop)
        voice = np.pad(np.asarray(voice, np.float32), (before, behind))
        voice = np.pad(voice, (0, -len(voice) % HOP_SAMPLES))
        return voice * self._gain, self._hops(ends, len(voice))

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

    def _speaker(self) -> dict[str, NDArray[np.int64]]:
        speaker = self._config.speaker
        return {} if speaker is None else {"sid": np.array([speaker], np.int64)}

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


def _heard_frames(part: SpokenPart, letter_ends: NDArray[np.int64]) -> tuple[int, int]:
    """First frame of what is to be heard of `part` and the one behind, with some around it."""
    words = ends_of_spoken_words(part.letters)
    start, stop = 0, int(letter_ends[-1])
    if part.first:
        start = max(start, int(letter_ends[words[part.first - 1]]) - _REACH_FRAMES)
    if part.goes_on:
        stop = min(stop, int(letter_ends[words[part.stop - 1]]) + _REACH_FRAMES)
    return start, stop
