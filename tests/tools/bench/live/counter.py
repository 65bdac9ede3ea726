"""Pictures that say which one they are, and a beep with every fifteenth: what a camera in front of
the face, and one in front of a viewer's screen, would see.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

import av
import numpy as np
from numpy.typing import NDArray

from gateway.playout.playout import Tick
from tests.browser.flash_and_beep import (
    EVERY_FRAMES,
    FIRST_FRAME,
    SignalFace,
    SignalRig,
)
from tests.gateway.doubles import FPS
from tests.gateway.media import PictureEncoder
from visavis.wire.media import Place, VideoChunk, VideoCodec
from visavis.wire.subjects import Kind

SIZE = 256
GRID = 4
_CELL = SIZE // GRID
_BITS = GRID * GRID - 1
_BLACK, _WHITE = 30, 220
_MIDDLE = 125


def drawn(number: int) -> NDArray[np.uint8]:
    """Luma of the picture of this number: [SIZE, SIZE] uint8, a cell for each bit, and parity."""
    bits = [number >> place & 1 for place in range(_BITS)]
    bits.append(sum(bits) & 1)
    cells = np.array(bits, np.uint8).reshape(GRID, GRID) * (_WHITE - _BLACK) + _BLACK
    return np.kron(cells, np.ones((_CELL, _CELL), np.uint8)).astype(np.uint8)


def read(luma: NDArray[np.uint8]) -> int | None:
    """The number of a decoded picture; None where it cannot be read. luma: [H, W] uint8."""
    height, width = luma.shape
    at = [(2 * cell + 1) / (2 * GRID) for cell in range(GRID)]
    rows, columns = [round(y * height) for y in at], [round(x * width) for x in at]
    bits = [int(luma[y, x] > _MIDDLE) for y in rows for x in columns]
    if sum(bits[:-1]) & 1 != bits[-1]:
        return None
    return sum(bit << place for place, bit in enumerate(bits[:-1]))


class CounterEncoder(PictureEncoder):
    """Encodes numbers in place of brightness."""

    def __init__(self) -> None:
        super().__init__(VideoCodec.H264, SIZE)

    def encode(self, brightness: int = 0, *, keyframe: bool = False) -> tuple[bytes, bool]:
        """brightness: the number."""
        plane = np.full((SIZE * 3 // 2, SIZE), 128, np.uint8)
        plane[:SIZE] = drawn(brightness)
        frame = av.VideoFrame.from_ndarray(plane, format="yuv420p")
        frame.pts, frame.time_base = self.made, 1 / self._context.framerate
        if keyframe:
            frame.pict_type = av.video.frame.PictureType.I
        self.made += 1
        (packet,) = self._context.encode(frame)
        return bytes(packet), packet.is_keyframe


class CounterFace(SignalFace):
    """Numbers the pictures of a turn from 1; 0 is idle."""

    async def _flash(
        self, session: str, encoders: dict[VideoCodec, Any], seq: int, place: Place
    ) -> None:
        wanted, self._keyframe[session] = self._keyframe[session], False
        for codec in self._codecs[session]:
            if codec is not VideoCodec.H264:
                continue
            keyframe = wanted or codec not in encoders or seq % (2 * FPS) == 0
            encoder = encoders.setdefault(codec, CounterEncoder())
            number = place.pts + 1 if place.turn else 0
            payload, key = encoder.encode(number, keyframe=keyframe)
            live = place.turn == 0
            video = VideoChunk(place, live, codec, key, SIZE, SIZE, FPS, payload)
            await self.bus.publish(Kind.VIDEO, video)


class CounterRig(SignalRig):
    """A gateway that shows the counter."""

    kinds = MappingProxyType({**SignalRig.kinds, "face": CounterFace})


def beep_of(number: int) -> bool:
    """Whether a beep begins with the picture of this number."""
    frame = number - 1
    return frame >= FIRST_FRAME and (frame - FIRST_FRAME) % EVERY_FRAMES == 0


@dataclass
class Witness:
    """A sink that notes when each picture left the gateway. Seconds since the epoch, by number."""

    left: dict[int, float] = field(default_factory=dict)

    @property
    def codecs(self) -> set[VideoCodec]:
        return set()

    attended: ClassVar[bool] = False
    watched: ClassVar[bool] = False

    def push(self, tick: Tick) -> None:
        for released in tick.pictures:
            if released.picture.turn and released.picture.codec is VideoCodec.H264:
                self.left.setdefault(released.picture.index + 1, time.time())

    def cut(self, turn: int) -> None:
        """Nothing."""

    async def close(self) -> None:
        """Nothing."""
