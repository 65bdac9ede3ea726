"""Encoded pictures and sound for the gateway's tests, made by real encoders."""

from __future__ import annotations

import io
from fractions import Fraction
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from gateway.playout.pictures import Picture
from visavis.wire.media import BLENDSHAPES_BYTES, VideoCodec

JAW_OPEN = 24
"""Which of the 52 it is."""

_H264 = {"preset": "ultrafast", "tune": "zerolatency", "profile": "baseline"}
_VP8 = {"deadline": "realtime", "cpu-used": "8", "lag-in-frames": "0"}
_ENCODERS = {VideoCodec.H264: ("libx264", _H264), VideoCodec.VP8: ("libvpx", _VP8)}


class PictureEncoder:
    """Encodes grey pictures whose brightness tells which one they are."""

    def __init__(self, codec: VideoCodec = VideoCodec.H264, size: int = 64, fps: int = 25) -> None:
        name, options = _ENCODERS[codec]
        self.codec, self.size, self.fps = codec, size, fps
        context: Any = av.CodecContext.create(name, "w")
        self._context = context
        context.width = context.height = size
        context.pix_fmt = "yuv420p"
        context.time_base = Fraction(1, fps)
        context.framerate = Fraction(fps, 1)
        context.gop_size = 1000
        context.thread_count = 1
        context.options = options
        self.made = 0
        """Pictures so far: the number of the last one in its stream."""

    def encode(self, brightness: int = 128, *, keyframe: bool = False) -> tuple[bytes, bool]:
        """One picture: its bytes, and whether it is a key frame."""
        plane = np.full((self.size * 3 // 2, self.size), 128, np.uint8)
        plane[: self.size] = brightness
        frame = av.VideoFrame.from_ndarray(plane, format="yuv420p")
        frame.pts = self.made
        frame.time_base = Fraction(1, self.fps)
        if keyframe:
            frame.pict_type = av.video.frame.PictureType.I
        self.made += 1
        (packet,) = self._context.encode(frame)
        return bytes(packet), packet.is_keyframe

    def picture(
        self,
        turn: int = 0,
        index: int = 0,
        *,
        brightness: int = 128,
        keyframe: bool = False,
        last: bool = False,
    ) -> Picture:
        """A picture of `turn`, or an idle one of turn 0."""
        payload, key = self.encode(brightness, keyframe=keyframe)
        form = (self.codec, key, self.size, self.size, self.fps)
        return Picture(turn, index, turn == 0, *form, payload, last, self.made)


class PoseEncoder:
    """Poses whose jaw tells which one they are."""

    size = 64

    def __init__(self) -> None:
        self.made = 0

    def encode(self, opened: int = 128, *, keyframe: bool = False) -> tuple[bytes, bool]:
        """One pose; opened: of 255."""
        self.made += 1
        pose = bytearray(BLENDSHAPES_BYTES)
        pose[JAW_OPEN] = opened
        return bytes(pose), True


def encoder_of(codec: VideoCodec) -> PictureEncoder | PoseEncoder:
    """What makes a double's pictures, or what they would show."""
    return PictureEncoder(codec) if codec.drawn else PoseEncoder()


def tone(samples: int, *, rate_hz: int = 48_000, frequency_hz: float = 440.0) -> NDArray[np.int16]:
    """A sine of half the full scale. [samples] int16."""
    wave = np.sin(np.arange(samples) * 2 * np.pi * frequency_hz / rate_hz)
    return (wave * 16_000).astype(np.int16)


def film(payload: bytes) -> Any:
    """A demuxer of an mp4 in memory; a context manager."""
    return av.open(io.BytesIO(payload))
