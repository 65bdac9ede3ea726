"""Idle life that repeats: the same for everybody who wears an avatar, so it is drawn only once.

Pure. A session's live pictures and the loop's show the same frames of the same motion: whoever
holds the loop goes over from one to the other at any key frame, and nothing moves that would not
have moved anyhow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from services.face.draw.animator import Frame
from services.face.draw.motion import Motion
from services.face.draw.pose import FacePose

LOOP_S = 30
"""Long enough that nobody sees it come again: seven or eight blinks, as many breaths."""
_VERSION = 1
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
    return Motion(int(digest, 16), fps, period_frames=LOOP_S * fps)


def loop_frames(motion: Motion) -> Iterator[Frame]:
    """The whole loop; the first frame of each second is to stand on its own."""
    for index in range(motion.period_frames):
        pose = FacePose.from_vector(motion.pose(index))
        yield Frame(0, index, True, False, index % motion.fps == 0, pose, None, None, index, True)
