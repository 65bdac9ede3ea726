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
from visavis.wire.idle_order import LISTENING_PART_S, Listening, segment_of, times_drawn
from visavis.wire.media import VideoCodec


@dataclass(frozen=True, slots=True, eq=False)
class IdleLoop:
    """The pictures of one face's idle life in one codec; each segment can follow any other.

    Where it listens, there are all of them for each part of `Listening`.
    """

    digest: str
    codec: VideoCodec
    pictures: tuple[Picture, ...]
    segments: int = 1
    """Parts of equal length, which are seen in the order of `segment_of`."""
    listening: bool = False

    @property
    def size_bytes(self) -> int:
        return sum(len(picture.payload) for picture in self.pictures)

    @property
    def bps(self) -> float:
        """Bits per second, on average."""
        return 8 * self.size_bytes * self.pictures[0].fps / len(self.pictures)

    @property
    def part_frames(self) -> int:
        """How long the first and the last part of listening are shown."""
        return LISTENING_PART_S * self.pictures[0].fps

    def at(self, frame: int, part: Listening = Listening.BEGINS) -> Picture:
        """What shows a frame of the motion; part: of listening."""
        life = len(self.pictures) // times_drawn(listening=self.listening)
        length = life // self.segments
        block, within = divmod(frame, length)
        return self.pictures[part * life + segment_of(block, self.segments) * length + within]

    def keyframe_from(self, frame: int) -> int:
        """The first frame from this one on that begins a second: a key frame in every codec, and
        where each part of listening begins. Others may be key frames, too.
        """
        return -(-frame // self.part_frames) * self.part_frames


@dataclass(slots=True)
class LoopClock:
    """Says which frame of the loop a session shows at a media time; all its codecs share one."""

    first: int
    """The frame that it begins with, a key frame."""
    due_samples: int
    """When that is shown."""
    frame_samples: int
    started: bool = False
    listens_from: int | None = None
    """Frame with which the face begins to listen; None: it rests."""
    nods_from: int | None = None

    def part(self, frame: int, part_frames: int) -> Listening | None:
        """What of listening shows a frame; None: it rests."""
        if self.listens_from is None or frame < self.listens_from:
            return None
        if frame < self.listens_from + part_frames:
            return Listening.BEGINS
        nods = self.nods_from is not None and 0 <= frame - self.nods_from < part_frames
        return Listening.NODS if nods else Listening.GOES_ON

    def frame(self, now_samples: int) -> int:
        """Shown in the tick that starts at `now_samples`."""
        since = now_samples + TICK_SAMPLES // 2 - self.due_samples
        return self.first + since // self.frame_samples

    def start(self, frame: int, now_samples: int) -> None:
        """This frame, a key frame, is shown now."""
        self.first, self.due_samples, self.started = frame, now_samples, True


_Key = tuple[str, VideoCodec, bool]
"""Digest of the loop, its codec, and whether the face listens."""


class LoopShelf:
    """The loops that a process keeps, in so many bytes. Those in use stay; of the others the one
    used last is kept longest.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.bytes = 0
        self._limit_bytes = limit_bytes
        self._loops: OrderedDict[_Key, IdleLoop] = OrderedDict()
        self._avatars: dict[_Key, str] = {}
        self._users: dict[_Key, int] = {}

    def __len__(self) -> int:
        return len(self._loops)

    def room_to_listen(self, digest: str, codec: VideoCodec) -> bool:
        """Whether a loop in which that face listens would find room beside those in use."""
        at_rest = self._loops.get((digest, codec, False))
        used = sum(loop.size_bytes for key, loop in self._loops.items() if self._users.get(key))
        size = 0 if at_rest is None else times_drawn(listening=True) * at_rest.size_bytes
        return used + size <= self._limit_bytes

    def take(self, digest: str, codec: VideoCodec, *, listening: bool = False) -> IdleLoop | None:
        """Use a loop, up to `give_back`; None where it is not here."""
        key = (digest, codec, listening)
        loop = self._loops.get(key)
        if loop is not None:
            self._loops.move_to_end(key)
            self._users[key] = self._users.get(key, 0) + 1
        return loop

    def give_back(self, loop: IdleLoop) -> None:
        """One that was taken is not used any more."""
        key = (loop.digest, loop.codec, loop.listening)
        if self._loops.get(key) is loop:  # else it was forgotten meanwhile
            self._users[key] -= 1

    def forget(self, avatar: str) -> None:
        """Keep no loop of that face any more. Who plays one has it until it is given back."""
        for key in [key for key, whose in self._avatars.items() if whose == avatar]:
            self._remove(key)

    def rename(self, avatar: str, new_name: str) -> None:
        """That face is called so from now on."""
        for key in [key for key, whose in self._avatars.items() if whose == avatar]:
            self._avatars[key] = new_name

    def put(self, loop: IdleLoop, avatar: str = "") -> bool:
        """Keep a loop of that face. False where those in use leave no room."""
        key, size = (loop.digest, loop.codec, loop.listening), loop.size_bytes
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

    def _remove(self, key: _Key) -> None:
        self.bytes -= self._loops.pop(key).size_bytes
        self._avatars.pop(key)
        self._users.pop(key, None)
