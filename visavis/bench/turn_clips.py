"""A labelled turn-taking set: where each turn truly ends, and the pauses in which it goes on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visavis.audio_file import read_mono
from visavis.errors import InvalidInputError

RATE_HZ = 16_000
LABELS = "labels.jsonl"
# After the last word the speaker waits for an answer; no microphone is wholly silent.
_TAIL_SAMPLES = 2 * RATE_HZ
_ROOM_NOISE = 32768 * 10 ** (-62 / 20)


@dataclass(frozen=True, slots=True)
class TurnClip:
    """One turn. Positions are samples at 16 kHz; pauses as (first sample, end)."""

    path: Path
    language: str
    category: str
    """"short", "finished", "unfinished" (pauses where nobody ends) or "hesitant"."""
    origin: str
    """"recorded" or "synthetic"."""
    text: str
    speech_start: int
    turn_end: int
    """After the last sample of speech."""
    pauses: tuple[tuple[int, int], ...]
    half: str
    """"tune": rules were chosen on it; "test": they were not."""

    def sound(self) -> NDArray[np.int16]:
        """[N] int16: the clip, then two seconds of a quiet room. Raises InvalidInputError."""
        pcm = read_mono(self.path, RATE_HZ)
        room = np.random.default_rng(1).normal(size=_TAIL_SAMPLES) * _ROOM_NOISE
        return np.concatenate([pcm, room.astype(np.int16)])


def load_turn_clips(folder: Path, language: str = "", half: str = "") -> list[TurnClip]:
    """The clips that `labels.jsonl` in the folder names. Raises InvalidInputError."""
    path = folder / LABELS
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError as error:
        raise InvalidInputError(
            f"{path}: {error.strerror}; name a folder with a labelled set, such as tests/turns"
        ) from error
    clips = [_clip(folder, line, f"{path}:{n}") for n, line in enumerate(lines, 1) if line.strip()]
    chosen = [clip for clip in clips if language in ("", clip.language) and half in ("", clip.half)]
    if not chosen:
        raise InvalidInputError(f"{path}: no clip with language {language!r} and half {half!r}")
    return chosen


def _clip(folder: Path, line: str, where: str) -> TurnClip:
    try:
        label = json.loads(line)
        return TurnClip(
            folder / str(label["file"]),
            str(label["language"]),
            str(label["category"]),
            str(label["origin"]),
            str(label["text"]),
            int(label["speech_start"]),
            int(label["turn_end"]),
            tuple((int(first), int(end)) for first, end in label["pauses"]),
            str(label.get("half", "test")),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidInputError(f"{where}: not a label: {error!r}") from error
