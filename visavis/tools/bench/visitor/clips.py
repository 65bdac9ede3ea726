"""Recordings that a visitor speaks: read from sound files, with where speech begins and ends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from visavis.serving.errors import InvalidInputError

if TYPE_CHECKING:
    import av

T = TypeVar("T")

MAX_DURATION_S = 600


def read_mono(path: Path, sample_rate_hz: int) -> NDArray[np.int16]:
    """Samples [N] int16 of the file's first sound track at `sample_rate_hz`.

    WAV, FLAC, MP3, Ogg, M4A and whatever else FFmpeg reads. Raises InvalidInputError
    for a file that is not sound, is empty, or lasts more than ten minutes.
    """
    # FFmpeg comes with the services; `visavis doctor` must start without it.
    import av

    resampler = av.AudioResampler(format="s16", layout="mono", rate=sample_rate_hz)
    pieces: list[NDArray[np.int16]] = []
    length = 0
    try:
        with av.open(str(path)) as file:
            if not file.streams.audio:
                raise InvalidInputError(f"{path}: there is no sound in it")
            for frame in file.decode(audio=0):
                for resampled in resampler.resample(frame):
                    pieces.append(_samples(resampled))
                    length += len(pieces[-1])
                # Codecs pad: what was encoded as ten minutes is a little longer.
                if length > (MAX_DURATION_S + 1) * sample_rate_hz:
                    raise InvalidInputError(f"{path}: longer than {MAX_DURATION_S} s")
            pieces += [_samples(rest) for rest in resampler.resample(None)]
    except (av.FFmpegError, OSError) as error:
        reason = error.strerror or error
        raise InvalidInputError(f"{path}: not a sound file that can be read: {reason}") from error
    pcm = np.concatenate(pieces or [np.zeros(0, np.int16)])
    if not len(pcm):
        raise InvalidInputError(f"{path}: there is no sound in it")
    return pcm


def _samples(frame: av.AudioFrame) -> NDArray[np.int16]:
    return frame.to_ndarray().reshape(-1).astype(np.int16, copy=False)


# ------------------------------------------------------------ where speech begins and ends
# The zero of every latency figure.
#
# Best is a label beside the sound (`clip.json` with `speech_start_s` and `speech_end_s`, as
# `visavis bench questions` writes it: what we made ourselves we know to the sample). Without
# one the energy decides: see `span_by_energy`.

FRAME_S = 0.010
BELOW_LOUD_DB = 30.0
ABOVE_NOISE_DB = 9.0
SHORTEST_SPEECH_S = 0.05
# Synthetic speech lies on perfect silence: what is louder than this is voice.
SYNTHETIC_FLOOR = 10 ** (-50 / 20)
ENERGY_METHOD = (
    "energy: first and last 10 ms frame, in runs of at least 50 ms, that is within 30 dB of "
    "the loud frames (95th percentile) and 9 dB above the noise (10th percentile)"
)


@dataclass(frozen=True, slots=True)
class SpeechSpan:
    """Speech from `start_samples` up to `end_samples`, and how that is known."""

    start_samples: int
    end_samples: int
    method: str


def span_by_energy(pcm: NDArray[np.int16], sample_rate_hz: int) -> SpeechSpan:
    """The span of the speech in pcm [N] int16, exact to 10 ms.

    A final consonant more than 30 dB below the vowels is not seen: the end may lie some
    tens of ms too early (20 ms by the median of our labelled questions), which makes
    latencies longer. Noise that swells after the speech, such as applause, is taken for
    speech: such a recording needs a label. Raises InvalidInputError where nothing rises
    above the noise.
    """
    size = round(FRAME_S * sample_rate_hz)
    levels = frame_levels_db(pcm, size)
    if not len(levels) or not np.any(pcm):
        raise InvalidInputError("there is no speech in it")
    loud, noise = np.percentile(levels, [95, 10])
    # In a recording without pauses the quietest tenth is speech, not noise.
    floor = min(noise + ABOVE_NOISE_DB, loud - 12.0)
    voiced = levels > max(loud - BELOW_LOUD_DB, floor)
    voiced &= _in_long_runs(voiced, round(SHORTEST_SPEECH_S / FRAME_S))
    where = np.flatnonzero(voiced)
    if not len(where):
        raise InvalidInputError("there is no speech in it that stands out from the noise")
    end = min(len(pcm), int(where[-1] + 1) * size)
    return SpeechSpan(int(where[0]) * size, end, ENERGY_METHOD)


def span_of_synthetic(pcm: NDArray[np.int16]) -> SpeechSpan:
    """First and last sample above -50 dB of full scale. pcm: [N] int16, a voice on silence.

    Raises InvalidInputError where there is none.
    """
    where = np.flatnonzero(np.abs(pcm.astype(np.int32)) > SYNTHETIC_FLOOR * 32768)
    if not len(where):
        raise InvalidInputError("there is no speech in it")
    return SpeechSpan(int(where[0]), int(where[-1]) + 1, "label: synthetic, known to the sample")


def frame_levels_db(pcm: NDArray[np.int16], frame_samples: int) -> NDArray[np.float64]:
    """RMS of each whole frame of pcm [N] int16: [N // frame_samples] float64, dB of full scale, at
    least -100.
    """
    count = len(pcm) // frame_samples
    frames = pcm[: count * frame_samples].reshape(count, frame_samples) / 32768.0
    power = np.mean(np.square(frames), axis=1) if count else np.zeros(0)
    levels: NDArray[np.float64] = 10 * np.log10(np.maximum(power, 1e-10))
    return levels


def _in_long_runs(voiced: NDArray[np.bool_], shortest: int) -> NDArray[np.bool_]:
    """True where a frame belongs to a run of at least `shortest` true ones: not to a click."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], voiced, [False]])))
    kept = np.zeros(len(voiced), np.bool_)
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        kept[start:end] = end - start >= shortest
    return kept


# ------------------------------------------------------------ clips

RATE_HZ = 16_000
HELD_OUT, GIVEN, OWN, TUNED = "held out", "given", "own voices", "own voices, tuned on"
GROUPS = (HELD_OUT, GIVEN, OWN, TUNED)
"""Of clips, by what a figure on them is worth; the last are for nobody's eyes but ours."""
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
    group: str = GIVEN

    @property
    def speech_s(self) -> float:
        return (self.span.end_samples - self.span.start_samples) / RATE_HZ


def load_clips(folder: Path, language: str = "") -> list[Clip]:
    """Every sound file of `folder`, by name; `language` where no label tells it.

    `x.txt` beside `x.wav` is its text; `x.json` its label: `speech_start_s`,
    `speech_end_s`, `language`, `group` (of GROUPS), all optional. Raises InvalidInputError.
    """
    if not folder.is_dir():
        raise InvalidInputError(f"{folder}: no such folder")
    paths = sorted(p for p in folder.iterdir() if p.suffix.lower() in SUFFIXES)
    if not paths:
        raise InvalidInputError(f"{folder}: no sound files ({', '.join(SUFFIXES)}) in it")
    return [load_clip(path, language) for path in paths]


def load_clip(path: Path, language: str = "") -> Clip:
    """One sound file with what lies beside it. Raises InvalidInputError."""
    if not path.is_file():
        raise InvalidInputError(f"{path}: no such file")
    pcm = read_mono(path, RATE_HZ)
    text_path = path.with_suffix(".txt")
    text = text_path.read_text(encoding="utf-8").strip() if text_path.is_file() else ""
    label = _label(path.with_suffix(".json"))
    spoken = language or str(label.get("language", "")) or script_language(text)
    group = str(label.get("group", GIVEN))
    return Clip(path.stem, pcm, _span(path, pcm, label), text, spoken, group)


def script_language(text: str) -> str:
    """zh where a Chinese character stands in `text`, else en."""
    return "zh" if any("\u4e00" <= c <= "\u9fff" for c in text) else "en"


def choose(clips: Sequence[T], count: int) -> list[T]:
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
