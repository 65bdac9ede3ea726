"""Parts the person of a picture from the background."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.avatar.making.tflite import TfliteModel

_INPUT = 256


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
