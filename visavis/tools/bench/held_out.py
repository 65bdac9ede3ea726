"""Questions that nothing was tuned on: other texts, other voices, pauses in mid-sentence, noise.

Our own recogniser and turn-taking know our own voice; a figure on it flatters. These are spoken by
three voices of Kokoro that nothing of ours was learnt from, and by the same as if their vocal
tracts were a tenth shorter or longer; a quarter of them with a pause put in where nobody ends, half
of them in noise. The noise is simulated, and goes on behind the speech: one that ended with it
would tell where the end is. What synthetic voices cannot tell is how people hesitate: put
recordings of people beside it, with `"group": "held out"` in their labels.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import grpc.aio
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from visavis.serving.errors import InvalidInputError
from visavis.tools.bench.questions import Line, chosen_clips, ready_set, speak, write_clip
from visavis.tools.bench.visitor.clips import (
    HELD_OUT,
    OWN,
    RATE_HZ,
    TUNED,
    Clip,
    choose,
    load_clips,
    span_of_synthetic,
)
from visavis.tools.cli.models import pull_missing, pull_profile
from visavis.tools.stack.plain_service import plain_service
from visavis.tools.stack.process import log_dir

# ------------------------------------------------------------ what is said, by whom, in what

BUNDLE = "kokoro-82m-int8"
# The voice that ours was distilled from is not among them. Pitch and formants of the latter are
# moved by resampling, as recognisers' material is made of more speakers than there are (Jaitly &
# Hinton, "Vocal tract length perturbation", ICML workshop on deep learning for audio, 2013).
SPEAKERS = (
    *(("af_bella", 1.0), ("am_michael", 1.0), ("am_fenrir", 1.0)),
    *(("af_bella", 1.1), ("am_michael", 0.9), ("am_fenrir", 1.1)),
)
"""Voice, and how much higher all of it is."""
NOISES = ("", "room 20 dB", "", "babble 20 dB", "", "babble 10 dB")
"""Taken in turn, so that each speaker speaks in each; "": digital silence."""
SPEEDS = (1.0, 1.15, 0.9)

# {600}: a pause of so many milliseconds is put in there.
TEXTS = (
    "What makes the sea salty?",
    "Which country has the most islands?",
    "Can you name three animals that sleep in winter?",
    "I have a small garden. {500} What could I grow in it?",
    "How heavy is an elephant?",
    "Do you think it will be cold tomorrow?",
    "Where was chocolate first made?",
    "If I miss my train, {450} can I take the next one with the same ticket?",
    "Why does bread rise in the oven?",
    "What is seven times eight?",
    "Who painted the Mona Lisa?",
    "We are four people. {600} How much rice should I cook?",
    "How do I get a stain out of a white shirt?",
    "Is there water on the moon?",
    "What is the tallest building in the world?",
    "My sister likes music, {700} and I want to give her something nice, what would you choose?",
    "How long should an egg boil?",
    "When is the best time to plant tulips?",
    "Could you say that again, please?",
    "I would like to know {650} how old the universe is.",
    "What does a vet do all day?",
    "Are tomatoes fruit or vegetables?",
    "How many bones are there in a human body?",
    "Tell me about Iceland. {550} Is it expensive there?",
    "What can I see in Rome in two days?",
    "Why do we yawn?",
    "Which is faster, a horse or a bicycle?",
    "My number is four two, {600} seven one, {500} nine. Can you repeat it?",
    "How is glass made?",
    "Would a cat and a dog get along in a small flat?",
    "What is the name of the biggest desert?",
    "I need milk, eggs, {500} and what else do I need for pancakes?",
    "Who discovered penicillin?",
    "How far can a kangaroo jump?",
    "What is a good name for a puppy?",
    "Before I forget, {700} what time is it in Sydney now?",
    "Do bees sleep at night?",
    "What is the difference between rain and drizzle?",
    "How can I stop hiccups?",
    "There is a book about a whale. {450} Who wrote it?",
    "What should I wear to an interview?",
    "Why is the night sky dark?",
    "Which language has the most speakers?",
    "I am a bit tired today, {600} so could you tell me something funny?",
    "How do I keep bread fresh?",
    "Is it far from Paris to Rome?",
    "What do you call a baby kangaroo?",
    "Let us talk about trains. {500} Which one is the fastest?",
)
_PAUSE = re.compile(r"\s*\{(\d+)\}\s*")


@dataclass(frozen=True)
class HeldOutLine:
    """One question: its parts, the pauses between them, and who says it in what noise."""

    name: str
    parts: tuple[str, ...]
    pauses_ms: tuple[int, ...]
    voice: str
    higher: float
    speed: float
    noise: str

    @property
    def text(self) -> str:
        return " ".join(self.parts)


def held_out_lines() -> list[HeldOutLine]:
    """The set, in order."""
    lines = []
    for index, text in enumerate(TEXTS):
        pieces = _PAUSE.split(text)
        name, (voice, higher) = f"held-out-{index + 1:02d}", SPEAKERS[index % len(SPEAKERS)]
        row = index // len(SPEAKERS)
        speed, noise = SPEEDS[row % len(SPEEDS)], NOISES[row % len(NOISES)]
        pauses = tuple(map(int, pieces[1::2]))
        lines.append(HeldOutLine(name, tuple(pieces[::2]), pauses, voice, higher, speed, noise))
    return lines


# ------------------------------------------------------------ the sound

_VERSION = 1
_LEAD_S = 0.5
_TAIL_S = 2.0
_TALKERS = 6


def simulated_noise(
    kind: str, samples: int, seed: int, voices: Sequence[NDArray[np.int16]]
) -> NDArray[np.float32]:
    """[samples] float32 of RMS 1. kind: room (pink) or babble, six of `voices` ([N] int16) at once.

    Raises InvalidInputError for another kind.
    """
    random = np.random.default_rng(seed)
    if kind == "room":
        spectrum = np.fft.rfft(random.standard_normal(samples))
        spectrum /= np.sqrt(np.maximum(np.arange(len(spectrum)), 1.0))
        noise = np.fft.irfft(spectrum, samples)
    elif kind == "babble":
        noise = np.zeros(samples)
        for index in random.choice(len(voices), min(_TALKERS, len(voices)), replace=False):
            voice = voices[index] / max(1.0, float(np.std(voices[index])))
            start = int(random.integers(len(voice)))
            noise += np.resize(np.roll(voice, -start), samples)
    else:
        raise InvalidInputError(f"noise: {kind!r}; known are room and babble")
    return np.asarray(noise / np.std(noise), np.float32)


def put_together(
    parts: Sequence[NDArray[np.int16]], pauses_ms: Sequence[int]
) -> tuple[NDArray[np.int16], int, int]:
    """The parts with their pauses, after a silence: [N] int16, and where speech begins and ends."""
    pieces = [np.zeros(round(_LEAD_S * RATE_HZ), np.int16)]
    for index, part in enumerate(parts):
        if index:
            pieces.append(np.zeros(pauses_ms[index - 1] * RATE_HZ // 1000, np.int16))
        span = span_of_synthetic(part)
        pieces.append(part[span.start_samples : span.end_samples])
    pcm = np.concatenate(pieces)
    return pcm, len(pieces[0]), len(pcm)


def in_noise(
    pcm: NDArray[np.int16], start: int, noise: str, seed: int, voices: Sequence[NDArray[np.int16]]
) -> NDArray[np.int16]:
    """pcm [N] int16, speech from sample `start` on, with noise under and after it; "": as it is.

    noise: kind and how far the speech is above it, by RMS: "babble 10 dB".
    """
    if not noise:
        return pcm
    kind, below_db, _unit = noise.split()
    level = float(np.std(pcm[start:])) * 10 ** (-float(below_db) / 20)
    samples = len(pcm) + round(_TAIL_S * RATE_HZ)
    under = simulated_noise(kind, samples, seed, voices) * level
    under[: len(pcm)] += pcm
    mixed: NDArray[np.int16] = np.clip(under, -32768, 32767).astype(np.int16)
    return mixed


def write_held_out(folder: Path, spoken: Sequence[Sequence[NDArray[np.int16]]]) -> None:
    """The clips with their labels. spoken: of each line the parts, [N] int16 at 16 kHz."""
    lines = held_out_lines()
    voices = [parts[0] for parts in spoken]
    for index, (line, parts) in enumerate(zip(lines, spoken, strict=True)):
        pcm, start, end = put_together(parts, line.pauses_ms)
        others = [voice for other, voice in enumerate(voices) if other != index]
        write_clip(folder / f"{line.name}.wav", in_noise(pcm, start, line.noise, index, others))
        (folder / f"{line.name}.txt").write_text(line.text + "\n", encoding="utf-8")
        label = {
            "speech_start_s": start / RATE_HZ,
            "speech_end_s": end / RATE_HZ,
            "language": "en",
            "group": HELD_OUT,
            "voice": line.voice
            if line.higher == 1
            else f"{line.voice} x {line.higher} (simulated)",
            "noise": f"{line.noise} (simulated)" if line.noise else "",
            "method": "label: synthetic, known to the sample",
        }
        (folder / f"{line.name}.json").write_text(json.dumps(label, indent=2), encoding="utf-8")


# ------------------------------------------------------------ made once and kept


def ready_held_out(profile: str, console: Console) -> Path:
    """The folder of the set, spoken first where it is not there: then its voices are pulled."""
    content = json.dumps([_VERSION, _LEAD_S, _TAIL_S, [asdict(line) for line in held_out_lines()]])
    key = hashlib.sha256(content.encode()).hexdigest()[:10]
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(cache).expanduser() / "visavis" / "bench" / f"held-out-{key}"
    if not folder.is_dir():
        pull_profile(profile, console)
        pull_missing([BUNDLE], console)
        asyncio.run(_make(folder, profile, console))
    return folder


async def _make(folder: Path, profile: str, console: Console) -> None:
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    voices = sorted({f"{BUNDLE}:{voice}" for voice, _higher in SPEAKERS})
    flags = ["--profile", profile, "--voices", ",".join(voices)]
    with console.status("Speaking the held-out set once …") as status:
        async with plain_service("tts", flags, log_dir() / "bench") as tts:
            spoken = await _speak_all(tts, lambda text: status.update(f"Speaking: {text}"))
    write_held_out(part, spoken)
    part.replace(folder)


async def _speak_all(
    tts: grpc.aio.Channel, on_line: Callable[[str], None]
) -> list[list[NDArray[np.int16]]]:
    spoken = []
    for line in held_out_lines():
        on_line(line.text)
        parts = [Line(line.name, _going_on(part), "en", line.speed) for part in line.parts]
        spoken.append([raised(await speak(part, tts, line.voice), line.higher) for part in parts])
    return spoken


def raised(pcm: NDArray[np.int16], higher: float) -> NDArray[np.int16]:
    """pcm [N] int16 as of a speaker all of whose voice is so much higher: [N / higher] int16."""
    import soxr  # comes with the services, like FFmpeg

    moved: NDArray[np.int16] = soxr.resample(pcm, higher * RATE_HZ, RATE_HZ)
    return moved


def _going_on(part: str) -> str:
    """A part without a mark at its end is spoken as one that goes on."""
    return f"{part}," if part[-1].isalnum() else part


# ------------------------------------------------------------ what is measured on


def measured_clips(
    folder: Path | None, language: str, count: int, profile: str, console: Console
) -> list[Clip]:
    """The clips that the options name; without a folder the held-out set, then our own voices'.

    count: of each. Raises InvalidInputError where there are none.
    """
    if folder is not None:
        return chosen_clips(folder, language, count, profile, console)
    held_out = load_clips(ready_held_out(profile, console)) if language in ("", "en") else []
    return choose(held_out, count) + choose(own_clips(language, profile, console), count)


def own_clips(language: str, profile: str, console: Console) -> list[Clip]:
    """Our own voices' questions; each other one is of the half that rules were chosen on."""
    made = load_clips(ready_set("questions", profile, console))
    clips = [
        replace(clip, group=TUNED if int(clip.name[-2:]) % 2 else OWN)
        for clip in made
        if language in ("", clip.language)
    ]
    if not clips:
        raise InvalidInputError(f"language: no clip is in {language!r}")
    return clips
