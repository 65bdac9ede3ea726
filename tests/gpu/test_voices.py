"""Whole stages on the GPU: speech that is recognised, speech that is made."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from services.asr.hearing.moonshine import Moonshine
from services.tts.synthesizer import Synthesizer
from services.tts.voices.english import EnglishVoice
from services.tts.voices.opening import open_synthesizer
from tests.asr.hearing.test_transcripts import sound
from tests.rows import together
from visavis.bundles.compile.sources import bundle_plans
from visavis.engine import EngineOptions, open_engine
from visavis.engine.rows import alone

COMPILED = EngineOptions(plans=bundle_plans)
TEXTS = {"en": "The quick brown fox jumps over the lazy dog.", "zh": "今天天气很好，我们去公园。"}


def test_moonshine_writes_the_same(bundle: Callable[[str], Path], flavour: str) -> None:
    folder = bundle("moonshine-tiny-en")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    texts = []
    for device in ("cpu", "cuda:0"):
        with (
            open_engine(folder / "encoder.onnx", device=device, options=COMPILED) as encoder,
            open_engine(folder / "decoder.onnx", device=device, options=COMPILED) as decoder,
        ):
            if device != "cpu":
                assert encoder.state.backend == decoder.state.backend == flavour
            transcript = Moonshine(encoder, decoder, tokenizer).transcribe(sound("jfk"))
            texts.append(transcript.text.lower())
    assert "ask not what your country can do for you" in texts[1]


def test_english_phrases_share_a_run(bundle: Callable[[str], Path], flavour: str) -> None:
    file = bundle("hibari-en") / "hibari-durations.onnx"
    with open_engine(file, device="cuda:0", options=COMPILED) as engine:
        assert engine.state.backend == flavour
        voice, texts = EnglishVoice(engine), ("Yes.", TEXTS["en"])
        made, rows = together([voice.speak(text) for text in texts])
        assert rows == [2]
        for text, (shared,) in zip(texts, made, strict=True):
            (apart,) = alone(voice.speak(text))
            # In 16 bits a duration may round the other way.
            assert abs(len(shared.mel) - len(apart.mel)) <= 4
            if len(shared.mel) == len(apart.mel):
                assert np.abs(shared.mel - apart.mel).mean() < 0.3


def test_both_voices_sound_the_same(bundle: Callable[[str], Path], flavour: str) -> None:
    for name in ("hibari-en", "fastspeech2-mbmelgan-zh"):
        bundle(name)

    def mels(synthesizer: Synthesizer, language: str) -> np.ndarray:
        pieces = synthesizer.speak(TEXTS[language], language=language)
        return np.concatenate([piece.mel for piece in pieces])

    on_gpu = partial(open_engine, device="cuda:0", options=COMPILED)
    with open_synthesizer() as cpu, open_synthesizer(open_engine=on_gpu) as gpu:
        for voice in ("hibari-en", "fastspeech2-mbmelgan-zh"):
            state = gpu.state(voice)
            assert state is not None and state.backend == flavour, state
        for language in TEXTS:
            ours, theirs = mels(gpu, language), mels(cpu, language)
            # The English durations may round the other way for a phoneme or two.
            assert abs(len(ours) - len(theirs)) <= 8
            if language == "zh":
                shortest = min(len(ours), len(theirs))
                assert np.abs(ours[:shortest] - theirs[:shortest]).mean() < 0.3
