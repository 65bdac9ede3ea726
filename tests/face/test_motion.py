from __future__ import annotations

import numpy as np
import pytest

from services.face.draw.motion import BLINK_PROFILE, Accent, AccentKind, Motion
from services.face.draw.pose import POSE_INDEX
from services.face.lips.visemes import LIP_COEFFICIENTS

MINUTE = 25 * 60


@pytest.fixture(scope="module")
def life() -> np.ndarray:
    motion = Motion(seed=7)
    return np.stack([motion.pose(frame) for frame in range(3 * MINUTE)])


def column(poses: np.ndarray, name: str) -> np.ndarray:
    return poses[:, POSE_INDEX[name]]


def test_same_seed_same_life_in_any_order() -> None:
    forward, other = Motion(seed=5), Motion(seed=5)
    frames = [900, 3, 50_000, 0, 4]
    for frame in reversed(frames):
        other.pose(frame)
    for frame in frames:
        np.testing.assert_array_equal(forward.pose(frame), other.pose(frame))


def test_another_seed_is_another_life() -> None:
    assert not np.allclose(Motion(seed=1).pose(100), Motion(seed=2).pose(100))


def test_lips_are_left_to_the_speech(life: np.ndarray) -> None:
    assert not any(column(life, name).any() for name in LIP_COEFFICIENTS)


def test_blinks_come_every_two_to_six_seconds_and_sometimes_twice(life: np.ndarray) -> None:
    lids = column(life, "blink_left")
    starts = np.flatnonzero((lids[1:] > 0) & (lids[:-1] == 0)) + 1
    gaps = np.diff(starts) / 25
    double = gaps < 0.5
    assert 0 < double.sum() < len(gaps) / 2
    assert np.all((gaps[~double] > 1.5) & (gaps[~double] < 6.1))
    np.testing.assert_allclose(lids[starts[0] : starts[0] + 4], BLINK_PROFILE)
    np.testing.assert_array_equal(lids, column(life, "blink_right"))


@pytest.mark.parametrize(
    ("name", "least", "most", "step"),
    [
        ("yaw", 0.03, 0.15, 0.008),
        ("pitch", 0.015, 0.1, 0.005),
        ("roll", 0.015, 0.1, 0.005),
        ("smile", 0.03, 0.3, 0.01),
        ("breath", 0.5, 1.0, 0.09),
        ("gaze_x", 0.1, 0.6, 0.45),
    ],
)
def test_idle_is_alive_and_calm(
    life: np.ndarray, name: str, least: float, most: float, step: float
) -> None:
    values = column(life, name)
    assert least < np.ptp(values) and np.abs(values).max() <= most
    assert np.abs(np.diff(values)).max() < step


def test_sway_holds_little_above_its_band(life: np.ndarray) -> None:
    yaw = column(life, "yaw") - column(life, "yaw").mean()
    power = np.abs(np.fft.rfft(yaw * np.hanning(len(yaw)))) ** 2
    hz = np.fft.rfftfreq(len(yaw), 1 / 25)
    assert power[hz > 2.0].sum() < 0.01 * power.sum()


def test_the_eyes_mostly_rest_on_the_camera(life: np.ndarray) -> None:
    away = np.hypot(column(life, "gaze_x"), column(life, "gaze_y")) > 0.2
    assert 0.01 < away.mean() < 0.35


def test_speech_makes_the_head_livelier() -> None:
    motion = Motion(seed=2)
    frames = range(0, MINUTE)
    calm = np.stack([motion.pose(f) for f in frames])
    lively = np.stack([motion.pose(f, speech=1.0) for f in frames])
    speed = [np.abs(np.diff(column(poses, "pitch"))).mean() for poses in (calm, lively)]
    assert speed[1] > 1.2 * speed[0]


@pytest.mark.parametrize(
    ("kind", "name"), [(AccentKind.NOD, "pitch"), (AccentKind.BROW, "brow_raise")]
)
def test_accents_rise_and_fall_smoothly(kind: AccentKind, name: str) -> None:
    motion = Motion(seed=2)
    accent = Accent(kind, 10)
    with_it = np.stack([motion.pose(f, accents=[accent]) for f in range(40)])
    without = np.stack([motion.pose(f) for f in range(40)])
    added = column(with_it - without, name)
    assert added[:11] == pytest.approx(0) and added[30:] == pytest.approx(0)
    assert added.max() > 0.04
    assert np.abs(np.diff(added)).max() < 0.35 * added.max()


def test_a_blink_accent_shuts_the_eyes() -> None:
    motion = Motion(seed=2)
    poses = np.stack(
        [motion.pose(f, accents=[Accent(AccentKind.BLINK, 3)]) for f in range(3, 3 + 4)]
    )
    assert column(poses, "blink_left").max() == 1.0


PERIOD = 30 * 25


@pytest.fixture(scope="module")
def loop() -> np.ndarray:
    motion = Motion(seed=11, period_frames=PERIOD)
    return np.stack([motion.pose(frame) for frame in range(2 * PERIOD)])


def test_life_that_repeats_is_the_same_to_the_bit(loop: np.ndarray) -> None:
    np.testing.assert_array_equal(loop[:PERIOD], loop[PERIOD:])
    assert not np.allclose(loop[:PERIOD], Motion(seed=12, period_frames=PERIOD).pose(0))


def test_its_seam_moves_no_more_than_any_other_frame(loop: np.ndarray) -> None:
    steps = np.abs(np.diff(loop, axis=0))
    seam, others = steps[PERIOD - 1], np.delete(steps, PERIOD - 1, axis=0)
    assert np.all(seam <= others.max(axis=0))
    # Nor does the speed change there.
    turns = np.abs(np.diff(loop, n=2, axis=0))
    assert np.all(turns[PERIOD - 2 : PERIOD].max(axis=0) <= turns[: PERIOD - 2].max(axis=0))


def test_within_it_nothing_comes_again(loop: np.ndarray) -> None:
    lids = column(loop, "blink_left")
    starts = np.flatnonzero((lids[1:] > 0) & (lids[:-1] == 0)) + 1
    gaps = np.diff(starts[starts < PERIOD + starts[0]])
    single = gaps[gaps > 12]
    assert len(single) >= 6 and np.ptp(single) > 20
    yaw = column(loop, "yaw")[:PERIOD]
    yaw = (yaw - yaw.mean()) / yaw.std()
    echoes = [float(np.mean(yaw * np.roll(yaw, shift))) for shift in range(100, PERIOD - 100)]
    assert max(echoes) < 0.8
