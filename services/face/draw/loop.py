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

SEGMENTS = 6
"""Any can follow any other: a loop is all of them, and each time round has another order."""
_VERSION = 2
"""Of the motion and of the pictures: another one makes other loops."""


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


def loop_pictures(fps: int, length_s: int) -> int:
    """How many pictures such a loop has."""
    return SEGMENTS * _segment_s(length_s) * fps


def _segment_s(length_s: int) -> int:
    """Whole seconds: each begins with a picture that stands on its own."""
    return max(1, length_s // SEGMENTS)


def loop_frames(motion: Motion) -> Iterator[Frame]:
    """All segments, one after the other; the first frame of each second is to stand on its own."""
    for index in range(motion.segments * motion.segment_frames):
        pose = FacePose.from_vector(motion.drawn_pose(index))
        yield Frame(0, index, True, False, index % motion.fps == 0, pose, None, None, index, True)
