"""Idle, held, speaking, idle again: pictures of the real face, which must not jump in between."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from services.face.draw.animator import Animator
from services.face.draw.pose import Frame
from services.face.draw.renderer import Renderer
from tests.face.portraits import astronaut, picture_of
from tests.face.test_animator import SENTENCE, Viewer, lips_of, mel_chunks


def changes(frames: list[Frame]) -> NDArray[np.float64]:
    """Mean change of a pixel from each picture to the next, in grey levels."""
    renderer = Renderer(astronaut())
    pictures = [picture_of(renderer, frame.pose).astype(np.int16) for frame in frames]
    return np.array([np.abs(b - a).mean() for a, b in pairwise(pictures)])


def test_no_picture_jumps_where_idle_life_and_speech_meet() -> None:
    viewer = Viewer(Animator(seed=3))
    viewer.run(0.6)
    viewer.animator.advance(1, viewer.now_s, held=True)
    viewer.animator.speak_turn(1, lips_of(mel_chunks(SENTENCE[:12])), viewer.now_s)
    viewer.run(0.4)
    viewer.play(1)
    viewer.run(2.4)
    live = [frame.live for frame in viewer.shown]
    begins, ends = live.index(False), len(live) - live[::-1].index(False)
    assert 20 < begins < ends < len(live) - 10
    changed = changes(viewer.shown)
    speaking = changed[begins : ends - 1]
    assert changed[begins - 1] <= speaking.max(), "speech begins with a jump"
    assert changed[ends - 1] <= speaking.max(), "speech ends with a jump"
    # Idle pictures live: each differs from the one before, and by less than speech does.
    idle = np.concatenate([changed[: begins - 1], changed[ends + 5 :]])
    assert 0 < idle.min() and np.median(idle) < np.median(speaking)
