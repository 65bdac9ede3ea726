"""Hibari, the English voice, with its melody bent by a style."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from hibari import dsp
from numpy.typing import NDArray

from services.tts.prosody import PLAIN, Prosody
from services.tts.sound import HOP_SAMPLES, Block, VoiceSteps
from services.tts.text.english import (
    EnglishLetters,
    SpokenPart,
    letter_ids,
    spoken_word_ends,
)
from services.tts.text.surroundings import ALONE, Surroundings
from services.tts.voices.joining import trimmed
from visavis.engine import Engine
from visavis.engine.rows import RowAsk, RowNetwork, most_rows
from visavis.serving.errors import InvalidInputError

# The source of the voice, which is a source and a filter: its melody bent, or breath in its place.
#
# What the network gives (hibari.dsp): `f0` [F] in hertz, and spectra [601, F],
# one row each 20 Hz, in logarithms: `lh` of the harmonics, `ln` of the noise, `lr` of what is left;
# and phases. The filter stays as it is, and with it who speaks and what is understood.

Spectra = Mapping[str, NDArray[np.float32]]

# Below, the vocoder takes a frame for unvoiced.
_VOICED_FROM_HZ = 40.0
_F0_LIMITS_HZ = (80.0, 500.0)
_BIN_HZ = 20.0
# Breath against the harmonics in whose place it is, in nepers. A whisper has less at the bottom
# and more at the top than a voice; how much was chosen so that a recogniser understands it like the
# voice and finds no pitch in it.
_BREATH = -2.5
_BREATH_TILT, _BREATH_TILT_FROM_HZ = 0.8, 300.0
_BREATH_CUT, _BREATH_CUT_BELOW_HZ = -2.0, 500.0
_REST = -4.0


def with_prosody(spectra: Spectra, prosody: Prosody) -> Spectra:
    """The spectra of the same words with `pitch`, `pitch_range` and `voicing` of `prosody`.

    spectra: float32, of F frames: `f0` [F] in hertz, all others [601, F].
    """
    bent = {**spectra, "f0": bent_melody(spectra["f0"], prosody)}
    return _whispered(bent) if prosody.voicing == 0.0 else bent


def bent_melody(f0_hz: NDArray[np.float32], prosody: Prosody) -> NDArray[np.float32]:
    """The melody, [F] float32 in hertz, moved by `pitch` and stretched by `pitch_range` around its
    middle.
    """
    voiced = f0_hz > _VOICED_FROM_HZ
    if not voiced.any() or (prosody.pitch, prosody.pitch_range) == (1.0, 1.0):
        return f0_hz
    logarithm = np.log(np.where(voiced, f0_hz, 1.0))
    middle = logarithm[voiced].mean()
    bent = np.exp(middle + prosody.pitch_range * (logarithm - middle)) * prosody.pitch
    return np.where(voiced, np.clip(bent, *_F0_LIMITS_HZ), f0_hz).astype(np.float32)


def _whispered(spectra: Spectra) -> Spectra:
    """Noise through the filter that the harmonics went through."""
    voiced = spectra["f0"] > _VOICED_FROM_HZ
    hz = _BIN_HZ * np.arange(len(spectra["lh"]))
    tilt = _BREATH_TILT * np.log(np.maximum(hz, _BREATH_TILT_FROM_HZ) / _BREATH_TILT_FROM_HZ)
    cut = _BREATH_CUT * np.maximum(0.0, 1 - hz / _BREATH_CUT_BELOW_HZ)
    breath = spectra["lh"] + (_BREATH + tilt + cut)[:, None]
    noise = np.where(voiced, np.logaddexp(spectra["ln"], breath), spectra["ln"])
    rest = np.where(voiced, spectra["lr"] + _REST, spectra["lr"])
    return {
        **spectra,
        "f0": np.zeros_like(spectra["f0"]),
        "ln": noise.astype(np.float32),
        "lr": rest.astype(np.float32),
    }


# Text -> phonemes -> spectra -> sound, with the duration of every phoneme.

_SPECTRA = ("lh", "theta", "ln", "lr", "phi", "f0")
# Longer than this the network was not trained on.
_MAX_LETTERS = 380
_PADDING_ID = 0
_NO_ID = -1
"""Behind a row's end: no letter, not even a silent one."""
_NOISE_SEED = 24_000
# The durations run this much behind the sound that is made from them: 55 ms over 60 sentences.
_LATE_HOPS = 4
# Sound beyond this has nothing in common with that on the other side: its windows have four hops.
_REACH_HOPS = 8
# Brings the voice's speech to the loudness that both voices share.
_GAIN = 1.75


