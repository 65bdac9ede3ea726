"""A picture becomes a square portrait with a measured face, or a reason why it will not do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.avatar import topology
from services.face.avatar.hidden import fill_hidden
from services.face.avatar.making.landmarks import FaceDetector, FaceLandmarker, Landmarks
from services.face.avatar.making.tflite import TfliteModel
from services.face.avatar.mesh import HeadFrame, head_frame
from visavis.serving.errors import InvalidInputError

_SIDE_IN_FACES = 2.35
"""Side of the square in heights of the face outline (hair line to chin)."""
_CENTRE_DROP = 0.04
"""How far the centre of the square lies below the centre of the face, in sides."""
MIN_FACE_PIXELS = 80
"""From the brows to the chin; below it the mouth is too coarse to move."""
_UPRIGHT_MARGIN = 0.03
_RIVAL_SHARE = 0.5
"""A second face this wide, in widths of the first, makes the picture ambiguous."""
_MAX_OUTSIDE = 0.15
"""Share of the outline of the face that may lie beyond the edge of the picture."""
_MAX_MISSING = 0.25
"""Share of the square that the picture may leave out: the rest of a head cannot be made up."""
_MAX_YAW = math.radians(28)
_MAX_PITCH = math.radians(28)
_MAX_ROLL = math.radians(35)
_DARKEST = 30.0
"""Brightness of cheeks and forehead, of 255, below which noise is more than the face."""
_SHUT_EYES = 0.05
"""Height between the lids, eye distances; narrow eyes that look at the camera have 0.06."""
_AROUND_LIPS = (199, 200, 201, 421, 194, 418, 182, 406, 83, 313, 18, 43, 273, 57, 287)
_UPPER_FACE = (50, 280, 101, 330, 118, 347, 9, 151, 108, 337, 36, 266)
_ONE_COLOUR, _LINE, _OTHER_CLOTH = 3.0, 9.0, 12.0
"""In units of CIELAB. Lips that are bare differ by more from the skin around, or have a line
between them that is so much darker; what covers them, if it is no hand, has another colour than the
face above.
"""
_ACROSS = 0.16
"""How far above and below the line of the lips it is looked for, eye distances."""
_INPUT = 256
"""Side of the picture in which person and background are parted, pixels."""


@dataclass(frozen=True, slots=True)
class Portrait:
    """A face ready to be made an avatar."""

    rgb: NDArray[np.uint8]
    """[size, size, 3]"""
    landmarks: Landmarks
    """In pixels of `rgb`."""
    person: NDArray[np.float32]
    """[size, size], 0..1: how much of a pixel is the person."""


class PortraitStudio:
    """Takes portraits: finds the face, cuts out head and shoulders, measures. Not thread-safe."""

    def __init__(self, bundle: Path) -> None:
        """Loads the nets of the bundle folder "face-landmarks". Raises EngineLoadError where a file
        is missing or broken.
        """
        self._detector = FaceDetector(TfliteModel(bundle / "face_detection_short_range.tflite"))
        self._landmarker = FaceLandmarker(
            TfliteModel(bundle / "face_landmark.tflite"),
            TfliteModel(bundle / "iris_landmark.tflite"),
        )
        self._segmenter = Segmenter(TfliteModel(bundle / "selfie_segmentation.tflite"))

    def take(self, picture: NDArray[np.uint8], size: int = 512) -> Portrait:
        """`picture`: RGB [H, W, 3] uint8. Raises InvalidInputError, which says why not."""
        landmarks = self._find_face(picture)
        check_face(landmarks, picture.shape[1], picture.shape[0])
        check_room(landmarks.points, picture.shape[1], picture.shape[0])
        rgb = crop_head(picture, landmarks.points, size)
        # Measured again in the crop: there the face has the size that the nets like best.
        measured = self._find_face(rgb, largest=True)
        self._check_upright(rgb)
        check_seen(rgb, measured.points)
        return Portrait(rgb, measured, self._segmenter.person(rgb))

    def _check_upright(self, rgb: NDArray[np.uint8]) -> None:
        """Faces are found upside down as well, and measured as if they stood upright: but a net
        that has seen them upright is surer of them so.
        """
        turned = np.ascontiguousarray(rgb[::-1, ::-1])
        sure, surer = (
            max((box.score for box in self._detector.detect(picture)), default=0.0)
            for picture in (rgb, turned)
        )
        if surer > sure + _UPRIGHT_MARGIN:
            raise InvalidInputError("the picture is upside down: turn it and use it again")

    def _find_face(self, rgb: NDArray[np.uint8], *, largest: bool = False) -> Landmarks:
        boxes = sorted(self._detector.detect(rgb), key=lambda box: box.width, reverse=True)
        if not boxes:
            raise InvalidInputError(
                "no face found: use a photo with one face, seen from the front and well lit"
            )
        rivals = [box for box in boxes[1:] if box.width >= _RIVAL_SHARE * boxes[0].width]
        if rivals and not largest:
            raise InvalidInputError(
                f"{1 + len(rivals)} faces of similar size found: "
                "crop the picture to the one that is wanted"
            )
        landmarks = self._landmarker.measure(rgb, boxes[0])
        if landmarks is None and boxes[0].width < MIN_FACE_PIXELS:
            raise _too_small(boxes[0].width)
        if landmarks is None:
            raise InvalidInputError(
                "no face found: what looks like one is covered or too strongly turned"
            )
        return landmarks


def head_square(
    points: NDArray[np.floating], width: int, height: int
) -> tuple[NDArray[np.float64], float]:
    """Corner [2] float64 and side of the square around a face in a picture of `width` x `height`
    pixels.

    points: landmarks [468, 3] float in its pixels. The square is moved and, if it must be, shrunk
    to stay inside the picture; a picture that is tighter than a head needs lies in its middle.
    """
    outline = points[list(topology.FACE_OVAL), :2].astype(np.float64)
    low, high = outline.min(axis=0), outline.max(axis=0)
    face = float((high - low).max())
    side = min(_SIDE_IN_FACES * face, max(min(width, height), 1.7 * face))
    centre = (low + high) / 2 + (0, _CENTRE_DROP * side)
    room = np.array([width, height]) - side
    return np.where(room < 0, room / 2, np.clip(centre - side / 2, 0, np.maximum(0, room))), side


def check_room(points: NDArray[np.floating], width: int, height: int) -> None:
    """Raises InvalidInputError where a picture of `width` x `height` pixels shows too little around
    the face. points: landmarks [468, 3] float in its pixels.
    """
    _, side = head_square(points, width, height)
    if 1 - min(width, side) * min(height, side) / side**2 > _MAX_MISSING:
        raise InvalidInputError(
            "the picture ends too close to the face: use one that shows the whole head with some "
            "room around it"
        )


def crop_head(rgb: NDArray[np.uint8], points: NDArray[np.floating], size: int) -> NDArray[np.uint8]:
    """The `head_square` [size, size, 3] of `rgb` [H, W, 3], both uint8; what the picture lacks of
    it goes on softly from its edge.

    points: landmarks [468, 3] float in pixels of `rgb`.
    """
    corner, side = head_square(points, rgb.shape[1], rgb.shape[0])
    scale = size / side
    affine = np.array([[scale, 0, 0.0], [0, scale, 0.0]])
    # Pixel centres: the picture's corner (-0.5) goes to the square's corner (-0.5).
    affine[:, 2] = -(corner) * scale + (0.5 * scale - 0.5)
    shrink = max(1, int(1 / scale))
    fine = size * min(shrink, 8)
    zoom = affine * (fine / size)
    zoom[:, 2] += 0.5 * (fine / size) - 0.5
    square = cv2.warpAffine(
        rgb, zoom, (fine, fine), flags=cv2.INTER_LANCZOS4, borderMode=cv2.BORDER_REPLICATE
    )
    if scale > 1.2:
        # Enlarging softens: give back a little of the lost crispness (unsharp mask).
        amount = min(0.6, 0.5 * (scale - 1))
        soft = cv2.GaussianBlur(square, (0, 0), 0.7 * scale)
        square = cv2.addWeighted(square, 1 + amount, soft, -amount, 0)
    if fine != size:
        square = cv2.resize(square, (size, size), interpolation=cv2.INTER_AREA)
    return _padded(np.asarray(square, np.uint8), corner, side, rgb.shape[:2])


def _padded(
    square: NDArray[np.uint8], corner: NDArray[np.float64], side: float, shape: tuple[int, ...]
) -> NDArray[np.uint8]:
    """`square` [size, size, 3] uint8 of a picture of `shape` (H, W), softly filled beyond its
    edges: repeated there, they would be streaks.
    """
    size = len(square)
    at = (np.arange(size) + 0.5) * side / size
    there = [
        ((at + corner[axis] >= 0) & (at + corner[axis] <= shape[1 - axis])).astype(np.float32)
        for axis in (0, 1)
    ]
    known = there[1][:, None] * there[0][None]
    return square if known.all() else fill_hidden(square, known)


def _too_small(pixels: float) -> InvalidInputError:
    return InvalidInputError(
        f"the face is too small: {pixels:.0f} pixels from brows to chin, "
        f"{MIN_FACE_PIXELS} are needed"
    )


def check_face(landmarks: Landmarks, width: int, height: int) -> None:
    """Raises InvalidInputError where the face is cut off by the edge of its picture of `width` x
    `height` pixels, too small, or turned too far to be animated.
    """
    points = landmarks.points
    outline = points[list(topology.FACE_OVAL), :2]
    outside = ((outline < 0) | (outline > (width - 1, height - 1))).any(axis=1)
    if outside.mean() > _MAX_OUTSIDE:
        raise InvalidInputError("the face is cut off at the edge: use a picture with all of it")
    found = float(np.linalg.norm(points[topology.CHIN, :2] - points[topology.BROW_CENTRE, :2]))
    if found < MIN_FACE_PIXELS:
        raise _too_small(found)
    yaw, pitch, roll = head_angles(points)
    frontal = "use a photo taken from the front"
    for name, angle, limit, advice in (
        ("sideways", yaw, _MAX_YAW, frontal),
        ("up or down", pitch, _MAX_PITCH, frontal),
        ("over", roll, _MAX_ROLL, "turn the picture until the head is upright"),
    ):
        if abs(angle) > limit:
            raise InvalidInputError(
                f"the head is turned {name} by {math.degrees(abs(angle)):.0f} degrees, "
                f"at most {math.degrees(limit):.0f} work: {advice}"
            )


def head_angles(points: NDArray[np.floating]) -> tuple[float, float, float]:
    """(yaw, pitch, roll) in radians from landmarks [468, 3] float in pixels, from the plane of
    eyes, temples and chin.
    """
    across = points[topology.LEFT_EAR] - points[topology.RIGHT_EAR]
    down = points[topology.CHIN] - points[topology.FOREHEAD]
    roll = math.atan2(across[1], across[0])
    yaw = math.atan2(across[2], math.hypot(across[0], across[1]))
    pitch = math.atan2(down[2], math.hypot(down[0], down[1]))
    return yaw, pitch, roll


class Segmenter:
    """Tells the person in a picture from the background. Not thread-safe."""

    def __init__(self, model: TfliteModel) -> None:
        self._model = model

    def person(self, rgb: NDArray[np.uint8]) -> NDArray[np.float32]:
        """How much of each pixel of `rgb` [H, W, 3] is the person: [H, W] float32 in 0..1, edges
        drawn by the picture.
        """
        height, width = rgb.shape[:2]
        small = (
            cv2.resize(rgb, (_INPUT, _INPUT), interpolation=cv2.INTER_AREA).astype(np.float32)
            / 255.0
        )
        mirrored = self._model.run(small[None, :, ::-1])[0][0, :, ::-1, 0]
        coarse = (self._model.run(small[None])[0][0, :, :, 0] + mirrored) / 2
        mask = cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC)
        refined = guided_filter(
            rgb.astype(np.float32) / 255.0,
            np.asarray(np.clip(mask, 0, 1), np.float32),
            radius=max(2, width // 64),
            eps=2e-4,
        )
        # The filter leaves a faint veil on both sides: cut it, keep the soft edge.
        return np.asarray(np.clip((refined - 0.04) / 0.86, 0.0, 1.0), np.float32)


def guided_filter(
    guide: NDArray[np.float32], mask: NDArray[np.float32], radius: int, eps: float
) -> NDArray[np.float32]:
    """Colour guided filter (He, Sun, Tang 2013): `mask` [H, W] with the edges of `guide` [H, W, 3],
    both float32 in 0..1, and so is the result [H, W].
    """
    size = (2 * radius + 1, 2 * radius + 1)

    def mean(plane: NDArray[np.floating]) -> NDArray[np.float32]:
        blurred = cv2.boxFilter(plane, cv2.CV_32F, size, borderType=cv2.BORDER_REFLECT)
        return np.asarray(blurred, np.float32)

    mean_guide = mean(guide)
    mean_mask = mean(mask)
    cross = mean(guide * mask[..., None]) - mean_guide * mean_mask[..., None]
    covariance = np.empty((*mask.shape, 3, 3), np.float32)
    for i in range(3):
        for j in range(i, 3):
            value = mean(guide[..., i] * guide[..., j]) - mean_guide[..., i] * mean_guide[..., j]
            covariance[..., i, j] = covariance[..., j, i] = value
    covariance += eps * np.eye(3, dtype=np.float32)
    slope = np.linalg.solve(covariance, cross[..., None])[..., 0]
    offset = mean_mask - (slope * mean_guide).sum(axis=-1)
    return np.asarray((mean(slope) * guide).sum(axis=-1) + mean(offset), np.float32)


def check_seen(rgb: NDArray[np.uint8], points: NDArray[np.floating]) -> None:
    """Raises InvalidInputError where the face is too dark, its eyes are shut or its mouth is
    covered. rgb: [H, W, 3] uint8; points: landmarks [468, 3] float in its pixels.
    """
    frame, flat = head_frame(points), points[:, :2].astype(np.float64)
    if float(np.percentile(_at(rgb, flat[list(_UPPER_FACE)]).max(axis=1), 70)) < _DARKEST:
        raise InvalidInputError("the face is too dark: use a photo taken in better light")
    local = frame.local(flat)
    lids = [local[145, 1] - local[159, 1], local[374, 1] - local[386, 1]]
    if sum(lids) / 2 < _SHUT_EYES:
        raise InvalidInputError("the eyes are shut: use a photo in which they are open")
    if _covered(rgb, flat, frame):
        raise InvalidInputError(
            "the mouth is covered: use a photo without a hand or a mask before the face"
        )


def _covered(rgb: NDArray[np.uint8], flat: NDArray[np.float64], frame: HeadFrame) -> bool:
    smooth = cv2.GaussianBlur(rgb, (3, 3), 0).astype(np.float32) / 255
    lab = np.asarray(cv2.cvtColor(smooth, cv2.COLOR_RGB2LAB), np.float64)

    def colour(vertices: Sequence[int]) -> NDArray[np.float64]:
        return np.asarray(np.median(_at(lab, flat[list(vertices)]), axis=0))

    lips, around, above = colour(topology.LIPS), colour(_AROUND_LIPS), colour(_UPPER_FACE)
    if float(np.linalg.norm(lips - around)) >= _ONE_COLOUR:
        return False
    middle = (
        flat[list(topology.UPPER_INNER_LIP[3:8])] + flat[list(topology.LOWER_INNER_LIP[3:8])]
    ) / 2
    down = frame.axes[:, 1] * frame.eye_distance
    steps = np.linspace(-_ACROSS, _ACROSS, 65)[:, None, None]
    profile = _at(lab, middle[None] + steps * down)[..., 0].mean(axis=1)
    other = float(np.linalg.norm((around - above)[1:]))
    return bool(np.ptp(profile) < _LINE or other > _OTHER_CLOTH)


def _at(pixels: NDArray[np.generic], places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Values [..., 3] of `pixels` [H, W, 3] at `places` [..., 2]."""
    last = np.array(pixels.shape[1::-1]) - 1
    x, y = np.moveaxis(np.clip(np.round(places).astype(int), 0, last), -1, 0)
    return np.asarray(pixels[y, x], np.float64)
