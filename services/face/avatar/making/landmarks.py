"""Where the faces of a picture are (BlazeFace short range), and the 468 landmarks of one: its eyes
are measured again by a net that looks at each eye alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.avatar import topology
from services.face.avatar.making.tflite import TfliteModel

_DETECTOR_INPUT = 128
_MIN_SCORE = 0.5
_MAX_OVERLAP = 0.3
_MESH_INPUT = 192
_EYE_INPUT = 64
_MIN_PRESENCE = 0.5
_JITTER = (
    (0.0, 0.0, 1.0),
    (0.03, 0.0, 1.0),
    (-0.03, 0.0, 1.0),
    (0.0, 0.03, 1.04),
    (0.0, -0.03, 0.96),
    (0.0, 0.0, 1.08),
)
"""Shifts and scales of the window, in window sides: averaging over them halves the net's noise."""
_EYE_LOWER = range(9)
_EYE_UPPER = (0, *range(9, 16), 8)


@dataclass(frozen=True, slots=True)
class FaceBox:
    """Where a face was found, in picture pixels."""

    score: float
    """0..1"""
    x0: float
    y0: float
    x1: float
    y1: float
    right_eye: tuple[float, float]
    left_eye: tuple[float, float]

    @property
    def width(self) -> float:
        return self.x1 - self.x0


