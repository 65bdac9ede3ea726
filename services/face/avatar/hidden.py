"""What is hidden in a picture, painted of what is seen around it."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray


def fill_hidden(rgb: NDArray[np.uint8], known: NDArray[np.float32]) -> NDArray[np.uint8]:
    """`rgb` [H, W, 3] uint8 with the pixels that are not `known` [H, W] (float32 0..1) filled
    smoothly from those around.

    Push-pull (Gortler et al. 1996): averages of the known pixels at ever coarser scales, then back
    again, each scale used where the finer one knows nothing.
    """
    colours = [rgb.astype(np.float32) * known[..., None]]
    weights = [known.astype(np.float32)]
    while min(weights[-1].shape) > 1:
        size = (max(1, weights[-1].shape[1] // 2), max(1, weights[-1].shape[0] // 2))
        colours.append(_halved(colours[-1], size).reshape(size[1], size[0], 3))
        weights.append(_halved(weights[-1], size))
    filled = colours[-1] / np.maximum(weights[-1][..., None], 1e-6)
    for colour, weight in zip(reversed(colours[:-1]), reversed(weights[:-1]), strict=True):
        size = (weight.shape[1], weight.shape[0])
        coarse = cv2.resize(filled, size, interpolation=cv2.INTER_LINEAR).reshape(
            size[1], size[0], 3
        )
        trust = np.minimum(1.0, weight)[..., None]
        filled = colour / np.maximum(weight[..., None], 1e-6) * trust + coarse * (1 - trust)
    return np.clip(np.round(filled), 0, 255).astype(np.uint8)


def _halved(plane: NDArray[np.float32], size: tuple[int, int]) -> NDArray[np.float32]:
    blurred = cv2.GaussianBlur(plane, (3, 3), 0)
    return np.asarray(cv2.resize(blurred, size, interpolation=cv2.INTER_AREA), np.float32)


def continue_behind(
    rgb: NDArray[np.uint8], hidden: NDArray[np.bool_], reach: float
) -> NDArray[np.uint8]:
    """`rgb` [H, W, 3] uint8 with its `hidden` pixels, [H, W] bool, painted as the background might
    go on behind.

    Near the visible part the texture is mirrored at its border, so that folds and patterns go on;
    further in than `reach` pixels, where a moving head never bares it, it fades into a smooth fill.
    """
    if not hidden.any() or hidden.all():
        return rgb.copy()
    distance, labels = cv2.distanceTransformWithLabels(
        hidden.astype(np.uint8), cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL
    )
    y, x = np.nonzero(~hidden)
    border = np.zeros((int(labels.max()) + 1, 2), np.float32)
    border[labels[y, x]] = np.stack([x, y], axis=1)
    height, width = hidden.shape
    grid = np.stack(np.meshgrid(np.arange(width), np.arange(height)), axis=-1).astype(np.float32)
    nearest = cv2.GaussianBlur(border[labels], (0, 0), 3.0)
    mirrored = 2 * nearest - grid
    there = np.clip(np.round(mirrored), 0, (width - 1, height - 1)).astype(int)
    good = ~hidden[there[..., 1], there[..., 0]]
    from_x, from_y = np.ascontiguousarray(mirrored.transpose(2, 0, 1), np.float32)
    picture = cv2.remap(rgb, from_x, from_y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REFLECT_101)
    smooth = fill_hidden(rgb, (~hidden).astype(np.float32)).astype(np.float32)
    trust = np.clip(1.5 - distance / reach, 0, 1) * cv2.GaussianBlur(
        good.astype(np.float32), (0, 0), 2.0
    )
    trust = np.where(good, trust, 0.0)[..., None]
    painted = cv2.medianBlur(np.round(picture * trust + smooth * (1 - trust)).astype(np.uint8), 5)
    return np.where(hidden[..., None], painted, rgb)
