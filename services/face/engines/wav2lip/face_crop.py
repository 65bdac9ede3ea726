"""Where the network looks at a portrait, and how what it draws goes back into it.

The crop follows the boxes that the network was trained on: ear to ear, from the middle of the
forehead to a little below the chin, turned upright. What comes back is laid into the lower half
under a mask with soft edges. Its colours are matched where the edge will be, and wherever it drew
what was there already, the fine structure of the photograph, which 96 pixels cannot hold, is put
back: a network that changed nothing would give exactly the portrait.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.avatar import topology
from services.face.avatar.avatar import TEXTURE_SCALE, Avatar

FACE_SIZE = 96
_HALF = FACE_SIZE // 2
_FOREHEAD = 0.1
"""Share of the face, from its outline downwards, that the crop leaves out at the top."""
_BELOW_CHIN = 0.05
_SIDE_INSET, _CHIN_ROOM = 0.94, 1.08
"""The mask is narrower than the outline of the face, and reaches below the chin, which moves."""
_RIM_INSET = (0.92, 0.94)
"""Colours are compared on skin, not on what is beside and below it."""
_FEATHER = 2.6
"""Of the mask, sigma in pixels of the crop."""
_EDGE = 7
"""Rows over which the mask begins below the middle and ends above the lower edge."""
_GAINS = (0.8, 1.25)
_ALIKE = 0.08
"""A pixel so far from the portrait (of 1), but for the light, shows something else."""
_SAME = 0.05
"""A change of colour so large (of 1) takes away most of the photograph's fine structure."""


@dataclass(frozen=True)
class FaceCrop:
    """The face of one avatar as the network sees it. Never changed, so all sessions share it."""

    reference: NDArray[np.float32]
    """[96, 96, 3] RGB 0..1: the face of the portrait."""
    window: tuple[int, int, int, int]
    """x0, y0, x1, y1 of the texture's part that is drawn anew."""
    person: NDArray[np.uint8]
    """[H, W, 3]: that part of the texture as photographed."""
    _to_window: NDArray[np.float64]
    """[2, 3]: pixels of the crop to pixels of the window."""
    _mask: NDArray[np.float32]
    """[h, w, 1] 0..1: how much of the window is drawn by the network."""
    _detail: NDArray[np.float32]
    """[h, w, 3]: what of `person` is finer than the crop."""
    _rim: NDArray[np.float32]
    """[96, 96], sums to 1: where colours are compared."""

    def network_input(self) -> NDArray[np.float32]:
        """[6, 96, 96] float32 BGR 0..1: the face without its lower half, then all of it."""
        face = np.ascontiguousarray(self.reference[..., ::-1].transpose(2, 0, 1))
        masked = face.copy()
        masked[:, _HALF:] = 0.0
        return np.concatenate([masked, face])

    def paste(self, drawn: NDArray[np.float32]) -> NDArray[np.uint8]:
        """The window [H, W, 3] uint8 with the mouth of `drawn`, [96, 96, 3] float32 RGB 0..1."""
        matched = self._match(drawn)
        change = np.abs(matched - self.reference).mean(axis=2)
        change = cv2.GaussianBlur(change, (0, 0), 1.2)
        keep = np.exp(-((change / _SAME) ** 2)).astype(np.float32)
        patch = self._enlarge(matched)
        patch += self._enlarge(keep)[..., None] * self._detail
        mixed = self.person + self._mask * (255.0 * patch - self.person)
        return np.clip(np.rint(mixed), 0, 255).astype(np.uint8)

    def _match(self, drawn: NDArray[np.float32]) -> NDArray[np.float32]:
        """`drawn` with the light and contrast of the portrait, as told by the rim."""
        weight = self._rim[..., None]
        shift = (weight * (self.reference - drawn)).sum(axis=(0, 1))
        # What has moved tells nothing about the light: of the rim, only like is held against like.
        unlike = np.abs(drawn + shift - self.reference).max(axis=2, keepdims=True)
        weight = weight * np.exp(-((unlike / _ALIKE) ** 2))
        weight /= max(float(weight.sum()), 1e-6)
        mean, wanted = ((weight * p).sum(axis=(0, 1)) for p in (drawn, self.reference))
        spread = (weight * (drawn - mean) ** 2).sum(axis=(0, 1))
        common = (weight * (drawn - mean) * (self.reference - wanted)).sum(axis=(0, 1))
        gain = np.clip((common + 1e-5) / (spread + 1e-5), *_GAINS)
        return np.asarray((drawn - mean) * gain + wanted, np.float32)

    def _enlarge(self, small: NDArray[np.float32]) -> NDArray[np.float32]:
        height, width = self.person.shape[:2]
        return _warp(small, self._to_window, (width, height))