class FaceDetector:
    """Finds faces in RGB pictures of any size. Not thread-safe."""

    def __init__(self, model: TfliteModel) -> None:
        self._model = model
        self._anchors = _anchors()

    def detect(self, rgb: NDArray[np.uint8]) -> list[FaceBox]:
        """Faces of `rgb` [H, W, 3] uint8, best first.

        The net sees 128 x 128 pixels and misses faces below a tenth of the width, so when the whole
        picture shows none, its overlapping quarters are searched.
        """
        height, width = rgb.shape[:2]
        boxes = self._detect_square(rgb, 0, 0, width, height)
        if not boxes:
            w, h = (width + 1) // 2, (height + 1) // 2
            for y in (0, h // 2, height - h):
                for x in (0, w // 2, width - w):
                    boxes += self._detect_square(rgb, x, y, w, h)
        return _suppress(boxes)

    def _detect_square(
        self, rgb: NDArray[np.uint8], x: int, y: int, width: int, height: int
    ) -> list[FaceBox]:
        side = max(width, height)
        scale = _DETECTOR_INPUT / side
        tile = cv2.resize(
            rgb[y : y + height, x : x + width],
            (max(1, round(width * scale)), max(1, round(height * scale))),
            interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR,
        )
        padded = np.zeros((_DETECTOR_INPUT, _DETECTOR_INPUT, 3), np.float32)
        top, left = (_DETECTOR_INPUT - tile.shape[0]) // 2, (_DETECTOR_INPUT - tile.shape[1]) // 2
        padded[top : top + tile.shape[0], left : left + tile.shape[1]] = tile
        regressors, logits = self._model.run(padded[None] / 127.5 - 1.0)
        scores = 1.0 / (1.0 + np.exp(-np.clip(logits[0, :, 0], -80, 80)))
        found = np.flatnonzero(scores >= _MIN_SCORE)
        # First four: box centre and size; then x, y of the right eye, the left eye and four more
        # points.
        values = regressors[0, found].reshape(-1, 8, 2) / _DETECTOR_INPUT
        values[:, [0, 2, 3]] += self._anchors[found, None]
        points = (values * _DETECTOR_INPUT - (left, top)) / scale + (x, y)
        size = values[:, 1] * _DETECTOR_INPUT / scale
        return [
            FaceBox(
                score=float(scores[index]),
                x0=float(p[0, 0] - s[0] / 2),
                y0=float(p[0, 1] - s[1] / 2),
                x1=float(p[0, 0] + s[0] / 2),
                y1=float(p[0, 1] + s[1] / 2),
                right_eye=(float(p[2, 0]), float(p[2, 1])),
                left_eye=(float(p[3, 0]), float(p[3, 1])),
            )
            for index, p, s in zip(found, points, size, strict=True)
        ]


def _anchors() -> NDArray[np.float32]:
    """Centres of the 896 anchors, [896, 2] in 0..1: two per cell at stride 8, six per cell at
    stride 16.
    """
    layers = []
    for cells, per_cell in ((16, 2), (8, 6)):
        centre = (np.arange(cells, dtype=np.float32) + 0.5) / cells
        x, y = np.meshgrid(centre, centre)
        layers.append(np.repeat(np.stack([x.ravel(), y.ravel()], axis=1), per_cell, axis=0))
    return np.concatenate(layers)


def _overlap(a: FaceBox, b: FaceBox) -> float:
    """Intersection over union."""
    width = min(a.x1, b.x1) - max(a.x0, b.x0)
    height = min(a.y1, b.y1) - max(a.y0, b.y0)
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    return shared / (a.width * (a.y1 - a.y0) + b.width * (b.y1 - b.y0) - shared)


def _suppress(boxes: list[FaceBox]) -> list[FaceBox]:
    """Greedy non-maximum suppression."""
    kept: list[FaceBox] = []
    for box in sorted(boxes, key=lambda box: box.score, reverse=True):
        if all(_overlap(box, other) < _MAX_OVERLAP for other in kept):
            kept.append(box)
    return kept


@dataclass(frozen=True, slots=True)
class Landmarks:
    """A face as it was measured, in picture pixels."""

    points: NDArray[np.float32]
    """[468, 3]: x, y, and z growing away from the camera, on the scale of x."""
    iris: NDArray[np.float32]
    """[2, 3]: x, y and radius of the right and the left iris."""
    presence: float
    """0..1, how sure the net is that this is a face."""


@dataclass(frozen=True, slots=True)
class _Window:
    """A rotated square cut out of a picture."""

    x: float
    y: float
    side: float
    angle: float

    def to_tile(self, size: int, *, mirrored: bool = False) -> NDArray[np.float64]:
        """Affine map [2, 3] from picture pixels to a size x size tile."""
        scale = size / self.side
        cos, sin = math.cos(self.angle) * scale, math.sin(self.angle) * scale
        rows = np.array([[cos, sin, 0.0], [-sin, cos, 0.0]])
        rows[:, 2] = size / 2 - rows[:, :2] @ (self.x, self.y)
        if mirrored:
            rows[0] = (0, 0, size) - rows[0]
        return rows

    def cut(
        self, rgb: NDArray[np.uint8], size: int, *, mirrored: bool = False
    ) -> NDArray[np.float32]:
        """The tile [size, size, 3] in 0..1, averaged down where the picture is finer."""
        oversampling = int(np.clip(round(self.side / size), 1, 8))
        fine = size * oversampling
        tile = cv2.warpAffine(
            rgb, self.to_tile(fine, mirrored=mirrored), (fine, fine), flags=cv2.INTER_LINEAR
        )
        if oversampling > 1:
            tile = cv2.resize(tile, (size, size), interpolation=cv2.INTER_AREA)
        return tile.astype(np.float32) / 255.0


def _to_picture(
    window: _Window, points: NDArray[np.float32], size: int, *, mirrored: bool = False
) -> NDArray[np.float64]:
    """Tile points [N, 3] back in the picture; z keeps the scale of x."""
    inverse = cv2.invertAffineTransform(window.to_tile(size, mirrored=mirrored))
    flat = points[:, :2] @ inverse[:, :2].T + inverse[:, 2]
    return np.concatenate([flat, points[:, 2:] * (window.side / size)], axis=1)


class FaceLandmarker:
    """Measures a face that the detector found. Not thread-safe."""

    def __init__(self, mesh: TfliteModel, eye: TfliteModel) -> None:
        self._mesh = mesh
        self._eye = eye

    def measure(self, rgb: NDArray[np.uint8], box: FaceBox) -> Landmarks | None:
        """Landmarks of the face in `box` of `rgb` [H, W, 3] uint8; None when a closer look finds
        no face there.
        """
        (rx, ry), (lx, ly) = box.right_eye, box.left_eye
        window = _Window(
            x=(box.x0 + box.x1) / 2,
            y=(box.y0 + box.y1) / 2,
            side=1.5 * max(box.width, box.y1 - box.y0),
            angle=math.atan2(ly - ry, lx - rx),
        )
        points, presence = self._look(rgb, window)
        if presence < _MIN_PRESENCE:
            return None
        for _ in range(2):
            points, presence = self._look(rgb, _window_of(points))
        looks = []
        window = _window_of(points)
        for dx, dy, scale in _JITTER:
            side = window.side * scale
            looks.append(
                self._look(
                    rgb, _Window(window.x + dx * side, window.y + dy * side, side, window.angle)
                )[0]
            )
        points = np.mean(looks, axis=0)
        iris = np.stack(
            [self._measure_eye(rgb, points, left=False), self._measure_eye(rgb, points, left=True)]
        )
        return Landmarks(points.astype(np.float32), iris.astype(np.float32), presence)

    def _look(self, rgb: NDArray[np.uint8], window: _Window) -> tuple[NDArray[np.float64], float]:
        flat, score = self._mesh.run(window.cut(rgb, _MESH_INPUT)[None])
        points = _to_picture(window, flat.reshape(-1, 3), _MESH_INPUT)
        return points, 1.0 / (1.0 + math.exp(-float(np.clip(score.item(), -80, 80))))

    def _measure_eye(
        self, rgb: NDArray[np.uint8], points: NDArray[np.float64], *, left: bool
    ) -> NDArray[np.float64]:
        """Moves the lid rows of one eye in `points` to the finer measure; gives the iris (x, y,
        radius).
        """
        upper = topology.LEFT_UPPER_LID if left else topology.RIGHT_UPPER_LID
        lower = topology.LEFT_LOWER_LID if left else topology.RIGHT_LOWER_LID
        outer, inner = points[upper[0], :2], points[upper[-1], :2]
        span = (outer - inner) if left else (inner - outer)
        window = _Window(
            x=float(outer[0] + inner[0]) / 2,
            y=float(outer[1] + inner[1]) / 2,
            side=2.3 * float(np.linalg.norm(span)),
            angle=math.atan2(span[1], span[0]),
        )
        contour, iris = self._eye.run(window.cut(rgb, _EYE_INPUT, mirrored=left)[None])
        rim = _to_picture(window, contour.reshape(-1, 3), _EYE_INPUT, mirrored=left)[:, :2]
        points[list(lower), :2] = rim[list(_EYE_LOWER)]
        points[list(upper), :2] = rim[list(_EYE_UPPER)]
        ring = _to_picture(window, iris.reshape(-1, 3), _EYE_INPUT, mirrored=left)[:, :2]
        radius = np.linalg.norm(ring[1:] - ring[0], axis=1).mean()
        return np.array([ring[0, 0], ring[0, 1], radius])


def _window_of(points: NDArray[np.float64]) -> _Window:
    """The square that the mesh net was trained on: upright by the eyes, half as large again as the
    face.
    """
    flat = points[:, :2]
    across = flat[topology.LEFT_EYE_OUTER] - flat[topology.RIGHT_EYE_OUTER]
    angle = math.atan2(across[1], across[0])
    cos, sin = math.cos(angle), math.sin(angle)
    upright = flat @ np.array([[cos, -sin], [sin, cos]])
    low, high = upright.min(axis=0), upright.max(axis=0)
    x, y = (low + high) / 2
    return _Window(
        x=x * cos - y * sin, y=x * sin + y * cos, side=1.5 * float((high - low).max()), angle=angle
    )
