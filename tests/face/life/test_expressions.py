"""Expressions: when they hold, how smoothly they come and go, and that the lips stay their own."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from services.face.draw.animator import Animator
from services.face.draw.blendshapes import ARKIT_NAMES, arkit_weights
from services.face.draw.pose import POSE_INDEX, POSE_NAMES, FacePose
from services.face.draw.renderer import Renderer
from services.face.life.expressions import EMOTIONS, Expressions, express, offsets_of
from services.face.lips.visemes import LIP_COEFFICIENTS
from tests.face.draw.test_animator import FPS, SENTENCE, SENTENCE_S, lips_of, mel_chunks
from tests.face.draw.test_renderer import _dark_pixels
from tests.face.portraits import astronaut, picture_of
from visavis.styles import STYLES

SMILE, LIDS = POSE_INDEX["smile"], POSE_INDEX["blink_left"]


def smiles(*cues: tuple[float, str], rest_frames: int = 0) -> list[float]:
    """Offset of the smile in each frame of a sentence and after it."""
    animator = Animator(seed=1, fps=FPS)
    plain = Animator(seed=1, fps=FPS)
    for time_s, style in cues:
        animator.express(1, time_s, style)
    found = []
    for face in (animator, plain):
        face.speak_turn(1, lips_of(mel_chunks(SENTENCE)), 0.0)
        shown = []
        for frame in range(int(SENTENCE_S * FPS) + 2 + rest_frames):
            now_s = frame / FPS
            if now_s <= SENTENCE_S:
                face.played(1, now_s, now_s)
            made = face.next_frame(now_s)
            while made is not None:
                shown.append(made.pose.smile)
                made = face.next_frame(now_s)
        found.append(shown)
    assert len(found[0]) == len(found[1])
    return [one - other for one, other in zip(*found, strict=True)]


def test_no_expression_moves_the_lips() -> None:
    for style in STYLES:
        offsets = offsets_of(style)
        assert not offsets[[POSE_INDEX[name] for name in LIP_COEFFICIENTS]].any(), style
    assert not offsets_of("neutral").any()
    assert not offsets_of("unheard-of").any()


def test_every_style_is_told_apart_by_the_face() -> None:
    offsets = [offsets_of(style) for style in STYLES]
    for one, other in itertools.combinations(offsets, 2):
        assert np.abs(one - other).max() > 0.1


def test_the_seven_emotions_are_facial_actions_that_no_other_has() -> None:
    weights = {name: arkit_weights(FacePose.from_vector(offsets_of(name))) for name in EMOTIONS}
    for one, other in itertools.combinations(weights, 2):
        assert np.abs(weights[one] - weights[other]).max() > 0.3, (one, other)
    signs = {
        "anger": "browDownLeft",
        "contempt": "mouthDimpleRight",
        "disgust": "noseSneerLeft",
        "fear": "mouthStretchLeft",
        "joy": "mouthSmileLeft",
        "sadness": "mouthFrownLeft",
        "surprise": "browOuterUpLeft",
    }
    assert set(signs) == set(EMOTIONS)
    for name, sign in signs.items():
        place = ARKIT_NAMES.index(sign)
        assert weights[name][place] == max(each[place] for each in weights.values()), sign
    contempt = dict(zip(ARKIT_NAMES, weights["contempt"], strict=True))
    assert contempt["mouthDimpleLeft"] == 0


def test_joy_smiles_on_both_sides_with_open_eyes() -> None:
    happy = FacePose.from_vector(express(FacePose().vector(), offsets_of("joy")))
    weights = dict(zip(ARKIT_NAMES, arkit_weights(happy).tolist(), strict=True))
    assert weights["mouthSmileLeft"] == weights["mouthSmileRight"] > 0.5
    assert weights["cheekSquintLeft"] == weights["cheekSquintRight"] > 0.3
    assert weights["eyeBlinkLeft"] == weights["eyeBlinkRight"] == 0
    assert 0 < weights["eyeSquintLeft"] == weights["eyeSquintRight"] < 0.2


@pytest.mark.parametrize("name", list(EMOTIONS))
def test_an_emotion_comes_stands_and_settles(name: str) -> None:
    expressions = Expressions(FPS)
    expressions.cue(1, 0.0, name)
    shares, apex = [], offsets_of(name)
    for frame in range(10 * FPS):
        expressions.follow(1, frame / FPS)
        shares.append(float(expressions.offsets @ apex / (apex @ apex)))
    emotion = EMOTIONS[name]
    assert shares[0] < 0.3 and max(shares) > 0.9
    assert shares[-1] == pytest.approx(emotion.left, abs=0.03)
    half = next(k for k, share in enumerate(shares) if share > 0.5) / FPS
    assert half == pytest.approx(0.7 * emotion.onset_s, abs=0.06)


def test_lids_close_by_a_share_of_what_is_open() -> None:
    pose = np.zeros(len(POSE_NAMES), np.float32)
    offsets = offsets_of("sad")
    assert express(pose, offsets)[LIDS] == offsets[LIDS] > 0.2
    pose[LIDS] = 1.0
    assert express(pose, offsets)[LIDS] == 1.0


def test_an_expression_comes_within_half_a_second_and_without_a_jump() -> None:
    offsets = smiles((0.0, "happy"))
    wanted = float(offsets_of("happy")[SMILE])
    assert offsets[FPS // 2] > 0.85 * wanted
    assert max(b - a for a, b in itertools.pairwise(offsets)) < 0.1
    assert offsets[0] > 0


def test_it_begins_with_the_sound_that_it_goes_with() -> None:
    offsets = smiles((0.0, "neutral"), (0.6, "happy"))
    start = round(0.6 * FPS)
    assert max(map(abs, offsets[:start])) == 0
    assert offsets[start] > 0


def test_it_goes_slowly_once_nothing_is_said() -> None:
    spoken = int(SENTENCE_S * FPS)
    offsets = smiles((0.0, "happy"), rest_frames=4 * FPS)
    assert offsets[spoken + 5] > 0.5 * offsets[spoken]
    assert offsets[-1] < 0.05 * offsets[spoken]


def test_an_interruption_goes_back_to_the_face_on_screen() -> None:
    """What was made ahead and not seen is forgotten, its expression and look with it."""
    faces = [Animator(seed=1, fps=FPS), Animator(seed=1, fps=FPS)]
    faces[0].express(1, 0.0, "happy")
    after = []
    for face in faces:
        assert (first := face.next_frame(0.0)) is not None
        face.speak_turn(1, lips_of(mel_chunks(SENTENCE)), 0.0)
        made = 0
        while face.next_spoken(0.04) is not None:
            made += 1
        assert made >= 5
        face.advance(2, 0.08)
        frame = face.next_frame(0.08)
        assert frame is not None and frame.live
        assert abs(frame.pose.gaze_x - first.pose.gaze_x) < 0.3
        after.append(frame.pose.smile)
    assert after[0] == pytest.approx(after[1], abs=1e-6)


def test_cues_of_older_turns_are_void() -> None:
    expressions = Expressions(FPS)
    expressions.cue(2, 0.0, "happy")
    expressions.cue(1, 0.0, "sad")
    expressions.follow(2, 0.0)
    assert expressions.offsets[SMILE] > 0
    expressions.cue(3, 0.0, "")
    before = expressions.offsets[SMILE]
    expressions.follow(3, 0.0)
    assert 0 < expressions.offsets[SMILE] < before


@pytest.mark.parametrize("style", [s for s in STYLES if s != "neutral"])
def test_an_expression_is_seen_and_closes_the_lips_like_any_face(style: str) -> None:
    renderer = Renderer(astronaut())

    def picture(offsets: np.ndarray, **lips: float) -> np.ndarray:  # type: ignore[type-arg]
        return picture_of(
            renderer, FacePose.from_vector(express(FacePose(**lips).vector(), offsets))
        )

    none, offsets = offsets_of("neutral"), offsets_of(style)
    changed = np.abs(picture(offsets).astype(int) - picture(none)).max(axis=2) > 24
    assert changed.sum() > 300
    closed = picture(offsets, jaw_open=0.3, lips_closed=1.0)
    assert _dark_pixels(closed) <= _dark_pixels(picture(none, jaw_open=0.3, lips_closed=1.0)) + 40


def test_contempt_is_on_one_side_of_a_photographs_mouth() -> None:
    renderer = Renderer(astronaut())
    plain = renderer.places(FacePose())[:468]
    moved = renderer.places(FacePose(dimple_right=0.9))[:468] - plain
    right, left = (np.linalg.norm(moved[corner]) for corner in (61, 291))
    assert right > 2.0 > 0.1 > left
