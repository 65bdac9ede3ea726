"""Which voices there are and how they are loaded: embedded ones, and the user's own bundles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from services.tts.phrase_cache import PhraseCache
from services.tts.synthesizer import Synthesizer, Voice
from services.tts.voices.base import VOICES, VoiceInfo
from services.tts.voices.english import EnglishVoice
from services.tts.voices.mandarin import MandarinVoice
from services.tts.voices.piper import PiperConfig, PiperVoice
from visavis.bundles.store import bundle_path, load_manifest
from visavis.engine import Engine, open_engine
from visavis.engine.bundles import maker_of
from visavis.serving.errors import SettingsError

# ------------------------------------------------------------ own voices
# Voices of the user's own: bundles that `visavis bundle make piper` made.

_LANGUAGE = "en"
# The network makes melody and sound in one.
_CONTROLS = frozenset({"speed", "energy"})


@dataclass(frozen=True, slots=True)
class OwnVoice:
    """A voice before it is loaded."""

    info: VoiceInfo
    files: tuple[Path, Path]
    """Both halves of the network."""
    config: PiperConfig


def own_voices(names: str, model_dir: Path | None = None) -> list[OwnVoice]:
    """The voices in the setting `names`, which has commas between them.

    Raises ModelStoreError for a bundle that is not here, SettingsError for one that is no voice,
    or a voice of a language whose sounds nobody here knows.
    """
    return [_own_voice(name.strip(), model_dir) for name in names.split(",") if name.strip()]


def _own_voice(name: str, model_dir: Path | None) -> OwnVoice:
    folder = bundle_path(name, model_dir)
    if maker_of(folder) != "piper":
        raise SettingsError(f"voices: {name} was not made with `visavis bundle make piper`")
    manifest = load_manifest(name, model_dir)
    if _LANGUAGE not in manifest.languages:
        raise SettingsError(
            f"voices: {name} speaks {', '.join(manifest.languages)}, and only for English is there "
            "a front end that writes the phonemes which such a voice reads"
        )
    info = VoiceInfo(
        name=name,
        bundle=name,
        languages=(_LANGUAGE,),
        gender="",
        licence=manifest.licence,
        description=manifest.summary,
        controls=_CONTROLS,
    )
    files = (folder / "text.onnx", folder / "voice.onnx")
    return OwnVoice(info, files, PiperConfig.read(folder / "voice.json"))


# ------------------------------------------------------------ opening
# The synthesizer with every voice loaded: ours, and those that the user made.


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
