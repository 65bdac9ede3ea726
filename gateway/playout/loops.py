"""Idle life from memory: loops of encoded pictures, those that a process keeps, and where one
session is in them.

Pure. A face whose idle life repeats has the whole of it encoded once; every session plays it from
here, each at a place of its own. A loop begins at any of its key frames, one each second, and ends
at any picture: the face's next one is a key frame.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from gateway.playout.pacing import TICK_SAMPLES
from gateway.playout.pictures import Picture
from visavis.wire.idle_order import segment_of
from visavis.wire.media import VideoCodec


@dataclass(frozen=True, slots=True, eq=False)
class IdleLoop:
    """The pictures of one face's idle life in one codec; each segment can follow any other."""

    digest: str
    codec: VideoCodec
    pictures: tuple[Picture, ...]
    segments: int = 1
    """Parts of equal length, which are seen in the order of `segment_of`."""

    @property
    def size_bytes(self) -> int:
        return sum(len(picture.payload) for picture in self.pictures)

    def at(self, frame: int) -> Picture:
        """What shows a frame of the motion."""
        length = len(self.pictures) // self.segments
        block, within = divmod(frame, length)
        return self.pictures[segment_of(block, self.segments) * length + within]

    def keyframe_from(self, frame: int) -> int:
        """The first frame from this one on that is shown by a key frame."""
        return next(k for k in range(frame, frame + len(self.pictures)) if self.at(k).keyframe)


@dataclass(slots=True)
class LoopClock:
    """Says which frame of the loop a session shows at a media time; all its codecs share one."""

    first: int
    """The frame that it begins with, a key frame."""
    due_samples: int
    """When that is shown."""
    frame_samples: int
    started: bool = False

    def frame(self, now_samples: int) -> int:
        """Shown in the tick that starts at `now_samples`."""
        since = now_samples + TICK_SAMPLES // 2 - self.due_samples
        return self.first + since // self.frame_samples

    def start(self, frame: int, now_samples: int) -> None:
        """This frame, a key frame, is shown now."""
        self.first, self.due_samples, self.started = frame, now_samples, True


class LoopShelf:
    """The loops that a process keeps, in so many bytes. Those in use stay; of the others the one
    used last is kept longest.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.bytes = 0
        self._limit_bytes = limit_bytes
        self._loops: OrderedDict[tuple[str, VideoCodec], IdleLoop] = OrderedDict()
        self._avatars: dict[tuple[str, VideoCodec], str] = {}
        self._users: dict[tuple[str, VideoCodec], int] = {}

    def __len__(self) -> int:
        return len(self._loops)

    def take(self, digest: str, codec: VideoCodec) -> IdleLoop | None:
        """Use a loop, up to `give_back`; None where it is not here."""
        key = (digest, codec)
        loop = self._loops.get(key)
        if loop is not None:
            self._loops.move_to_end(key)
            self._users[key] = self._users.get(key, 0) + 1
        return loop

    def give_back(self, loop: IdleLoop) -> None:
        """One that was taken is not used any more."""
        key = (loop.digest, loop.codec)
        if self._loops.get(key) is loop:  # else it was forgotten meanwhile
            self._users[key] -= 1

    def forget(self, avatar: str) -> None:
        """Keep no loop of that face any more. Who plays one has it until it is given back."""
        for key in [key for key, whose in self._avatars.items() if whose == avatar]:
            self._remove(key)

    def put(self, loop: IdleLoop, avatar: str = "") -> bool:
        """Keep a loop of that face. False where those in use leave no room."""
        key, size = (loop.digest, loop.codec), loop.size_bytes
        if key in self._loops:
            return True
        spare = [key for key in self._loops if not self._users.get(key)]
        while spare and self.bytes + size > self._limit_bytes:
            self._remove(spare.pop(0))
        if self.bytes + size > self._limit_bytes:
            return False
        self._loops[key], self._avatars[key] = loop, avatar
        self.bytes += size
        return True

    def _remove(self, key: tuple[str, VideoCodec]) -> None:
        self.bytes -= self._loops.pop(key).size_bytes
        self._avatars.pop(key)
        self._users.pop(key, None)
