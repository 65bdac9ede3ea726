"""Where the eyes rest in a talk, and how fast they get there. Pure: time is the frame number."""

from __future__ import annotations

import numpy as np
import pytest

from services.face.draw.pose import POSE_INDEX
from services.face.life.accents import AccentKind
from services.face.life.attention import Attention
from services.face.life.gaze import AT_VIEWER, Fixations, Phase, saccade

FPS = 25


def targets(phase: Phase, seconds: float, seeds: range) -> np.ndarray:
    """Distance of the target from the viewer, 20 a second: [seeds, T]."""
    times = np.arange(0, seconds, 0.05)
    each = [Fixations(phase, (seed,)) for seed in seeds]
    return np.array([[np.hypot(*fixations.at(t)[0]) for t in times] for fixations in each])


@pytest.mark.parametrize(
    ("phase", "least", "most"),
    [(Phase.SPEAKING, 0.22, 0.4), (Phase.THINKING, 0.6, 0.85)],
)
def test_people_look_away_to_speak_and_more_to_think(
    phase: Phase, least: float, most: float
) -> None:
    away = targets(phase, 30.0, range(6)) > 0.2
    assert least < away.mean() < most


def test_one_who_thinks_looks_away_soon_and_comes_back() -> None:
    away = targets(Phase.THINKING, 12.0, range(8)) > 0.2
    assert not away[:, :6].any() and away[:, 16:30].all()
    assert all((~row[30:]).any() for row in away)


def test_large_saccades_take_longer_and_none_longer_than_a_tenth_of_a_second() -> None:
    def lasts_s(reach: float) -> float:
        times = np.arange(0, 0.2, 0.001)
        return float(times[[saccade(AT_VIEWER, (reach, 0.0), t)[0] < reach for t in times]].max())

    assert lasts_s(0.1) == pytest.approx(0.025, abs=0.002)
    assert lasts_s(1.0) == pytest.approx(0.065, abs=0.002)
    assert saccade((0.1, 0.0), (0.5, 0.2), -1.0) == (0.1, 0.0)


def test_a_phase_that_ends_leaves_nothing_behind() -> None:
    attention = Attention(3, FPS)
    assert attention.settled
    for frame in range(4 * FPS):
        attention.follow(frame, Phase.THINKING)
    assert attention.now.look.share == 1 and not attention.settled
    assert attention.now.offsets[POSE_INDEX["roll"]] != 0
    frame = 4 * FPS
    while not attention.settled:
        attention.follow(frame, Phase.IDLE)
        frame += 1
    assert frame < 7 * FPS


def test_what_is_about_to_end_is_said_to_the_viewers_face() -> None:
    attention = Attention(3, FPS)
    for frame in range(200):
        attention.follow(frame, Phase.SPEAKING, ending=frame > 190)
    assert (attention.now.look.x, attention.now.look.y) == AT_VIEWER


def test_most_cues_are_answered_but_never_two_at_once() -> None:
    attention = Attention(1, FPS)
    found = [attention.answer_cue(3 * FPS * k) for k in range(200)]
    nods = [a for some in found for a in some if a.kind in (AccentKind.NOD, AccentKind.NODS)]
    smiles = [a for some in found for a in some if a.kind is AccentKind.SMILE]
    assert 100 < len(nods) < 170 and 20 < len(smiles) < 80
    assert attention.answer_cue(600 * FPS) is not None
    assert attention.answer_cue(600 * FPS + 10) == []
