"""Clips of heads that speak: python -m tests.tools.bench.spoken_clips FOLDER [NAME …]

Has every head that ships say some 20 s in each language, as `visavis script` does it, with the
services' defaults, and writes FOLDER/NAME-LANGUAGE.mp4. Of each clip a line is printed:

- `picture_s`, `sound_s`: how long both are in the file; `voice_s`: what is spoken of that;
- `wrong`, `of`: words (of Mandarin: characters) that our recogniser hears wrong in its sound;
- `tts_cpu_s`, `face_cpu_s`: CPU seconds of the services for a second of the clip.

And of each text: p, b and m that shut the lips in the blendshapes, which all heads share.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path

import av
import grpc.aio
import numpy as np
import psutil
import soxr
from numpy.typing import NDArray

from services.face.engines.head.store import BUILTIN_FOLDER
from visavis.mp4 import Mp4Writer
from visavis.tools.bench.figures.lips import lips_meet
from visavis.tools.bench.figures.word_errors import count_errors
from visavis.tools.lecture import FPS, SAMPLE_RATE_HZ, LectureOptions, Part, render_part
from visavis.tools.speech import recognise
from visavis.tools.stack.plain_service import plain_service

_SIZE = 512
_HEARD_HZ = 16_000
_TEXTS = {
    "en": "Good morning, and welcome to the museum. My name is not important, but I may be able to "
    "help you. The paintings from Venice are on the first floor, behind the big brown door. "
    "Please leave bags and umbrellas with my colleague. The garden is open until five, and "
    "if the weather stays fine, there will be music beneath the maple trees. Enjoy your visit, and "
    "come back soon.",
    "zh": "早上好，欢迎来到博物馆。我的名字不重要，不过我也许可以帮您的忙。"
    "意大利的名画在二楼，就在那扇棕色的大门后面。请把背包和雨伞交给我的朋友。"
    "花园开到下午五点，如果天气好，苹果树下面还会有音乐表演。祝您玩得开心，明天再见。",
}


def cpu_s(service: str) -> float:
    """CPU seconds so far of our child that is that service, and of what it has started."""
    for child in psutil.Process().children():
        if f"services.{service}" in child.cmdline():
            all_times = [one.cpu_times() for one in (child, *child.children(recursive=True))]
            return float(sum(times.user + times.system for times in all_times))
    raise SystemExit(f"{service} does not run")


def written(part: Part, clip: Path) -> None:
    """The part as a video."""
    rate = SAMPLE_RATE_HZ
    with Mp4Writer(clip, fps=FPS, width=_SIZE, height=_SIZE, sample_rate_hz=rate) as video:
        for picture in part.pictures:
            video.add_picture(picture.payload, keyframe=picture.keyframe)
        video.add_sound(part.pcm)


def read(clip: Path) -> tuple[float, float, NDArray[np.int16]]:
    """Seconds of picture and of sound in the file, and the sound as `_HEARD_HZ` [N]."""
    with av.open(str(clip)) as file:
        pictures = sum(1 for _ in file.decode(video=0))
    with av.open(str(clip)) as file:
        rate = file.streams.audio[0].rate
        heard = [frame.to_ndarray() for frame in file.decode(audio=0)]
    sound = np.concatenate([pcm.mean(axis=0) for pcm in heard])
    plain = sound * 32767 if np.issubdtype(heard[0].dtype, np.floating) else sound
    pcm = soxr.resample(plain.astype(np.int16), rate, _HEARD_HZ)
    return pictures / FPS, len(sound) / rate, np.asarray(pcm, np.int16)


async def tell(
    name: str,
    language: str,
    folder: Path,
    tts: grpc.aio.Channel,
    face: grpc.aio.Channel,
    asr: grpc.aio.Channel,
) -> None:
    """Makes and measures one clip."""
    options = LectureOptions(language, voice="", avatar=name, speed=1.0, seed=1)
    clip = folder / f"{name}-{language}.mp4"
    before = cpu_s("tts"), cpu_s("face")
    part = await render_part(_TEXTS[language], 0, options, tts, face)
    after = cpu_s("tts"), cpu_s("face")
    written(part, clip)
    picture_s, sound_s, pcm = read(clip)
    heard = await recognise(asr, pcm.astype("<i2").tobytes(), _HEARD_HZ, language)
    errors = count_errors([(_TEXTS[language], heard)])
    spoken = len(np.trim_zeros(part.pcm)) / SAMPLE_RATE_HZ
    costs = [(late - early) / picture_s for early, late in zip(before, after, strict=True)]
    told = {
        "name": name,
        "language": language,
        "picture_s": round(picture_s, 2),
        "sound_s": round(sound_s, 2),
        "voice_s": round(spoken, 2),
        "wrong": errors.wrong,
        "of": errors.said,
        "tts_cpu_s": round(costs[0], 3),
        "face_cpu_s": round(costs[1], 3),
        "heard": heard,
    }
    print(json.dumps(told, ensure_ascii=False), flush=True)  # noqa: T201


async def run(folder: Path, names: list[str], profile: str) -> None:
    flags = ["--profile", profile]
    async with AsyncExitStack() as stack:
        tts, face, asr = [
            await stack.enter_async_context(plain_service(service, flags, folder / "logs"))
            for service in ("tts", "face", "asr")
        ]
        # The first picture of a head has it read, and the first word its voice.
        for name in names:
            warm = LectureOptions("en", "", name, 1.0, 1)
            await render_part("Hello.", 0, warm, tts, face)
        await render_part("你好。", 0, LectureOptions("zh", "", names[0], 1.0, 1), tts, face)
        for language in _TEXTS:
            for name in names:
                await tell(name, language, folder, tts, face, asr)
        for language, text in _TEXTS.items():
            lips = await lips_meet(tts, face, [(language, text)], lambda text: None)
            for source, found in lips.items():
                counts = {"closed": found.closed, "of": found.bilabials}
                print(json.dumps({"language": language, "lips": source, **counts}))  # noqa: T201


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="default: all that ship")
    parser.add_argument("--profile", default="default")
    options = parser.parse_args()
    shipped = sorted(toml.parent.name for toml in BUILTIN_FOLDER.glob("*/head.toml"))
    options.folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(run(options.folder, options.names or shipped, options.profile))


if __name__ == "__main__":
    main()
