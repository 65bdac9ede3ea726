"""An hour of a session pushed by RTMP, faster than it would take: does sound drift from picture?

    python -m tests.tools.bench.live.hour --hours 1

The same code makes the stream, on media time in place of the clock, and sends it as fast as FFmpeg
takes it. Every two seconds a white picture and a beep begin together.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterator
from typing import Any

import av
import numpy as np

from gateway.live.media import LiveMedia
from gateway.live.push.address import parse
from gateway.live.push.failure import PushError
from gateway.live.push.flow import Figures
from gateway.live.push.to_rtmp import RtmpPush
from gateway.playout.pacing import ORIGIN_SAMPLES, TICK_SAMPLES, to_video_clock
from gateway.playout.pictures import ReleasedPicture
from gateway.playout.playout import Tick
from tests.gateway.live.peers import free_port
from tests.gateway.media import PictureEncoder, tone

_LOOP, _WHITE = 50, 4
_TICKS = 2 * _LOOP
# What the system holds of the stream is decoded meanwhile.
_REST_S = 40.0


def ticks(hours: float) -> Iterator[Tick]:
    """A session's, whose pictures are encoded once: each loop begins with a key frame."""
    encoder = PictureEncoder()
    loop = [
        encoder.picture(brightness=220 if i < _WHITE else 30, keyframe=i == 0) for i in range(_LOOP)
    ]
    beep, silence = tone(TICK_SAMPLES, frequency_hz=1000), np.zeros(TICK_SAMPLES, np.int16)
    for number in range(round(hours * 3600 * 50)):
        start = ORIGIN_SAMPLES + number * TICK_SAMPLES
        place, second = divmod(number % _TICKS, 2)
        shown = () if second else (ReleasedPicture(loop[place], to_video_clock(start)),)
        loud = place < _WHITE
        yield Tick(start, beep if loud else silence, shown, silent=not loud)


async def push(hours: float) -> str:
    url = f"rtmp://127.0.0.1:{free_port()}/live/key"
    command = [sys.executable, "-m", "tests.tools.bench.live.hour", "--receive", url]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    figures = Figures()
    target = RtmpPush(parse(url), figures, lambda: None)
    while True:
        try:
            await target.open()
            break
        except PushError:  # it does not listen yet
            await asyncio.sleep(0.2)
    listening = asyncio.create_task(target.ended())
    media, begun = LiveMedia(ORIGIN_SAMPLES), time.monotonic()
    for tick in ticks(hours):
        target.push(media.take(tick))
        while target.waiting_bytes:  # noqa: ASYNC110
            await asyncio.sleep(0)
    took_s = time.monotonic() - begun
    await asyncio.sleep(_REST_S)
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)
    await target.close()
    told, _ = await process.communicate()
    return f"{hours:g} h of media in {took_s:.0f} s; {figures}\n{told.decode().strip()}"


def receive(url: str) -> str:
    """Offsets of pictures from their beeps by the stream's time stamps."""
    flashes: list[float] = []
    beeps: list[float] = []
    was_white = was_loud = False
    try:
        with av.open(url, options={"listen": "1"}, timeout=60) as stream:
            decoded: Iterator[Any] = stream.decode(video=0, audio=0)
            for frame in decoded:
                at = float(frame.time or 0.0)
                if isinstance(frame, av.VideoFrame):
                    white = float(frame.to_ndarray(format="gray").mean()) > 128
                    flashes += [at] if white and not was_white else []
                    was_white = white
                    continue
                loud = np.flatnonzero(np.abs(frame.to_ndarray()[0]) > 0.05)
                if len(loud) and not was_loud:
                    beeps.append(at + float(loud[0]) / frame.sample_rate)
                was_loud = bool(len(loud))
    except av.FFmpegError as error:
        sys.stderr.write(f"{type(error).__name__}\n")
    offsets = [1000 * (f - min(beeps, key=lambda b: abs(b - f))) for f in flashes]
    tenth = max(1, len(offsets) // 10)
    return json.dumps(
        {
            "pairs": len(offsets),
            "last_picture_s": round(flashes[-1], 3),
            "picture_after_sound_ms_first_tenth": round(float(np.median(offsets[:tenth])), 2),
            "picture_after_sound_ms_last_tenth": round(float(np.median(offsets[-tenth:])), 2),
            "smallest_ms": round(min(offsets), 2),
            "largest_ms": round(max(offsets), 2),
        }
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.tools.bench.live.hour")
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--receive", default="", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    line = receive(asked.receive) if asked.receive else asyncio.run(push(asked.hours))
    sys.stdout.write(f"{line}\n")
