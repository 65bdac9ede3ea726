"""Recorded or synthetic speech to measure with: sound, text, and where the speech ends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visavis.bench.speech_span import SpeechSpan, span_by_energy
from visavis.errors import InvalidInputError

RATE_HZ = 16_000
SUFFIXES = (".wav", ".flac", ".ogg", ".mp3", ".m4a")


@dataclass(frozen=True)
class Clip:
    """One thing that a visitor says. pcm: [N] int16 at 16 kHz."""

    name: str
    pcm: NDArray[np.int16]
    span: SpeechSpan
    text: str = ""
    """What is said; empty where nobody wrote it down."""
    language: str = "en"

    @property
    def speech_s(self) -> float:
        return (self.span.end_samples - self.span.start_samples) / RATE_HZ


def load_clips(folder: Path, language: str = "") -> list[Clip]:
    """Every sound file of `folder`, by name; `language` where no label tells it.

    `x.txt` beside `x.wav` is its text; `x.json` its label: `speech_start_s`,
    `speech_end_s`, `language`, all optional. Raises InvalidInputError.
    """
    if not folder.is_dir():
        raise InvalidInputError(f"{folder}: no such folder")
    paths = sorted(p for p in folder.iterdir() if p.suffix.lower() in SUFFIXES)
    if not paths:
        raise InvalidInputError(f"{folder}: no sound files ({', '.join(SUFFIXES)}) in it")
    return [load_clip(path, language) for path in paths]


def load_clip(path: Path, language: str = "") -> Clip:
    """One sound file with what lies beside it. Raises InvalidInputError."""
    # FFmpeg comes with the services; `visavis doctor` must start without it.
    from visavis.audio_file import read_mono

    if not path.is_file():
        raise InvalidInputError(f"{path}: no such file")
    pcm = read_mono(path, RATE_HZ)
    text_path = path.with_suffix(".txt")
    text = text_path.read_text(encoding="utf-8").strip() if text_path.is_file() else ""
    label = _label(path.with_suffix(".json"))
    spoken = language or str(label.get("language", "")) or script_language(text)
    return Clip(path.stem, pcm, _span(path, pcm, label), text, spoken)


def script_language(text: str) -> str:
    """zh where a Chinese character stands in `text`, else en."""
    return "zh" if any("\u4e00" <= c <= "\u9fff" for c in text) else "en"


def choose(clips: Sequence[Clip], count: int) -> list[Clip]:
    """`count` of them, spread evenly over the list; 0: all."""
    if not count or count >= len(clips):
        return list(clips)
    return [clips[i * len(clips) // count] for i in range(count)]


def _label(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        label = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InvalidInputError(f"{path}: not JSON: {error}") from error
    if not isinstance(label, dict):
        raise InvalidInputError(f"{path}: not a JSON object")
    return label


def _span(path: Path, pcm: NDArray[np.int16], label: dict[str, Any]) -> SpeechSpan:
    try:
        if "speech_end_s" in label:
            start = round(float(label.get("speech_start_s", 0.0)) * RATE_HZ)
            end = round(float(label["speech_end_s"]) * RATE_HZ)
            if not 0 <= start < end <= len(pcm):
                raise InvalidInputError("its label lies outside of the sound")
            return SpeechSpan(start, end, str(label.get("method", "label")))
        return span_by_energy(pcm, RATE_HZ)
    except (InvalidInputError, TypeError, ValueError) as error:
        raise InvalidInputError(f"{path}: {error}") from error