_Text: TypeAlias = tuple[list[int], float]
"""A row of the network: ids and speed."""
_Spoken: TypeAlias = tuple[dict[str, NDArray[np.float32]], NDArray[np.int64]]
"""What it makes of that: spectra of F frames, and the hops of each id."""


class EnglishVoice:
    """Speaks English by Hibari; its melody can be bent. `engine`: hibari-durations.onnx, loaded.

    On a GPU the network takes what several sessions say in one run. The file itself, of which a CPU
    has one scale of 8 bits for a whole run, takes one text.
    """

    language = "en"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._texts = RowNetwork(self._run, most_rows(engine, "ids"), lambda row: len(row[0]))
        self._letters = EnglishLetters()
        self._ids = letter_ids()

    def speak(
        self, text: str, prosody: Prosody = PLAIN, around: Surroundings = ALONE
    ) -> VoiceSteps:
        """Sound of `text`, trimmed of silence at both ends; nothing where it has no sound."""
        for part in self._letters.spoken(text, _MAX_LETTERS, around):
            block = yield from self._synthesise(part, prosody)
            if block is not None:
                yield block

    def _synthesise(
        self, part: SpokenPart, prosody: Prosody
    ) -> Generator[RowAsk, Any, Block | None]:
        ids = [_PADDING_ID, *(self._ids[letter] for letter in part.letters), _PADDING_ID]
        made, lasting = yield RowAsk(self._texts, (ids, prosody.speed))
        # A generator of its own makes the noise in the voice, and so the voice, repeatable.
        noise = np.random.default_rng(_NOISE_SEED)
        spectra = with_prosody(made, prosody)
        frames = len(spectra["f0"])
        hops = lasting.tolist()
        ends = [end - _LATE_HOPS for end in spoken_word_ends(part.letters, hops)]
        start = max(0, ends[part.first - 1] - _REACH_HOPS) if part.first else 0
        stop = min(frames, ends[part.stop - 1] + _REACH_HOPS) if part.goes_on else frames
        heard = dsp.synth(*(spectra[name][..., start:stop] for name in _SPECTRA), noise)
        # What is not to be heard is not made.
        around = (start * HOP_SAMPLES, (frames - stop) * HOP_SAMPLES)
        voice = np.pad(np.asarray(heard * _GAIN, np.float32), around)
        return trimmed(voice, hops, part, _LATE_HOPS)

    def _run(self, rows: Sequence[_Text]) -> list[_Spoken]:
        ids = np.full((len(rows), max(len(row) for row, _ in rows)), _NO_ID, np.int64)
        for line, (row, _) in zip(ids, rows, strict=True):
            line[: len(row)] = row
        speeds = np.array([speed for _, speed in rows], np.float32)
        try:
            made = self._engine.infer({"ids": ids, "speed": speeds})
        except InvalidInputError:
            if len(rows) == 1:
                raise
            # It has stepped down from the GPU, to the file itself.
            return [spoken for row in rows for spoken in self._run([row])]
        # The file itself tells them of its text, not of a row.
        units = made["durations"].reshape(ids.shape)
        longest = int(units.sum(axis=1).max())
        hops = units * (made["f0"].shape[-1] // longest)
        return [
            (
                {name: made[name][place, ..., : lasting.sum()] for name in _SPECTRA},
                lasting[: len(row)],
            )
            for place, (lasting, (row, _)) in enumerate(zip(hops, rows, strict=True))
        ]
