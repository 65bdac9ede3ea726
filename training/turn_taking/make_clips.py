"""Makes the labelled turn-taking set of tests/turns from clips.toml.

    python -m training.turn_taking.make_clips --recordings FOLDER

FOLDER holds the recordings that clips.toml names as 16 kHz mono WAV files; where they come
from is told in tests/turns/SOURCES.md. Without it the synthetic clips alone are made, and the
recorded ones stay as they are. The voices are ours (services/tts), so the set can be
made anew, to the sample.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import soxr
from numpy.typing import NDArray

from services.tts.synthesizer import Synthesizer
from services.tts.voices.opening import open_synthesizer
from training.turn_taking.sounds import (
    SAMPLE_RATE_HZ,
    Spoken,
    in_a_room,
    joined,
    natural_pauses,
    trimmed,
    with_pause,
)
from visavis.tools.bench.turns import TurnClip, load_turn_clips, write_labels
from visavis.tools.bench.visitor.clips import read_mono

_MARGIN_SAMPLES = SAMPLE_RATE_HZ * 3 // 10
_PAUSE = re.compile(r"\s*<(\d+)>\s*")
_BITS_PER_SECOND = 32_000
# Clips differ in speed, so that rules are not tuned to one.
_SPEEDS = (1.0, 0.9, 1.12)


def main() -> None:
    here = Path(__file__)
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    options.add_argument("--recordings", type=Path, help="folder of the recordings as WAV files")
    options.add_argument("--out", type=Path, default=here.parents[2] / "tests" / "turns")
    chosen = options.parse_args()
    spec = tomllib.loads(here.with_name("clips.toml").read_text("utf-8"))
    clips: list[TurnClip] = []
    with open_synthesizer() as synthesizer:
        for name, half, text, sound in synthetic(spec["synthetic"], synthesizer):
            language, category, _ = name.split("_")
            clips.append(
                write(chosen.out, name, sound, language, category, "synthetic", text, half)
            )
    if chosen.recordings is None:
        clips += [clip for clip in load_turn_clips(chosen.out) if clip.origin == "recorded"]
    else:
        # What is cut from one recording is in one half.
        sources = list(dict.fromkeys(clip["recording"] for clip in spec["recorded"]))
        for number, clip in enumerate(spec["recorded"]):
            sound = recorded(chosen.recordings, clip)
            name = f"{clip['language']}_{clip['category']}_recorded{number:02d}"
            half = ("tune", "test")[sources.index(clip["recording"]) % 2]
            about = (clip["language"], clip["category"], "recorded", clip["text"], half)
            clips.append(write(chosen.out, name, sound, *about))
    write_labels(chosen.out, clips)


def synthetic(
    spec: dict[str, dict[str, list[str]]], synthesizer: Synthesizer
) -> Iterator[tuple[str, str, str, Spoken]]:
    """Name, half, text and sound of every synthetic clip."""
    for language, categories in spec.items():
        for category, texts in categories.items():
            for number, text in enumerate(texts):
                parts = _PAUSE.split(text)
                speed = _SPEEDS[number // 2 % len(_SPEEDS)]
                spoken = [spoken_part(synthesizer, part, language, speed) for part in parts[::2]]
                gaps = [int(ms) * SAMPLE_RATE_HZ // 1000 for ms in parts[1::2]]
                said = "".join(parts[::2]) if language == "zh" else " ".join(parts[::2])
                half = ("tune", "test")[number % 2]
                yield f"{language}_{category}_{number:02d}", half, said, joined(spoken, gaps)


def spoken_part(
    synthesizer: Synthesizer, text: str, language: str, speed: float
) -> NDArray[np.float32]:
    """One part between pauses, [N] float32 at 16 kHz; one without a sign at its end is spoken as
    going on.
    """
    if text[-1].isalnum():
        text += "，" if language == "zh" else ","
    pieces = [piece.voice for piece in synthesizer.speak(text, language=language, speed=speed)]
    pcm = np.concatenate(pieces).astype(np.float32) / 32768
    resampled = soxr.resample(pcm, synthesizer.sample_rate_hz, SAMPLE_RATE_HZ)
    return trimmed(np.asarray(resampled, np.float32))


def recorded(folder: Path, clip: dict[str, Any]) -> Spoken:
    """A cut of a recording, with the pauses that the speaker made and those put in."""
    samples = read_mono(folder / f"{clip['recording']}.wav", SAMPLE_RATE_HZ)
    pcm = samples.astype(np.float32) / np.float32(32768)
    per_ms = SAMPLE_RATE_HZ // 1000
    start = clip.get("from_ms", 0) * per_ms
    cut = pcm[start : clip["to_ms"] * per_ms if "to_ms" in clip else len(pcm)]
    speech = trimmed(cut)
    offset = start + _place_of(speech, cut)
    sound = Spoken(speech, natural_pauses(speech))
    for at_ms, pause_ms in reversed(clip.get("pauses", [])):
        sound = with_pause(sound, at_ms * per_ms - offset, pause_ms * per_ms)
    return sound


def _place_of(part: NDArray[np.float32], whole: NDArray[np.float32]) -> int:
    """Where a view begins in the array that it is a view of, in samples."""
    begin, base = (a.__array_interface__["data"][0] for a in (part, whole))
    return int(begin - base) // whole.itemsize


def write(
    folder: Path,
    name: str,
    spoken: Spoken,
    language: str,
    category: str,
    origin: str,
    text: str,
    half: str,
) -> TurnClip:
    """The clip as an Opus file."""
    room = in_a_room(spoken, _MARGIN_SAMPLES, seed=len(spoken.pcm))
    path = folder / f"{name}.opus"
    write_opus(path, room.pcm)
    end = len(room.pcm) - _MARGIN_SAMPLES
    return TurnClip(path, language, category, origin, text, _MARGIN_SAMPLES, end, room.pauses, half)


def write_opus(path: Path, pcm: NDArray[np.float32]) -> None:
    """pcm: [N] float32 in -1..1 at 16 kHz."""
    samples = np.round(pcm * 32767).astype(np.int16)[None]
    with av.open(str(path), "w") as file:
        stream = file.add_stream("libopus", rate=SAMPLE_RATE_HZ, layout="mono")
        stream.bit_rate = _BITS_PER_SECOND
        frame = av.AudioFrame.from_ndarray(samples, format="s16", layout="mono")
        frame.sample_rate = SAMPLE_RATE_HZ
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            file.mux(packet)


if __name__ == "__main__":
    main()
