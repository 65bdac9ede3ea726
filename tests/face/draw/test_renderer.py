"""Pictures of poses: what must move, what must not, and that it is the same every time."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from services.face.avatar import topology
from services.face.draw.pose import POSE_NAMES, FacePose
from services.face.draw.renderer import Renderer
from tests.face.portraits import astronaut, picture_of


@pytest.fixture(scope="module")
def renderer() -> Renderer:
    return Renderer(astronaut())


def _around(points: NDArray[np.floating], margin: int) -> tuple[slice, slice]:
    low, high = points.min(axis=0).astype(int) - margin, points.max(axis=0).astype(int) + margin
    return slice(low[1], high[1]), slice(low[0], high[0])


def _mouth() -> tuple[slice, slice]:
    rest = astronaut().rest
    rows, columns = _around(rest[list(topology.UPPER_INNER_LIP)], 4)
    return slice(rows.start, rows.stop + 45), columns


def _dark_pixels(picture: NDArray[np.uint8]) -> int:
    return int((picture[_mouth()].max(axis=2) < 90).sum())


def test_same_pose_same_bytes(renderer: Renderer) -> None:
    pose = FacePose(jaw_open=0.4, yaw=0.1, pitch=-0.05, blink_left=0.3, gaze_x=0.4, smile=0.2)
    first = picture_of(renderer, pose)
    picture_of(renderer, FacePose(jaw_open=1.0))
    assert (picture_of(renderer, pose) == first).all()
    assert (picture_of(Renderer(astronaut()), pose) == first).all()
    assert first.shape == (512, 512, 3) and first.dtype == np.uint8


def test_a_face_looks_as_it_did(renderer: Renderer) -> None:
    """Eyes, mouth and the edge of a face in motion (rows 150 to 330, columns 170 to 340)."""
    pose = FacePose(
        jaw_open=0.35, mouth_wide=0.3, lips_closed=0.1, tongue_up=0.3, smile=0.15, blink_left=0.3,
        brow_raise=0.2, gaze_x=0.3, gaze_y=0.1, yaw=0.06, pitch=-0.03, roll=0.02, shift_x=0.004,
        breath=0.5,
    )  # fmt: skip
    kept = cv2.imread(str(Path(__file__).with_name("drawn_pose.png")))
    assert kept is not None
    part = picture_of(renderer, pose)[150:330, 170:340, ::-1]
    assert cv2.PSNR(np.ascontiguousarray(part), kept) > 60


def test_teeth_are_as_bright_behind_narrow_and_rounded_lips(renderer: Renderer) -> None:
    """Lips change ten times a second: teeth whose light went with them would flicker."""
    upper, unit = topology.UPPER_INNER_LIP[5], astronaut().frame.eye_distance
    bright = []
    for pucker in (0.0, 0.3, 0.6):
        for jaw in (0.08, 0.16, 0.3, 0.6):
            pose = FacePose(jaw_open=jaw, pucker=pucker)
            x, y = np.round(renderer.places(pose)[upper] + (0, 0.012 * unit)).astype(int)
            bright.append(np.median(picture_of(renderer, pose)[y, x - 6 : x + 7].max(axis=1)))
    assert max(bright) < 1.35 * min(bright)


def test_renderers_of_one_avatar_work_at_once() -> None:
    poses = [FacePose(jaw_open=0.1 * k, yaw=0.02 * k) for k in range(6)]
    expected = [picture_of(Renderer(astronaut()), pose) for pose in poses]
    wrong: list[int] = []

    def draw(own: Renderer, which: int) -> None:
        for _ in range(5):
            if not (picture_of(own, poses[which]) == expected[which]).all():
                wrong.append(which)

    threads = [
        threading.Thread(target=draw, args=(Renderer(astronaut()), k)) for k in range(len(poses))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_face_at_rest_is_the_photograph_outside_the_mouth(renderer: Renderer) -> None:
    avatar = astronaut()
    eyes = int(avatar.iris[0, 1]) + 8
    difference = np.abs(picture_of(renderer, FacePose()).astype(int) - avatar.portrait)[:eyes]
    assert difference.mean() < 0.3
    assert np.percentile(difference, 99) <= 6


def test_mouth_opens_with_the_jaw(renderer: Renderer) -> None:
    dark = [_dark_pixels(picture_of(renderer, FacePose(jaw_open=k / 8))) for k in range(9)]
    assert all(later > earlier for earlier, later in itertools.pairwise(dark[1:]))
    assert dark[-1] > 600 > 60 > dark[0]


def test_lips_closed_shut_an_open_jaw(renderer: Renderer) -> None:
    parted = _dark_pixels(picture_of(renderer, FacePose(jaw_open=0.3)))
    closed = _dark_pixels(picture_of(renderer, FacePose(jaw_open=0.3, lips_closed=1.0)))
    assert closed <= _dark_pixels(picture_of(renderer, FacePose())) + 10 < parted


def test_teeth_show_at_f_and_not_at_rest(renderer: Renderer) -> None:
    region = _mouth()

    def pale(pose: FacePose) -> int:
        part = picture_of(renderer, pose)[region].astype(int)
        return int(((part.min(axis=2) > 150) & (np.ptp(part, axis=2) < 45)).sum())

    assert pale(FacePose(lower_lip_under_teeth=1.0)) > pale(FacePose()) + 60


def test_tongue_lightens_the_open_mouth(renderer: Renderer) -> None:
    down = picture_of(renderer, FacePose(jaw_open=0.5))[_mouth()].astype(int)
    up = picture_of(renderer, FacePose(jaw_open=0.5, tongue_up=1.0))[_mouth()].astype(int)
    assert (up - down)[..., 0].max() > 40 and up.sum() > down.sum()


def _eye(left: bool) -> tuple[slice, slice]:
    lids = topology.LEFT_UPPER_LID if left else topology.RIGHT_UPPER_LID
    return _around(astronaut().rest[list(lids)], 4)


@pytest.mark.parametrize("left", [True, False])
def test_each_eye_blinks_alone(renderer: Renderer, left: bool) -> None:
    rest = picture_of(renderer, FacePose()).astype(int)
    pose = FacePose(blink_left=1.0) if left else FacePose(blink_right=1.0)
    shut = picture_of(renderer, pose).astype(int)
    assert np.abs(shut - rest)[_eye(left)].mean() > 12
    assert np.abs(shut - rest)[_eye(not left)].max() == 0


def test_shut_eye_hides_the_iris(renderer: Renderer) -> None:
    x, y, _ = astronaut().iris[0]
    middle = (slice(int(y) - 2, int(y) + 3), slice(int(x) - 2, int(x) + 3))
    opened = picture_of(renderer, FacePose())[middle].mean()
    shut = picture_of(renderer, FacePose(blink_right=1.0))[middle].mean()
    assert shut > opened + 40


@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_iris_follows_the_gaze(renderer: Renderer, side: float) -> None:
    def dark_centre(pose: FacePose) -> float:
        part = picture_of(renderer, pose)[_eye(False)].max(axis=2).astype(float)
        weight = np.clip(90 - part, 0, None)
        return float((weight.sum(axis=0) @ np.arange(part.shape[1])) / weight.sum())

    shift = dark_centre(FacePose(gaze_x=side)) - dark_centre(FacePose())
    assert side * shift > 1.0


def test_background_stands_still(renderer: Renderer) -> None:
    avatar = astronaut()
    poses = (
        FacePose(yaw=0.2, roll=0.1),
        FacePose(yaw=-0.2, pitch=0.15, jaw_open=0.7),
        FacePose(shift_x=0.02, shift_y=-0.02, breath=1.0),
    )
    far = cv2.dilate(avatar.matte, np.ones((71, 71), np.uint8)) == 0
    assert far.sum() > 20_000
    rest = picture_of(renderer, FacePose())
    for pose in poses:
        assert (picture_of(renderer, pose)[far] == rest[far]).all()


def test_head_moves_the_way_it_is_told(renderer: Renderer) -> None:
    rest = renderer.places(FacePose())[topology.NOSE_TIP]
    for pose, axis, sign in (
        (FacePose(yaw=0.1), 0, 1),
        (FacePose(pitch=0.1), 1, 1),
        (FacePose(shift_x=0.01), 0, 1),
        (FacePose(shift_y=0.01), 1, 1),
        (FacePose(roll=0.1), 0, 1),
        (FacePose(breath=1.0), 1, -1),
    ):
        moved = renderer.places(pose)[topology.NOSE_TIP] - rest
        assert sign * moved[axis] > 0.3, pose


def test_small_motion_makes_a_small_change(renderer: Renderer) -> None:
    """No shimmer: a hundredth of a pixel of motion never makes a pixel jump."""
    before = picture_of(renderer, FacePose(yaw=0.05)).astype(int)
    after = picture_of(renderer, FacePose(yaw=0.0502)).astype(int)
    assert np.abs(after - before).max() < 14
    assert np.abs(after - before).mean() < 0.2


def test_wild_poses_are_drawn(renderer: Renderer) -> None:
    for value in (-50.0, 50.0):
        wild = FacePose.from_vector(np.full(len(POSE_NAMES), value, np.float32))
        assert picture_of(renderer, wild).shape == (512, 512, 3)
