"""`visavis bench questions`: the question set, spoken by our own voices."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import wave
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import grpc.aio
import numpy as np
import typer
from numpy.typing import NDArray
from rich.console import Console

from visavis.bundles.store.catalogue import cache_root
from visavis.serving.errors import InvalidInputError
from visavis.tools.bench.benchmark import Profile
from visavis.tools.bench.visitor.clips import (
    RATE_HZ,
    Clip,
    choose,
    load_clips,
    script_language,
    span_of_synthetic,
)
from visavis.tools.cli.models import pull_profile
from visavis.tools.shown import output_console
from visavis.tools.speech import synthesise
from visavis.tools.stack.plain_service import plain_service
from visavis.tools.stack.process import log_dir

# ------------------------------------------------------------ the texts
# Short and long, with and without a pause at a comma.

ENGLISH = (
    "What is the capital of France?",
    "How are you today?",
    "Can you tell me what the weather is usually like in spring?",
    "Who wrote Romeo and Juliet?",
    "If I have only one day in London, what should I see first?",
    "How do I bake a simple loaf of bread?",
    "Why is the sky blue?",
    "Excuse me, where is the nearest railway station?",
    "What do you like most about your work?",
    "How many people live in Tokyo?",
    "Could you please explain how a bicycle stays upright?",
    "Is it possible to travel to Mars?",
    "When was the telephone invented, and who invented it?",
    "What should I cook for dinner tonight?",
    "Do you speak any other languages?",
    "How long does it take to fly from New York to Paris?",
    "I would like to learn to swim, how should I start?",
    "What is the largest animal in the world?",
    "Can you recommend a good book for a rainy evening?",
    "What is your name?",
    "How does a microwave oven heat my food?",
    "Why do leaves change their colour in autumn?",
    "What time do most museums open in the morning?",
    "Please tell me a short story about a dragon.",
    "How far away is the moon from the earth?",
    "What can I do when I cannot sleep at night?",
    "Is coffee good or bad for my health?",
    "Well, what would you do with a million dollars?",
    "How many players are there in a football team?",
    "Which planet is closest to the sun?",
    "My computer is very slow, what can I do about it?",
    "What is the difference between a crocodile and an alligator?",
    "Who was the first person on the moon?",
    "How do birds find their way in winter?",
    "Can plants grow without any sunlight?",
    "What is a healthy breakfast for a child?",
    "Tell me, how old are you?",
    "Where do penguins live?",
    "How can I remember the names of people I meet?",
    "What is the fastest way to learn a new language?",
    "Why do cats sleep so much?",
    "What should I take with me for a walk in the mountains?",
    "How do you make a good cup of tea?",
    "Do fish ever drink water?",
)

MANDARIN = (
    "请问你叫什么名字？",
    "北京有哪些好玩的地方？",
    "今天晚上我应该做什么菜？",
    "天空为什么是蓝色的？",
    "怎么样才能学好英语？",
    "你好，请问火车站在哪里？",
    "世界上最大的动物是什么？",
    "如果我只有一天的时间，应该先去哪里？",
    "月亮离地球有多远？",
    "请给我讲一个关于龙的小故事。",
    "晚上睡不着觉怎么办？",
    "猫为什么这么喜欢睡觉？",
)

QUESTIONS = [("en", text) for text in ENGLISH] + [("zh", text) for text in MANDARIN]
"""(language, text)."""

SPEEDS = (1.0, 0.9, 1.1, 1.2)
"""Taken in turn: people do not all speak at one pace."""

BACKCHANNELS = ("Mm-hm.", "Uh-huh.", "Yeah.", "Okay.", "Right.")
"""What a listener says without wanting the floor."""

INTERRUPTIONS = (
    "Stop, please stop talking now.",
    "Wait a moment, I have another question.",
    "No, that is not what I meant.",
    "Sorry, can I ask you something else?",
)


# ------------------------------------------------------------ the sound
# The same texts, voices and speeds give the same sound, so the set is made once and kept. Our own
# recogniser hears our own voice more easily than people: put recordings beside it.

_VERSION = 1
# Silence before the speech: the detector of speech starts cold.
_LEAD_S = 0.3


@dataclass(frozen=True)
class Line:
    """One thing to be spoken."""

    name: str
    text: str
    language: str
    speed: float


def lines(texts: Sequence[str], prefix: str) -> list[Line]:
    """`texts` with names and speeds in turn."""
    return [
        Line(f"{prefix}-{i + 1:02d}", text, script_language(text), SPEEDS[i % len(SPEEDS)])
        for i, text in enumerate(texts)
    ]


SETS = {
    "questions": [*lines(ENGLISH, "en"), *lines(MANDARIN, "zh")],
    "interruptions": lines(INTERRUPTIONS, "interruption"),
    "backchannels": lines(BACKCHANNELS, "backchannel"),
}


def set_folder(name: str, profile: str) -> Path:
    """Where a set lies, made or not; another one whenever its sound would differ."""
    content = json.dumps([_VERSION, profile, _LEAD_S, [asdict(line) for line in SETS[name]]])
    key = hashlib.sha256(content.encode()).hexdigest()[:10]
    return cache_root() / "visavis" / "bench" / f"{name}-{profile}-{key}"


async def make_set(
    name: str, folder: Path, tts: grpc.aio.Channel, on_line: Callable[[str], None]
) -> None:
    """Speak every line of the set into `folder`, which appears complete or not at all."""
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    for line in SETS[name]:
        on_line(line.text)
        write_line(part, line, await speak(line, tts))
    part.replace(folder)


async def speak(line: Line, tts: grpc.aio.Channel, voice_name: str = "") -> NDArray[np.int16]:
    """The line's voice [N] int16 at 16 kHz; "": the language's own.

    Raises VisavisError with the service's words.
    """
    # The resampler comes with the services, like FFmpeg.
    import soxr

    chunks, _mels = await synthesise(
        tts, line.text, line.language, line.speed, voice_name=voice_name
    )
    if not chunks:
        raise InvalidInputError(f"{line.text}: the voice said nothing")
    voice = np.concatenate([chunk.pcm for chunk in chunks])
    resampled: NDArray[np.int16] = soxr.resample(voice, chunks[0].sample_rate_hz, RATE_HZ)
    return resampled


def write_line(folder: Path, line: Line, voice: NDArray[np.int16]) -> None:
    """`name.wav`, its text, and the label that says where the speech lies. voice: [N] int16, 16
    kHz.
    """
    pcm = np.concatenate([np.zeros(round(_LEAD_S * RATE_HZ), np.int16), voice])
    span = span_of_synthetic(pcm)
    pcm = pcm[: span.end_samples]
    write_clip(folder / f"{line.name}.wav", pcm)
    (folder / f"{line.name}.txt").write_text(line.text + "\n", encoding="utf-8")
    label = {
        "speech_start_s": span.start_samples / RATE_HZ,
        "speech_end_s": span.end_samples / RATE_HZ,
        "language": line.language,
        "speed": line.speed,
        "method": span.method,
    }
    text = json.dumps(label, indent=2, ensure_ascii=False)
    (folder / f"{line.name}.json").write_text(text + "\n", encoding="utf-8")


def write_clip(path: Path, pcm: NDArray[np.int16]) -> None:
    """A WAV file of pcm [N] int16 at 16 kHz."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE_HZ)
        file.writeframes(pcm.astype("<i2").tobytes())


