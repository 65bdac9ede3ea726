"""The voices that exist, and which one speaks what.

`voices` in these functions are those of the service: ours, and what the user added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from services.tts.sound import SAMPLE_RATE_HZ
from visavis.serving.errors import UnknownNameError


@dataclass(frozen=True, slots=True)
class VoiceInfo:
    """A voice as clients are told of it."""

    name: str
    bundle: str
    languages: tuple[str, ...]
    gender: str
    licence: str
    description: str
    controls: frozenset[str]
    """Names of Prosody's fields that it can change."""
    sample_rate_hz: int = SAMPLE_RATE_HZ


VOICES = (
    VoiceInfo(
        name="heart",
        bundle="hibari-en",
        languages=("en",),
        gender="female",
        licence="Apache-2.0",
        description="American English, warm. Hibari, distilled from Kokoro-82M.",
        controls=frozenset({"speed", "pitch", "pitch_range", "energy", "voicing"}),
    ),
    VoiceInfo(
        name="baker",
        bundle="fastspeech2-mbmelgan-zh",
        languages=("zh",),
        gender="female",
        licence="MIT (weights); the Baker corpus it was trained on is for non-commercial use only",
        description="Mandarin, clear. FastSpeech 2 and multi-band MelGAN. Non-commercial use only.",
        controls=frozenset({"speed", "energy"}),
    ),
)
DEFAULT_LANGUAGE = "en"
_SAME_LANGUAGE = {"cmn": "zh", "zho": "zh", "chi": "zh", "eng": "en"}


def language_of(tag: str) -> str:
    """Language "en" or "zh" of a BCP 47 tag ("en-GB", "zh-Hans-CN"); "" is the default.

    Raises UnknownNameError for a language that no voice speaks.
    """
    if not tag:
        return DEFAULT_LANGUAGE
    primary = tag.replace("_", "-").split("-")[0].lower()
    language = _SAME_LANGUAGE.get(primary, primary)
    known = sorted({known for voice in VOICES for known in voice.languages})
    if language not in known:
        raise UnknownNameError(
            f"language: no voice speaks {tag[:40]!r}; known are {', '.join(known)}"
        )
    return language


def voice_named(name: str, voices: Sequence[VoiceInfo] = VOICES) -> VoiceInfo:
    """The voice called `name`. Raises UnknownNameError, listing those that exist."""
    for voice in voices:
        if voice.name == name:
            return voice
    names = ", ".join(voice.name for voice in voices)
    raise UnknownNameError(f"voice: there is no {name[:80]!r}; known are {names}")


def voices_for(tag: str, voices: Sequence[VoiceInfo] = VOICES) -> list[VoiceInfo]:
    """Voices that speak the language of a BCP 47 tag; all of them for ""."""
    if not tag:
        return list(voices)
    language = language_of(tag)
    return [voice for voice in voices if language in voice.languages]
