"""What this server says of itself: programs to hear, to speak and to answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

from gateway.stages.catalog import Voice
from gateway.wyoming.events import Event

NAME = "visavis"


def info(hears: Sequence[str], voices: Sequence[Voice]) -> Event:
    """hears: languages that are understood. What does not run now is left out."""
    speaks = sorted({language for voice in voices for language in voice.languages})
    programs: dict[str, list[dict[str, Any]]] = {
        "asr": [],
        "tts": [],
        "handle": [],
        **{kind: [] for kind in ("intent", "wake", "mic", "snd")},
    }
    if hears:
        model = _artifact(NAME, "Whichever recogniser hears the language") | {
            "languages": list(hears)
        }
        programs["asr"].append(
            _artifact(NAME, "Speech to text")
            | {"models": [model], "supports_transcript_streaming": True}
        )
    if voices:
        programs["tts"].append(
            _artifact(NAME, "Text to speech")
            | {
                "voices": [
                    _artifact(voice.name, voice.description) | {"languages": voice.languages}
                    for voice in voices
                ],
                "supports_synthesize_streaming": True,
            }
        )
    model = _artifact(NAME, "The language model") | {"languages": sorted({*hears, *speaks})}
    programs["handle"].append(
        _artifact(NAME, "Conversation with the language model")
        | {
            "models": [model],
            "supports_handled_streaming": True,
            "supports_home_control": False,
        }
    )
    return Event("info", programs)


def _artifact(name: str, description: str) -> dict[str, Any]:
    attribution: Mapping[str, str] = {"name": NAME, "url": ""}
    return {
        "name": name,
        "attribution": attribution,
        "installed": True,
        "description": description,
        "version": version("visavis"),
    }