def face_crop(avatar: Avatar, texture: NDArray[np.uint8]) -> FaceCrop:
    """The crop of an avatar; `texture` [h, w, 4] uint8 is what its window is cut from."""
    outline = avatar.mesh.source[list(topology.FACE_OVAL)]
    place = _place(avatar, outline)
    reference = _cut(avatar.portrait, place)
    to_crop = _inverse(place)
    outline = outline @ to_crop[:, :2].T + to_crop[:, 2]
    mask = _mask(outline)
    fine = place.copy()
    fine *= TEXTURE_SCALE
    fine[:, 2] += (TEXTURE_SCALE - 1) / 2
    window = _window(fine, mask, texture.shape[0])
    x0, y0, x1, y1 = window
    fine[:, 2] -= (x0, y0)
    size = (x1 - x0, y1 - y0)
    person = np.ascontiguousarray(texture[y0:y1, x0:x1, :3])
    # Nothing is drawn where the person ends: there the texture is see-through.
    solid = (texture[y0:y1, x0:x1, 3] == 255).astype(np.float32)
    solid = cv2.erode(solid, np.ones((5, 5), np.uint8))
    large_mask = _warp(mask, fine, size) * cv2.GaussianBlur(solid, (0, 0), 3.0) * solid
    detail = person / np.float32(255) - _warp(reference, fine, size)
    rim = 4 * mask * (1 - mask) * _filled(outline, _RIM_INSET)
    rim[: _HALF + 1] = 0
    return FaceCrop(
        reference,
        window,
        person,
        fine,
        np.asarray(large_mask[..., None], np.float32),
        np.asarray(detail, np.float32),
        np.asarray(rim / max(float(rim.sum()), 1e-6), np.float32),
    )


def _place(avatar: Avatar, outline: NDArray[np.float64]) -> NDArray[np.float64]:
    """[2, 3]: pixels of the crop to pixels of the portrait."""
    axes = avatar.frame.axes
    local = outline @ axes
    (left, top), (right, chin) = local.min(axis=0), local.max(axis=0)
    height = chin - top
    top, bottom = top + _FOREHEAD * height, chin + _BELOW_CHIN * height
    step = np.array([(right - left) / FACE_SIZE, (bottom - top) / FACE_SIZE])
    corner = np.array([left, top]) + 0.5 * step
    return np.column_stack([axes * step, axes @ corner])


def _cut(portrait: NDArray[np.uint8], place: NDArray[np.float64]) -> NDArray[np.float32]:
    """The crop [96, 96, 3] 0..1, from samples so close that none of the portrait is passed over."""
    finer = max(1, int(np.ceil(np.linalg.norm(place[:, :2], axis=0).max())))
    close = place.copy()
    close[:, :2] /= finer
    close[:, 2] -= place[:, :2] @ np.full(2, 0.5 - 0.5 / finer)
    side = FACE_SIZE * finer
    samples = cv2.warpAffine(
        portrait.astype(np.float32),
        close,
        (side, side),
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_REPLICATE,
    )
    small = cv2.resize(samples, (FACE_SIZE, FACE_SIZE), interpolation=cv2.INTER_AREA)
    return np.asarray(small / 255.0, np.float32)


def _mask(outline: NDArray[np.float64]) -> NDArray[np.float32]:
    """[96, 96]: the lower half of the face, soft at its edges."""
    mask = np.asarray(
        cv2.GaussianBlur(_filled(outline, (_SIDE_INSET, _CHIN_ROOM)), (0, 0), _FEATHER), np.float32
    )
    rows = np.arange(FACE_SIZE, dtype=np.float32)
    begin, end = (rows - _HALF) / _EDGE, (FACE_SIZE - 1 - rows) / _EDGE
    ramp = np.clip(np.minimum(begin, end), 0, 1)
    return np.asarray(mask * (ramp * ramp * (3 - 2 * ramp))[:, None], np.float32)


def _filled(outline: NDArray[np.float64], scale: tuple[float, float]) -> NDArray[np.float32]:
    """[96, 96]: 1 inside the outline, drawn wider and lower by `scale` from the crop's middle."""
    middle = np.array([outline[:, 0].mean(), float(_HALF)])
    shape = (outline - middle) * scale + middle
    mask: NDArray[np.float32] = np.zeros((FACE_SIZE, FACE_SIZE), np.float32)
    cv2.fillPoly(mask, [np.round(shape * 16).astype(np.int32)], 1.0, cv2.LINE_AA, 4)
    return mask


def _window(
    to_texture: NDArray[np.float64], mask: NDArray[np.float32], size: int
) -> tuple[int, int, int, int]:
    rows, columns = np.nonzero(mask > 1e-3)
    corners = np.array(
        [(x, y) for x in (columns.min(), columns.max()) for y in (rows.min(), rows.max())]
    )
    places = corners @ to_texture[:, :2].T + to_texture[:, 2]
    low = np.maximum(np.floor(places.min(axis=0)).astype(int) - 4, 0)
    high = np.minimum(np.ceil(places.max(axis=0)).astype(int) + 5, size)
    return int(low[0]), int(low[1]), int(high[0]), int(high[1])


def _warp(
    picture: NDArray[np.float32], to_target: NDArray[np.float64], size: tuple[int, int]
) -> NDArray[np.float32]:
    """`picture` drawn into a target of `size` (width, height)."""
    return np.asarray(
        cv2.warpAffine(
            picture, to_target, size, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
        ),
        np.float32,
    )


def _inverse(affine: NDArray[np.float64]) -> NDArray[np.float64]:
    linear = np.linalg.inv(affine[:, :2])
    return np.column_stack([linear, -linear @ affine[:, 2]])
