"""Idle life that repeats: the same for everybody who wears an avatar, so it is drawn only once, at
rest and, in a loop of its own, listening to somebody. And what viewers see of a face that is shown
from memory, and makes no frames itself.

Pure. A session's live pictures and the loop's show the same frames of the same motion, the one that
runs through life and speech: whoever holds the loop goes over from one to the other at any key
frame, and nothing moves that would not have moved anyhow.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.face.draw.pose import FacePose, Frame
from services.face.life.accents import LISTENERS_NOD, Accent, AccentKind
from services.face.life.attention import listening_offsets, turned
from services.face.life.motion import Motion
from visavis.wire.idle_order import LISTENING_PART_S, Listening, times_drawn

SEGMENTS = 6
"""Any can follow any other: a loop is all of them, and each time round has another order."""
_VERSION = 3
"""Of the motion and of the pictures: another one makes other loops."""
_LONG_S = 60
_LEAD_FRAMES = 1
"""Shown elsewhere until a turn's first frame is there: drawing, bus, the gateway's tick."""


def loop_digest(look: str, fps: int, bitrate_kbps: int, length_s: int) -> str:
    """Names the loop of a painter's `look` as it is encoded: 16 hexadecimal digits.

    "" where the look is "": nothing repeats then.
    """
    if not look:
        return ""
    told = f"{_VERSION} {look} {fps} {bitrate_kbps} {length_s}"
    return hashlib.blake2b(told.encode(), digest_size=8).hexdigest()


def loop_motion(digest: str, fps: int, length_s: int) -> Motion:
    """The motion of the loop of that digest, of which all segments last `length_s`."""
    return Motion(
        int(digest, 16), fps, segments=SEGMENTS, segment_frames=_segment_s(length_s) * fps
    )


def loop_pictures(fps: int, length_s: int, *, listening: bool = False) -> int:
    """How many pictures such a loop has."""
    return times_drawn(listening=listening) * SEGMENTS * _segment_s(length_s) * fps


def _segment_s(length_s: int) -> int:
    """Whole seconds: each begins with a picture that stands on its own."""
    return max(1, length_s // SEGMENTS)


def loop_frames(motion: Motion, begin: int = 0, *, listening: bool = False) -> Iterator[Frame]:
    """All segments, one after the other; the first frame of each second is to stand on its own.

    begin: from this frame on. listening: all of them as each part of `Listening` shows them,
    instead of at rest.
    """
    count = motion.segments * motion.segment_frames
    for number in range(begin, times_drawn(listening=listening) * count):
        part, index = divmod(number, count)
        if listening:
            drawn = listens_at(motion, index, Listening(part))
        else:
            drawn = motion.drawn_pose(index)
        pose, own = FacePose.from_vector(drawn), index % motion.fps == 0
        yield Frame(0, number, True, False, own, pose, None, None, index, True, listening)


def listens_at(motion: Motion, index: int, part: Listening) -> NDArray[np.float32]:
    """The pose, [len(POSE_NAMES)] float32, of the index-th frame of all segments."""
    length = LISTENING_PART_S * motion.fps
    into = index % length
    accents = []
    if part is Listening.NODS:
        accents.append(Accent(AccentKind.NOD, index - into, LISTENERS_NOD, motion.fps))
    since = into + 1 if part is Listening.BEGINS else _LONG_S * motion.fps
    pose = motion.drawn_pose(index, accents)
    return turned(pose, listening_offsets(since, motion.fps))


@dataclass(frozen=True, slots=True)
class Seen:
    """Where the face goes on that was shown from memory."""

    frame: int
    """The first to be made."""
    listened: int
    """For so many frames it was shown as it listens."""
    nods: list[Accent]
    """That have begun."""


class FromMemory:
    """Knows whether a face is shown from memory, and which frame of it is seen when."""

    def __init__(self, fps: int) -> None:
        self.resting = False
        """No frames are to be made."""
        self._fps = fps
        self._rest_from: int | None = None
        self._seen: tuple[int, float] | None = None
        self._listens_from: int | None = None
        self._nods_from: int | None = None

    def rest(self, frame: int) -> None:
        """From this frame on it is."""
        self._rest_from = frame

    def listen(self, frame: int) -> None:
        """With this frame it begins to listen there."""
        self._listens_from = frame

    def nod(self, frame: int) -> None:
        """And with this one to nod."""
        self._nods_from = frame

    def see(self, frame: int, now_s: float) -> None:
        """Viewers see this frame now."""
        self._seen = (frame, now_s)

    def has_begun(self, frame: int, now_s: float, *, listening: bool) -> bool:
        """Whether it is from the next frame on, which would be due now. listening: the face does
        by now, and goes on to.
        """
        self.resting = self._rest_from is not None and frame >= self._rest_from
        if self.resting and self._seen is None:
            self._seen = (frame, now_s)
            if listening:
                self._listens_from = frame - LISTENING_PART_S * self._fps
        return self.resting

    def listens_later(self, frame: int) -> bool:
        """Whether it will be seen to begin to listen, but not yet."""
        return self._listens_from is not None and frame < self._listens_from

    def leave(self, now_s: float) -> Seen | None:
        """Frames are made again: what they follow. None: it was not shown from memory."""
        found = None
        if self._seen is not None:
            frame, at_s = self._seen
            frame += math.floor((now_s - at_s) * self._fps) + 1 + _LEAD_FRAMES
            listened = 0 if self._listens_from is None else max(0, frame - self._listens_from)
            nods = []
            if self._nods_from is not None and self._nods_from < frame:
                nods = [Accent(AccentKind.NOD, self._nods_from, LISTENERS_NOD, self._fps)]
            found = Seen(frame, listened, nods)
        self.resting = False
        self._rest_from = self._seen = self._listens_from = self._nods_from = None
        return found
