"""The synthesizer with every voice loaded: ours, and those that the user made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from services.tts.english import EnglishVoice
from services.tts.mandarin import MandarinVoice
from services.tts.own_voices import OwnVoice
from services.tts.phrase_cache import PhraseCache
from services.tts.piper import PiperVoice
from services.tts.synthesizer import Synthesizer, Voice
from services.tts.voices import VOICES
from visavis.engine import Engine, open_engine
from visavis.models import bundle_path


@contextmanager
def open_synthesizer(
    *,
    model_dir: Path | None = None,
    open_engine: Callable[[Path], Engine] = open_engine,
    phrases: PhraseCache | None = None,
    own: Sequence[OwnVoice] = (),
) -> Iterator[Synthesizer]:
    """Synthesizer with its engines loaded; they are closed at the end.

    own: voices of the user's own. Raises ModelStoreError where a bundle is not pulled,
    EngineLoadError where it cannot be loaded.
    """
    english = bundle_path("hibari-en", model_dir)
    mandarin = bundle_path("fastspeech2-mbmelgan-zh", model_dir)
    files = (
        english / "hibari-durations.onnx",
        mandarin / "encoder.onnx",
        mandarin / "decoder.onnx",
        mandarin / "vocoder.onnx",
    )
    with ExitStack() as stack:
        hibari, encoder, decoder, vocoder = (
            stack.enter_context(open_engine(file)) for file in files
        )
        voices: dict[str, Voice] = {
            "en": EnglishVoice(hibari),
            "zh": MandarinVoice(encoder, decoder, vocoder, mandarin / "mapper.json"),
        }
        engines = {english.name: [hibari], mandarin.name: [encoder, decoder, vocoder]}
        added: dict[str, Voice] = {}
        for voice in own:
            text, sound = (stack.enter_context(open_engine(file)) for file in voice.files)
            added[voice.info.name] = PiperVoice(text, sound, voice.config)
            engines[voice.info.bundle] = [text, sound]
        known = (*VOICES, *(voice.info for voice in own))
        yield Synthesizer(voices, engines, phrases=phrases, own=added, known=known)
