"""BlazeFace short range: where the faces of a picture are."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.tflite import TfliteModel

_INPUT = 128
_MIN_SCORE = 0.5
_MAX_OVERLAP = 0.3


@dataclass(frozen=True, slots=True)
class FaceBox:
    """A face in picture pixels."""

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
        """Faces of `rgb` [H, W, 3], best first.

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
        scale = _INPUT / side
        tile = cv2.resize(
            rgb[y : y + height, x : x + width],
            (max(1, round(width * scale)), max(1, round(height * scale))),
            interpolation=cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR,
        )
        padded = np.zeros((_INPUT, _INPUT, 3), np.float32)
        top, left = (_INPUT - tile.shape[0]) // 2, (_INPUT - tile.shape[1]) // 2
        padded[top : top + tile.shape[0], left : left + tile.shape[1]] = tile
        regressors, logits = self._model.run(padded[None] / 127.5 - 1.0)
        scores = 1.0 / (1.0 + np.exp(-np.clip(logits[0, :, 0], -80, 80)))
        found = np.flatnonzero(scores >= _MIN_SCORE)
        # First four: box centre and size; then x, y of the right eye, the left eye and four more
        # points.
        values = regressors[0, found].reshape(-1, 8, 2) / _INPUT
        values[:, [0, 2, 3]] += self._anchors[found, None]
        points = (values * _INPUT - (left, top)) / scale + (x, y)
        size = values[:, 1] * _INPUT / scale
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
