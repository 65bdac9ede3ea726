"""How voices are loaded: ours, and those that the user added, which are Kokoro's or bundles that
`visavis bundle make piper` made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from services.tts.phrase_cache import PhraseCache
from services.tts.synthesizer import Synthesizer, Voice
from services.tts.voices.base import VOICES, VoiceInfo
from services.tts.voices.english import EnglishVoice
from services.tts.voices.kokoro import KokoroVoice, read_styles
from services.tts.voices.mandarin import MandarinVoice
from services.tts.voices.piper import PiperConfig, PiperVoice
from visavis.bundles.store import BundleManifest, bundle_path, load_manifest
from visavis.bundles.store.lookup import maker_of
from visavis.engine import Engine, open_engine
from visavis.serving.errors import SettingsError

_LANGUAGE = "en"
# The network makes melody and sound in one.
_CONTROLS = frozenset({"speed", "energy"})
_KOKORO_FIRST = "af_heart"
# The second letter of a name of Kokoro's.
_GENDERS = {"f": "female", "m": "male"}


@dataclass(frozen=True, slots=True)
class OwnVoice:
    """A voice before it is loaded."""

    info: VoiceInfo
    files: tuple[Path, ...]
    """Its networks; voices that name the same ones share them."""
    build: Callable[[Sequence[Engine]], Voice]
    """The voice, out of its networks as they are loaded."""


def own_voices(names: str, model_dir: Path | None = None) -> list[OwnVoice]:
    """The voices in the setting `names`, which has commas between them.

    A bundle of several is followed by a colon and which one; else it is the first. Raises
    ModelStoreError for a bundle that is not here, SettingsError for one that is no voice, or a
    voice of a language whose sounds nobody here knows.
    """
    return [_own_voice(name.strip(), model_dir) for name in names.split(",") if name.strip()]


def _own_voice(name: str, model_dir: Path | None) -> OwnVoice:
    bundle, _, chosen = name.partition(":")
    manifest = load_manifest(bundle, model_dir)
    if manifest.family == "kokoro":
        return _kokoro_voice(manifest, chosen, bundle_path(bundle, model_dir))
    folder = bundle_path(name, model_dir)
    if maker_of(folder) != "piper":
        raise SettingsError(
            f"voices: {name} was not made with `visavis bundle make piper`, and is none of Kokoro"
        )
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
    config = PiperConfig.read(folder / "voice.json")
    return OwnVoice(info, files, lambda halves: PiperVoice(halves[0], halves[1], config))


def _kokoro_voice(manifest: BundleManifest, chosen: str, folder: Path) -> OwnVoice:
    styles = read_styles(folder / "styles.npz")
    name = chosen or (_KOKORO_FIRST if _KOKORO_FIRST in styles else min(styles))
    if name not in styles:
        raise SettingsError(
            f"voices: {manifest.name} has no {name!r}; it has {', '.join(sorted(styles))}"
        )
    info = VoiceInfo(
        name=name,
        bundle=manifest.name,
        languages=(_LANGUAGE,),
        gender=_GENDERS.get(name[1:2], ""),
        licence=manifest.licence,
        description=f"American English. Kokoro-82M, {name}.",
        controls=_CONTROLS,
    )
    style = styles[name]
    files = (folder / "text.onnx", folder / "voice.onnx")
    return OwnVoice(info, files, lambda halves: KokoroVoice(halves[0], halves[1], style))


@contextmanager
def open_synthesizer(
    *,
    model_dir: Path | None = None,
    open_engine: Callable[[Path], Engine] = open_engine,
    phrases: PhraseCache | None = None,
    own: Sequence[OwnVoice] = (),
) -> Iterator[Synthesizer]:
    """Synthesizer with its engines loaded; they are closed at the end.

    own: voices beside ours. Raises ModelStoreError where a bundle is not pulled,
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
            bundle = voice.info.bundle
            if bundle not in engines:
                engines[bundle] = [stack.enter_context(open_engine(file)) for file in voice.files]
            added[voice.info.name] = voice.build(engines[bundle])
        known = (*VOICES, *(voice.info for voice in own))
        yield Synthesizer(voices, engines, phrases=phrases, own=added, known=known)
