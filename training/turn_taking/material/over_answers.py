"""What is said, coughed and knocked over an answer, and the answers that it is said over.

A file a sound and `labels.jsonl`; `answers` lie beside them as `answer_*.opus`, in our own voice,
which the avatar speaks with. A third set, *confirm*, lies apart: what has been chosen and looked at
on both halves is measured on it once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soxr
from numpy.typing import NDArray

from services.tts.synthesizer import Synthesizer
from services.tts.voices.opening import open_synthesizer
from training.turn_taking.make_clips import write_opus
from training.turn_taking.material.rooms import in_room, short_sound
from training.turn_taking.material.voices import Speakers
from training.turn_taking.sounds import SAMPLE_RATE_HZ, trimmed
from visavis.tools.bench.turns import LABELS

NOISES = ("cough", "clap", "door", "keyboard")
"""Simulated."""
_ROOMS = ("", "study", "office")
_SPEEDS = (1.0, 1.1, 0.92)
_SPEAKERS_A_TEXT = {"en": 4, "zh": 3}
_TO_CONFIRM = 2
"""Speakers a text: it has more texts."""
_NOISES_A_KIND = {"tune": 8, "test": 12, "confirm": 0}
_SPEECH_RMS = 10 ** (-25 / 20)
_LEAD_S = 0.1


@dataclass(frozen=True, slots=True)
class OverAnswer:
    """One sound over an answer. Positions are samples at 16 kHz."""

    file: str
    kind: str
    """"interruption", "backchannel", or what made the noise."""
    language: str
    text: str
    half: str
    voice: str
    room: str
    start: int
    end: int

    @property
    def stops(self) -> bool:
        """Whether it ought to stop the answer."""
        return self.kind == "interruption"


def load(folder: Path, half: str) -> list[OverAnswer]:
    """The sounds of a half."""
    lines = (folder / LABELS).read_text("utf-8").splitlines()
    return [sound for line in lines if (sound := OverAnswer(**json.loads(line))).half == half]


def make(
    folder: Path,
    texts: Mapping[str, Any],
    speakers: Speakers,
    names: Mapping[tuple[str, str], tuple[str, ...]],
    halves: Sequence[str] = ("tune", "test"),
) -> None:
    """The sounds and the answers of each half."""
    made = []
    for half in halves:
        for language in ("en", "zh"):
            # A hum is a person's: programs that spell it out ("em aitch em") say something else.
            voices = [v for v in names[half, language] if v.split()[0] in ("vits", "kokoro")]
            said = texts[half][language]["over"]
            lines = [(kind, text) for kind in said for text in said[kind]]
            each = _TO_CONFIRM if half == "confirm" else _SPEAKERS_A_TEXT[language]
            for n, (kind, text) in enumerate(lines):
                for k in range(each):
                    voice = voices[(n * each + k) % len(voices)]
                    pcm = speakers.say(text, voice, _SPEEDS[(n + k) % len(_SPEEDS)])
                    pcm = pcm * (
                        _SPEECH_RMS / float(np.sqrt((pcm[np.abs(pcm) > 1e-3] ** 2).mean()))
                    )
                    about = (kind, language, text, half, voice, _ROOMS[(n + k) % len(_ROOMS)])
                    made.append(
                        _written(folder, f"{half}_{language}_{kind}_{n:02d}_{k}", pcm, *about)
                    )
        for kind in NOISES:
            for n in range(_NOISES_A_KIND[half]):
                pcm = short_sound(kind, n + (0 if half == "tune" else 1000)) * (
                    0.25 + 0.15 * (n % 5)
                )
                about = (kind, "", "", half, "simulated", _ROOMS[n % len(_ROOMS)])
                made.append(_written(folder, f"{half}_{kind}_{n:02d}", pcm, *about))
        with open_synthesizer() as synthesizer:
            for n, text in enumerate(texts["answers"][half]):
                write_opus(folder / f"answer_{half}_{n:02d}.opus", _answer(synthesizer, text))
                (folder / f"answer_{half}_{n:02d}.txt").write_text(text + "\n", "utf-8")
    told = "\n".join(json.dumps(asdict(sound), ensure_ascii=False) for sound in made)
    (folder / LABELS).write_text(told + "\n", "utf-8")


def _written(
    folder: Path, name: str, pcm: NDArray[np.float32],
    kind: str, language: str, text: str, half: str, voice: str, room: str,
) -> OverAnswer:  # fmt: skip
    lead = round(_LEAD_S * SAMPLE_RATE_HZ)
    wet = np.concatenate([np.zeros(lead, np.float32), in_room(pcm, room)])
    write_opus(folder / f"{name}.opus", np.clip(wet, -1, 1))
    return OverAnswer(
        f"{name}.opus", kind, language, text, half, voice, room, lead, lead + len(pcm)
    )


def _answer(synthesizer: Synthesizer, text: str) -> NDArray[np.float32]:
    pieces = [piece.voice for piece in synthesizer.speak(text, language="en")]
    pcm = np.concatenate(pieces).astype(np.float32) / 32768
    return trimmed(
        np.asarray(soxr.resample(pcm, synthesizer.sample_rate_hz, SAMPLE_RATE_HZ), np.float32)
    )
