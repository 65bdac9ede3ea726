"""Voices of the user's own: bundles that `visavis bundle make piper` made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from services.tts.piper import PiperConfig
from services.tts.voices import VoiceInfo
from visavis.engine.bundles import maker_of
from visavis.errors import SettingsError
from visavis.models import bundle_path, load_manifest

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
