"""Cuts a script into parts and remembers which are done. Pure but for `PartStore`."""

from __future__ import annotations

import hashlib
import json
import re
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

# Short enough that little is lost by an interruption, long enough that the voice
# keeps its melody across a sentence.
MAX_PART_CHARACTERS = 400
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])\s*")


@dataclass(frozen=True)
class LectureOptions:
    """What decides how a part looks and sounds, besides its text."""

    language: str
    voice: str
    avatar: str
    speed: float
    seed: int


@dataclass(frozen=True)
class Picture:
    payload: bytes
    keyframe: bool


@dataclass(frozen=True)
class Part:
    """One rendered part. pcm: [N] int16; exactly as long as the pictures."""

    pictures: Sequence[Picture]
    pcm: NDArray[np.int16]


def split_script(text: str) -> list[str]:
    """Paragraphs of `text`, long ones cut at sentence ends. Empty ones vanish."""
    parts: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text):
        sentences = [s for s in _SENTENCE_END.split(" ".join(paragraph.split())) if s]
        current = ""
        for sentence in sentences:
            if current and len(current) + len(sentence) > MAX_PART_CHARACTERS:
                parts.append(current)
                current = ""
            current = f"{current} {sentence}".strip()
        if current:
            parts.append(current)
    return parts


def part_key(text: str, index: int, start_frame: int, options: LectureOptions) -> str:
    """Changes whenever the part would look or sound different."""
    content = json.dumps([text, index, start_frame, asdict(options)], ensure_ascii=False)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


class PartStore:
    """Rendered parts in a folder beside the video, until it is whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def load(self, key: str) -> Part | None:
        """The part, or None if it is not there or was cut off while being written."""
        try:
            with self._path(key).open("rb") as file, np.load(file) as stored:
                pcm, sizes, keys = stored["pcm"], stored["sizes"], stored["keyframes"]
                payload = stored["payload"].tobytes()
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None
        ends = np.cumsum(sizes)
        pictures = [
            Picture(payload[end - size : end], bool(key_))
            for end, size, key_ in zip(ends, sizes, keys, strict=True)
        ]
        return Part(pictures, pcm)

    def save(self, key: str, part: Part) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        partial = self._path(key).with_suffix(".part")
        with partial.open("wb") as file:
            np.savez(
                file,
                pcm=part.pcm,
                sizes=np.array([len(p.payload) for p in part.pictures], np.int64),
                keyframes=np.array([p.keyframe for p in part.pictures], np.bool_),
                payload=np.frombuffer(b"".join(p.payload for p in part.pictures), np.uint8),
            )
        partial.replace(self._path(key))

    def clear(self) -> None:
        """Remove the folder and what this store put there."""
        for file in [*self._folder.glob("*.npz"), *self._folder.glob("*.part")]:
            file.unlink()
        if self._folder.is_dir() and not any(self._folder.iterdir()):
            self._folder.rmdir()

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.npz"
