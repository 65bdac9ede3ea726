from __future__ import annotations

import numpy as np
import pytest

from services.face.draw.blendshapes import ARKIT_NAMES, arkit_weights, head_rotation
from services.face.draw.pose import POSE_NAMES, FacePose
from visavis.wire.media import BLENDSHAPE_COUNT


def weight(pose: FacePose, name: str) -> float:
    return float(arkit_weights(pose)[ARKIT_NAMES.index(name)])


def test_closed_lips_cancel_the_jaw() -> None:
    pose = FacePose(jaw_open=0.4, lips_closed=1.0)
    assert weight(pose, "mouthClose") == weight(pose, "jawOpen") > 0
    assert weight(FacePose(jaw_open=0.4), "mouthClose") == 0


def test_left_and_right_are_the_persons_own() -> None:
    right_of_picture = FacePose(gaze_x=1.0)
    assert weight(right_of_picture, "eyeLookOutLeft") > 0.4
    assert weight(right_of_picture, "eyeLookInRight") > 0.4
    assert weight(right_of_picture, "eyeLookOutRight") == 0
    assert weight(FacePose(blink_left=1.0), "eyeBlinkLeft") == 1
    assert weight(FacePose(blink_left=1.0), "eyeBlinkRight") == 0


def test_the_jaw_decides_between_funnel_and_pucker() -> None:
    kiss, round_open = FacePose(pucker=0.8), FacePose(pucker=0.8, jaw_open=0.4)
    assert weight(kiss, "mouthFunnel") == 0
    assert weight(round_open, "mouthFunnel") > 0.4
    assert weight(kiss, "mouthPucker") > weight(round_open, "mouthPucker")


def test_the_tongue_finds_room_between_the_teeth() -> None:
    """However little the voice opens the jaw."""
    said = FacePose(jaw_open=0.05, tongue_up=1.0, tongue_out=1.0)
    assert weight(said, "tongueOut") > 0.4
    assert weight(said, "jawOpen") > 0.2
    assert weight(said, "mouthLowerDownLeft") > 0.25
    behind = FacePose(jaw_open=0.05, tongue_up=0.9)
    assert 0.15 < weight(behind, "tongueOut") < 0.25
    assert weight(behind, "jawOpen") > 0.12


@pytest.mark.parametrize("shut", ["lips_closed", "lower_lip_under_teeth"])
def test_lips_that_are_shut_or_bitten_hide_the_tongue(shut: str) -> None:
    pose = FacePose(jaw_open=0.05, tongue_up=1.0, tongue_out=1.0, **{shut: 1.0})
    assert weight(pose, "tongueOut") == 0
    assert weight(pose, "jawOpen") < 0.15


def test_a_bitten_lip_bares_the_teeth_in_the_middle() -> None:
    pose = FacePose(lower_lip_under_teeth=1.0)
    assert weight(pose, "mouthShrugUpper") > 2 * weight(pose, "mouthUpperUpLeft") > 0
    assert weight(pose, "mouthLowerDownLeft") == 0
    assert weight(pose, "mouthRollLower") > 0.5


def test_any_pose_gives_weights_in_range() -> None:
    assert not arkit_weights(FacePose()).any()
    rng = np.random.default_rng(1)
    for _ in range(50):
        pose = FacePose.from_vector(rng.uniform(-1, 1, len(POSE_NAMES)))
        weights = arkit_weights(pose)
        assert weights.dtype == np.float32 and weights.shape == (BLENDSHAPE_COUNT,)
        assert weights.min() >= 0 and weights.max() <= 1


def test_head_rotation_is_yaw_pitch_roll() -> None:
    rotation = head_rotation(FacePose(yaw=0.1, pitch=-0.2, roll=0.3))
    np.testing.assert_allclose(rotation, [0.1, -0.2, 0.3], atol=1e-6)
