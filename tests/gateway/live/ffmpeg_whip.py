"""A tone published by FFmpeg's own WHIP, in a process of its own.

It holds Python's lock while it connects, so it cannot be beside a gateway that has to answer it.

    python -m tests.gateway.live.ffmpeg_whip URL OPTIONS

OPTIONS: the muxer's, as one JSON object. Ends by itself after SOUND_S of sound.
"""

from __future__ import annotations

import json
import sys
import time
from fractions import Fraction
from typing import Any

import av
import numpy as np

SOUND_S = 1.0
_RATE_HZ = 48_000
_FRAME_SAMPLES = 960


def publish(url: str, options: dict[str, str]) -> None:
    """A sine of 440 Hz in real time. Raises av.FFmpegError where there is no connection."""
    turns = np.arange(int(SOUND_S * _RATE_HZ)) * 440 / _RATE_HZ
    wave = (16_000 * np.sin(2 * np.pi * turns)).astype(np.int16).repeat(2)[None]
    with av.open(url, "w", format="whip", options=options) as out:
        sound: Any = out.add_stream("libopus", rate=_RATE_HZ, layout="stereo")
        out.start_encoding()
        started = time.monotonic()
        for pts in range(0, int(SOUND_S * _RATE_HZ), _FRAME_SAMPLES):
            frame: Any = av.AudioFrame.from_ndarray(
                wave[:, 2 * pts : 2 * (pts + _FRAME_SAMPLES)], format="s16", layout="stereo"
            )
            frame.sample_rate, frame.pts, frame.time_base = _RATE_HZ, pts, Fraction(1, _RATE_HZ)
            out.mux(sound.encode(frame))
            time.sleep(max(0.0, started + (pts + _FRAME_SAMPLES) / _RATE_HZ - time.monotonic()))


if __name__ == "__main__":
    publish(sys.argv[1], json.loads(sys.argv[2]))
