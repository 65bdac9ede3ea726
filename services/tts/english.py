"""The English voice: text -> phonemes -> spectra -> sound, with the duration of every phoneme."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from hibari import dsp

from services.tts.letters_en import EnglishLetters, SpokenPart, ends_of_spoken_words, letter_ids
from services.tts.phonemes_en import arpabet_spans
from services.tts.prosody import PLAIN, Prosody
from services.tts.sound import HOP_SAMPLES, SILENCE, Block, Span, cut_spans
from services.tts.surroundings import ALONE, Surroundings
from services.tts.trimming import trimmed
from services.tts.voice_source import with_prosody
from visavis.engine import Engine

_SPECTRA = ("lh", "theta", "ln", "lr", "phi", "f0")
# Longer than this the network was not trained on.
_MAX_LETTERS = 380
_PADDING_ID = 0
_NOISE_SEED = 24_000
# The durations run this much behind the sound that is made from them: 55 ms over 60 sentences.
_LATE_HOPS = 4
# Sound beyond this has nothing in common with that on the other side: its windows have four hops.
_REACH_HOPS = 8
# Brings the voice's speech to the loudness that both voices share.
_GAIN = 1.75


class EnglishVoice:
    """`engine`: hibari-durations.onnx, loaded."""

    language = "en"

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._letters = EnglishLetters()
        self._ids = letter_ids()

    def speak(
        self, text: str, prosody: Prosody = PLAIN, around: Surroundings = ALONE
    ) -> Iterator[Block]:
        """Sound of `text`, trimmed of silence at both ends; nothing where it has no sound."""
        for part in self._letters.spoken(text, _MAX_LETTERS, around):
            block = self._synthesise(part, prosody)
            if block is not None:
                yield block

    def _synthesise(self, part: SpokenPart, prosody: Prosody) -> Block | None:
        ids = [_PADDING_ID, *(self._ids[letter] for letter in part.letters), _PADDING_ID]
        outputs = self._engine.infer(
            {"ids": np.array([ids], np.int64), "speed": np.array([prosody.speed], np.float32)}
        )
        # A generator of its own makes the noise in the voice, and so the voice, repeatable.
        noise = np.random.default_rng(_NOISE_SEED)
        spectra = with_prosody({name: outputs[name][0] for name in _SPECTRA}, prosody)
        frames = len(spectra["f0"])
        hops_per_unit = frames // int(outputs["durations"].sum())
        hops = (outputs["durations"] * hops_per_unit).tolist()
        spans = cut_spans(arpabet_spans(["", *part.letters, ""], hops), _LATE_HOPS, sum(hops))
        spans.append(Span(SILENCE, _LATE_HOPS))
        heard_hops = np.cumsum(hops) - _LATE_HOPS
        ends = [int(heard_hops[end]) for end in ends_of_spoken_words(part.letters)]
        start = max(0, ends[part.first - 1] - _REACH_HOPS) if part.first else 0
        stop = min(frames, ends[part.stop - 1] + _REACH_HOPS) if part.goes_on else frames
        heard = dsp.synth(*(spectra[name][..., start:stop] for name in _SPECTRA), noise)
        # What is not to be heard is not made.
        around = (start * HOP_SAMPLES, (frames - stop) * HOP_SAMPLES)
        voice = np.pad(np.asarray(heard * _GAIN, np.float32), around)
        return trimmed(voice, spans, ends, part)
