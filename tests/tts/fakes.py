"""A voice without weights: every word is a block of a known length."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from services.tts.phrase_cache import PhraseCache
from services.tts.prosody import PLAIN, Prosody
from services.tts.sound import HOP_SAMPLES, N_MELS, Block, PlacedSpan
from services.tts.synthesizer import Synthesizer
from services.tts.text.surroundings import ALONE, Surroundings
from services.tts.word_ends import WordEnd

HOPS_PER_WORD = 24


class WordVoice:
    """Speaks `HOPS_PER_WORD` hops a word; `broken` raises instead."""

    def __init__(self, language: str, *, level: float = 0.25, broken: Exception | None = None):
        self.language = language
        self.level = level
        self.broken = broken
        self.heard: list[str] = []
        self.prosodies: list[Prosody] = []
        self.told: list[Surroundings] = []

    def speak(
        self, text: str, prosody: Prosody = PLAIN, around: Surroundings = ALONE
    ) -> Iterator[Block]:
        self.heard.append(text)
        self.prosodies.append(prosody)
        self.told.append(around)
        if self.broken is not None:
            raise self.broken
        for index, word in enumerate(text.split()):
            hops = round(HOPS_PER_WORD / prosody.speed)
            voice = np.full(hops * HOP_SAMPLES, self.level, np.float32)
            mel = np.ones((hops, N_MELS), np.float32)
            yield Block(voice, mel, (PlacedSpan(word, 0, hops),), (WordEnd(index, hops),))


def word_synthesizer(**options: object) -> tuple[Synthesizer, dict[str, WordVoice]]:
    voices = {language: WordVoice(language, **options) for language in ("en", "zh")}  # type: ignore[arg-type]
    return Synthesizer(voices, phrases=PhraseCache(10_000_000)), voices
