"""Moving pictures and sound for the stub gateway: a drawn face that opens its mouth."""

from __future__ import annotations

import asyncio
import fractions
import math
from collections.abc import AsyncIterator, Callable

import av
import cv2
import numpy as np
from aiortc import AudioStreamTrack, VideoStreamTrack
from numpy.typing import NDArray

SIDE = 256
FPS = 12
RATE_HZ = 48_000
_SAMPLES = 1024

Picture = NDArray[np.uint8]


def drawn_face() -> Picture:
    """[SIDE, SIDE, 3] uint8 BGR: enough of a face to tell portrait from emptiness."""
    picture = np.full((SIDE, SIDE, 3), (96, 84, 70), np.uint8)
    cv2.ellipse(picture, (128, 250), (110, 60), 0, 0, 360, (70, 50, 40), -1)
    cv2.ellipse(picture, (128, 118), (66, 86), 0, 0, 360, (150, 182, 226), -1)
    for eye in (104, 152):
        cv2.circle(picture, (eye, 104), 8, (60, 50, 40), -1)
    return picture


def jpeg(picture: Picture) -> bytes:
    _, encoded = cv2.imencode(".jpg", picture)
    return encoded.tobytes()


class FaceClip:
    """The portrait at any time: the mouth moves, and the whole sways a little."""

    def __init__(self, portrait: Picture, speaking: Callable[[], bool]) -> None:
        self._portrait = cv2.resize(portrait, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
        self._speaking = speaking

    def frame(self, index: int) -> av.VideoFrame:
        picture: Picture = np.roll(self._portrait, round(2 * math.sin(index / 9)), axis=1)
        if self._speaking():
            opening = int(3 + 9 * abs(math.sin(index / 1.7)))
            scale = SIDE / 256
            centre = (round(128 * scale), round(162 * scale))
            cv2.ellipse(picture, centre, (round(18 * scale), opening), 0, 0, 360, (40, 30, 90), -1)
        frame = av.VideoFrame.from_ndarray(picture, format="bgr24")
        frame.pts, frame.time_base = index, fractions.Fraction(1, FPS)
        return frame

    def sound(self, start_samples: int) -> av.AudioFrame:
        level = 0.2 if self._speaking() else 0.0
        time_s = (np.arange(_SAMPLES) + start_samples) / RATE_HZ
        samples = (level * np.sin(2 * np.pi * 220 * time_s)).astype(np.float32)
        frame = av.AudioFrame.from_ndarray(samples[None], format="fltp", layout="mono")
        frame.sample_rate, frame.pts = RATE_HZ, start_samples
        frame.time_base = fractions.Fraction(1, RATE_HZ)
        return frame


class StubVideo(VideoStreamTrack):
    """The clip as a WebRTC track."""

    def __init__(self, clip: FaceClip) -> None:
        super().__init__()
        self._clip = clip
        self._index = 0

    async def recv(self) -> av.VideoFrame:
        frame = self._clip.frame(self._index)
        self._index += 1
        await asyncio.sleep(1 / FPS)
        frame.pts = self._index * 90_000 // FPS
        frame.time_base = fractions.Fraction(1, 90_000)
        return frame


__all__ = ["AudioStreamTrack", "FaceClip", "Picture", "StubVideo", "drawn_face", "fmp4", "jpeg"]


class _Sink:
    """A file that keeps what was written until it is taken."""

    def __init__(self) -> None:
        self._written = bytearray()

    def write(self, piece: bytes) -> int:
        self._written += piece
        return len(piece)

    def take(self) -> bytes:
        taken = bytes(self._written)
        self._written.clear()
        return taken


async def fmp4(clip: FaceClip) -> AsyncIterator[bytes]:
    """Fragmented MP4 (H.264 baseline and AAC) in real time, without end."""
    sink = _Sink()
    flags = "frag_every_frame+empty_moov+default_base_moof+omit_tfhd_offset"
    options = {"movflags": flags, "flush_packets": "1"}
    with av.open(sink, "w", format="mp4", options=options) as container:
        video = container.add_stream("libx264", rate=FPS)
        video.width = video.height = SIDE
        video.pix_fmt = "yuv420p"
        video.options = {"preset": "ultrafast", "tune": "zerolatency", "profile": "baseline"}
        video.codec_context.thread_count = 1
        video.codec_context.gop_size = 1  # libav leaves frames apart: each stands alone
        audio = container.add_stream("aac", rate=RATE_HZ, layout="mono")
        sent_samples = 0
        for index in range(10**9):
            container.mux(video.encode(clip.frame(index)))
            while sent_samples < (index + 1) * RATE_HZ // FPS:
                container.mux(audio.encode(clip.sound(sent_samples)))
                sent_samples += _SAMPLES
            if piece := sink.take():
                yield piece
            await asyncio.sleep(1 / FPS)
