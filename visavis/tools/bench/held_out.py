"""Questions that nothing was tuned on: other texts, other voices, pauses in mid-sentence, noise.

Our own recogniser and turn-taking know our own voice; a figure on it flatters. These are spoken by
six voices of Kokoro that nothing of ours was learnt from; a quarter of them with a pause put in
where nobody ends, half of them in noise. The noise is simulated, and goes on behind the speech: one
that ended with it would tell where the end is. What synthetic voices cannot tell is how people
hesitate: put recordings of people beside it, with `"group": "held out"` in their labels.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import grpc.aio
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from visavis.bundles.store.catalogue import cache_root
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
# Neither the voice that ours was distilled from is among them, nor one of
# training/turn_taking/material.
SPEAKERS = ("af_nova", "am_eric", "af_kore", "am_liam", "af_sarah", "am_adam")
NOISES = ("", "room 20 dB", "", "babble 20 dB", "", "babble 10 dB")
"""Taken in turn, so that each speaker speaks in each; "": digital silence."""
SPEEDS = (1.0, 1.15, 0.9)

# {600}: a pause of so many milliseconds is put in there.
TEXTS = (
    "What causes a rainbow?",
    "How many players are in a football team?",
    "Can you explain what inflation means?",
    "I bought a new bicycle. {500} Where should I ride it this weekend?",
    "Who invented the telephone?",
    "Do fish ever feel thirsty?",
    "Where do swallows go in winter?",
    "If it rains on Saturday, {450} what could we do indoors with three children?",
    "Why do leaves change colour in autumn?",
    "What is half of ninety six?",
    "Which planet is the hottest?",
    "My grandmother turns eighty next week. {600} What could I bake for her?",
    "How do I sharpen a kitchen knife?",
    "Is green tea better than coffee?",
    "When was the first film shown?",
    "We have been walking all day, {700} our feet hurt, is there a bus from here?",
    "How long does it take to learn the piano?",
    "What should I pack for a week in Norway?",
    "Would you read me a short poem?",
    "Please explain {650} why the moon has phases.",
    "What does an architect earn?",
    "Are dolphins smarter than dogs?",
    "How much water should I drink in a day?",
    "I was thinking about Portugal. {550} Which month is the quietest there?",
    "What happens when you mix blue and yellow?",
    "Why is my bread so flat?",
    "Could a person live on potatoes alone?",
    "The code is three one, {600} eight eight, {500} two. Did you get all of it?",
    "How is paper recycled?",
    "Who was the first woman in space?",
    "What is the quickest way to fall asleep?",
    "For the salad I have cucumbers, olives, {500} and what cheese would fit?",
    "Is there a river under London?",
    "How high do planes usually fly?",
    "What can I call my new boat?",
    "By the way, {700} how late is the library open today?",
    "Do plants grow faster with music?",
    "What is the capital of Mongolia?",
    "How can I remember names better?",
    "Somebody told me about a blue frog. {450} Is it dangerous?",
    "What colours go well with grey?",
    "Why do cats purr?",
    "Which bridge is the longest in Europe?",
    "I forgot my umbrella this morning, {600} so will I get wet on the way home?",
    "How do I keep my plants alive while I travel?",
    "Is chess harder than poker?",
    "What is the opposite of generous?",
    "Let me tell you about our dog. {500} Do you know why he digs so much?",
)
_PAUSE = re.compile(r"\s*\{(\d+)\}\s*")


@dataclass(frozen=True)
class HeldOutLine:
    """One question: its parts, the pauses between them, and who says it in what noise."""

    name: str
    parts: tuple[str, ...]
    pauses_ms: tuple[int, ...]
    voice: str
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
        name, voice = f"held-out-{index + 1:02d}", SPEAKERS[index % len(SPEAKERS)]
        row = index // len(SPEAKERS)
        speed, noise = SPEEDS[row % len(SPEEDS)], NOISES[row % len(NOISES)]
        pauses = tuple(map(int, pieces[1::2]))
        lines.append(HeldOutLine(name, tuple(pieces[::2]), pauses, voice, speed, noise))
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
            "voice": line.voice,
            "noise": f"{line.noise} (simulated)" if line.noise else "",
            "method": "label: synthetic, known to the sample",
        }
        (folder / f"{line.name}.json").write_text(json.dumps(label, indent=2), encoding="utf-8")


# ------------------------------------------------------------ made once and kept


def ready_held_out(profile: str, console: Console) -> Path:
    """The folder of the set, spoken first where it is not there: then its voices are pulled."""
    content = json.dumps([_VERSION, _LEAD_S, _TAIL_S, [asdict(line) for line in held_out_lines()]])
    key = hashlib.sha256(content.encode()).hexdigest()[:10]
    folder = cache_root() / "visavis" / "bench" / f"held-out-{key}"
    if not folder.is_dir():
        pull_profile(profile, console)
        pull_missing([BUNDLE], console)
        asyncio.run(_make(folder, profile, console))
    return folder


async def _make(folder: Path, profile: str, console: Console) -> None:
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    voices = [f"{BUNDLE}:{voice}" for voice in SPEAKERS]
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
        spoken.append([await speak(part, tts, line.voice) for part in parts])
    return spoken


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
