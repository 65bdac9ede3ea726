from __future__ import annotations

import numpy as np
import pytest

from services.face.draw.pose import POSE_INDEX
from services.face.life.accents import Accent, AccentKind
from services.face.life.blinks import BLINK_S, lid_at
from services.face.life.motion import Motion
from services.face.lips.visemes import LIP_COEFFICIENTS
from visavis.wire.idle_order import segment_of

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


def test_lips_are_left_to_the_speech(life: np.ndarray) -> None:
    assert not any(column(life, name).any() for name in LIP_COEFFICIENTS)


def test_blinks_are_as_many_as_of_people_and_hardly_ever_double(life: np.ndarray) -> None:
    lids = column(life, "blink_left")
    starts = np.flatnonzero((lids[1:] > 0) & (lids[:-1] == 0)) + 1
    gaps = np.diff(starts) / 25
    assert 13 < len(starts) / 3 < 21
    assert (gaps < 1.0).sum() <= 3 and gaps.max() < 7.0
    np.testing.assert_array_equal(lids, column(life, "blink_right"))


def test_a_lid_takes_at_least_three_frames_to_shut_and_longer_to_open(life: np.ndarray) -> None:
    lids = column(life, "blink_left")
    assert np.abs(np.diff(lids)).max() < 0.42
    starts = np.flatnonzero((lids[1:] > 0) & (lids[:-1] == 0)) + 1
    for start in starts[:-1]:
        blink = lids[start : start + 14]
        shut = int(blink.argmax())
        assert blink[shut] > 0.97 and shut >= 3
        after = blink[shut:]
        assert int((after > 0).sum()) > shut
    assert lid_at(0.0) == lid_at(BLINK_S) == 0.0


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
    assert added[:11] == pytest.approx(0) and added[31:] == pytest.approx(0)
    assert added.max() > 0.04
    assert np.abs(np.diff(added)).max() < 0.35 * added.max()


def test_a_blink_accent_shuts_the_eyes() -> None:
    motion = Motion(seed=2)
    poses = np.stack(
        [motion.pose(f, accents=[Accent(AccentKind.BLINK, 3)]) for f in range(3, 3 + 12)]
    )
    assert column(poses, "blink_left").max() == 1.0


SEGMENTS, LENGTH = 4, 10 * 25
PERIOD = SEGMENTS * LENGTH


@pytest.fixture(scope="module")
def segmented() -> Motion:
    return Motion(seed=11, segments=SEGMENTS, segment_frames=LENGTH)


@pytest.fixture(scope="module")
def lived(segmented: Motion) -> np.ndarray:
    return np.stack([segmented.pose(frame) for frame in range(3 * PERIOD)])


def test_what_is_drawn_once_is_all_that_is_ever_seen(segmented: Motion, lived: np.ndarray) -> None:
    drawn = np.stack([segmented.drawn_pose(index) for index in range(PERIOD)])
    for block in range(3 * SEGMENTS):
        segment = segment_of(block, SEGMENTS)
        seen = lived[block * LENGTH : (block + 1) * LENGTH]
        np.testing.assert_array_equal(seen, drawn[segment * LENGTH : (segment + 1) * LENGTH])


def test_where_segments_meet_nothing_moves_faster_than_within(lived: np.ndarray) -> None:
    steps, turns = np.abs(np.diff(lived, axis=0)), np.abs(np.diff(lived, n=2, axis=0))
    joints = np.arange(LENGTH - 1, len(steps), LENGTH)
    others = np.delete(steps, joints, axis=0)
    assert np.all(steps[joints].max(axis=0) <= others.max(axis=0) + 1e-6)
    # Nor does the speed change there.
    at = np.concatenate([joints - 1, joints])
    at = at[at < len(turns)]
    inside = np.delete(turns, at, axis=0).max(axis=0)
    smooth = [POSE_INDEX[name] for name in ("yaw", "pitch", "roll", "breath", "smile", "shift_x")]
    assert np.all(turns[at].max(axis=0)[smooth] <= inside[smooth])


def test_no_minute_is_like_another() -> None:
    orders = [tuple(segment_of(b, 6) for b in range(6 * m, 6 * m + 6)) for m in range(100)]
    assert all(sorted(order) == list(range(6)) for order in orders)
    assert len(set(orders)) > 85
    whole = [segment for order in orders for segment in order]
    # Ten seconds each: nothing is seen again within half a minute.
    assert all(len({*whole[at : at + 3]}) == 3 for at in range(len(whole) - 2))


def test_its_segments_differ(lived: np.ndarray) -> None:
    yaw = column(lived, "yaw")[:PERIOD].reshape(SEGMENTS, LENGTH)
    apart = [np.abs(a - b).max() for k, a in enumerate(yaw) for b in yaw[k + 1 :]]
    assert min(apart) > 0.01
    assert not np.allclose(lived[0], Motion(12, segments=4, segment_frames=LENGTH).pose(0))


def test_two_visitors_of_one_avatar_do_not_blink_in_unison(segmented: Motion) -> None:
    rng = np.random.default_rng(1)
    starts = rng.integers(0, 2**31, 4)
    lids = np.array(
        [
            column(np.stack([segmented.pose(int(s) + k) for k in range(MINUTE)]), "blink_left")
            for s in starts
        ]
    )
    alike = np.corrcoef(lids) - np.eye(len(starts))
    assert alike.max() < 0.3
