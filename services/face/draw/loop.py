"""Idle life that repeats: the same for everybody who wears an avatar, so it is drawn only once, at
rest and, in a loop of its own, listening to somebody.

Pure. A session's live pictures and the loop's show the same frames of the same motion: whoever
holds the loop goes over from one to the other at any key frame, and nothing moves that would not
have moved anyhow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from services.face.draw.animator import Frame
from services.face.draw.pose import FacePose
from services.face.life.accents import LISTENERS_NOD, Accent, AccentKind
from services.face.life.attention import listening_offsets, turned
from services.face.life.motion import Motion
from visavis.wire.idle_order import LISTENING_PART_S, Listening, times_drawn

SEGMENTS = 6
"""Any can follow any other: a loop is all of them, and each time round has another order."""
_VERSION = 3
"""Of the motion and of the pictures: another one makes other loops."""
_LONG_S = 60


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


def loop_frames(motion: Motion, *, listening: bool = False) -> Iterator[Frame]:
    """All segments, one after the other; the first frame of each second is to stand on its own.

    listening: all of them as each part of `Listening` shows them, instead of at rest.
    """
    count = motion.segments * motion.segment_frames
    for number in range(times_drawn(listening=listening) * count):
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
