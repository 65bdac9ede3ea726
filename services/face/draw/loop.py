"""Idle life that repeats: the same for everybody who wears an avatar, so it is drawn only once.

Pure. A session's live pictures and the loop's show the same frames of the same motion: whoever
holds the loop goes over from one to the other at any key frame, and nothing moves that would not
have moved anyhow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from services.face.draw.animator import Frame
from services.face.draw.pose import FacePose
from services.face.life.motion import Motion

SEGMENTS, SEGMENT_S = 6, 10
"""Any can follow any other: a minute is all of them, and each minute has another order."""
LOOP_S = SEGMENTS * SEGMENT_S
_VERSION = 2
"""Of the motion and of the pictures: another one makes other loops."""


def loop_digest(look: str, fps: int, bitrate_kbps: int) -> str:
    """Names the loop of a painter's `look` as it is encoded: 16 hexadecimal digits.

    "" where the look is "": nothing repeats then.
    """
    if not look:
        return ""
    told = f"{_VERSION} {look} {fps} {bitrate_kbps}"
    return hashlib.blake2b(told.encode(), digest_size=8).hexdigest()


def loop_motion(digest: str, fps: int) -> Motion:
    """The motion of the loop of that digest; each has its own."""
    return Motion(int(digest, 16), fps, segments=SEGMENTS, segment_frames=SEGMENT_S * fps)


def loop_frames(motion: Motion) -> Iterator[Frame]:
    """All segments, one after the other; the first frame of each second is to stand on its own."""
    for index in range(motion.segments * motion.segment_frames):
        pose = FacePose.from_vector(motion.drawn_pose(index))
        yield Frame(0, index, True, False, index % motion.fps == 0, pose, None, None, index, True)