# ------------------------------------------------------------ the command, and its sets


def questions(
    profile: Profile = "default",
    anew: Annotated[bool, typer.Option(help="Speak them again even if they are there.")] = False,
) -> None:
    """Speak the question set into the cache: 44 English and 12 Mandarin questions, what
    interrupts an answer, and what does not.

    The benchmarks do this by themselves at first use.
    """
    console = output_console(highlight=False)
    for name in SETS:
        folder = ready_set(name, profile, console, anew=anew)
        console.print(f"{name}: {len(SETS[name])} clips in {folder}", soft_wrap=True)


def ready_set(name: str, profile: str, console: Console, *, anew: bool = False) -> Path:
    """The folder of a set, spoken first where it is not there."""
    folder = set_folder(name, profile)
    if folder.is_dir() and anew:
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    if not folder.is_dir():
        pull_profile(profile, console)
        asyncio.run(_make(name, folder, profile, console))
    return folder


async def _make(name: str, folder: Path, profile: str, console: Console) -> None:
    flags = ["--profile", profile]
    with console.status(f"Speaking the {name} once …") as status:
        async with plain_service("tts", flags, log_dir() / "bench") as tts:
            await make_set(name, folder, tts, lambda text: status.update(f"Speaking: {text}"))


def chosen_clips(
    folder: Path | None, language: str, count: int, profile: str, console: Console
) -> list[Clip]:
    """The clips that the options name. Raises InvalidInputError where there are none."""
    if folder is None:
        made = load_clips(ready_set("questions", profile, console))
        clips = [clip for clip in made if not language or clip.language == language]
    else:
        clips = load_clips(folder, language)
    if not clips:
        raise InvalidInputError(f"language: no clip is in {language!r}")
    return choose(clips, count)
