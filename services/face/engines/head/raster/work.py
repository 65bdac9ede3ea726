"""The memory that compiled code draws a picture in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from services.face.engines.head.model import Model

ORDERS = 4096
"""Steps of depth in which clear triangles are sorted."""
FIRST = 1
"""Step of depth of what is furthest."""
_FEWEST_BITS = 10
"""Of a triangle's number: in the others, steps of depth are exact as float32."""
LISTED_LINES, HELD = 4, 512
"""So many lines of pixels of one triangle are listed at a time, and so many pixels held, about."""
LANES = 16
"""Loops that are to be vector instructions go over so many more than there are."""


class Work(NamedTuple):
    """What every picture overwrites. Pixels are line by line.

    Of the picture before it is known where it was (`spans`, `hair`): there alone `nearest` and
    `clear` are wiped and the background is put back.
    """

    moved: NDArray[np.float32]
    """[6, N] places in metres, and normals of any length. What no shape moves stays."""
    sums: NDArray[np.float32]
    """[8 * K] of vertices that shapes move: place, normal, and two zeros."""
    placed: NDArray[np.float32]
    """[5, N] x, y in pixels, inverse depth; row and column in a table of light."""
    screen: NDArray[np.float32]
    """[N, 8] x, y in pixels, inverse depth, nothing; place in the texture (0..1), light, shine
    (0..255).
    """
    facing: NDArray[np.uint8]
    """[M] 0 turned away, 1 seen from the front, 2 from behind."""
    planes: NDArray[np.float32]
    """[16 * (M + 1)] of each triangle that was drawn, the first being none: place in its texture in
    256ths of a texel, light in 1024ths and shine in the picture's first pixel; what is added to
    them for one pixel right; for one down. Then first texel, width and height of its texture, in
    `textures`,
    """
    textures: NDArray[np.int32]
    """[16 * (M + 1)] the same memory. The first one's texture has no texels."""
    outlines: NDArray[np.int32]
    """[edges + 1] those that are smoothed."""
    order: NDArray[np.int32]
    """[clear triangles] the nearest first."""
    counts: NDArray[np.int32]
    """[ORDERS + 1] of those in each step of depth."""
    bits: int
    """Of a key in `nearest` that tell the triangle."""
    reach: NDArray[np.float32]
    """[3] inverse depth of what is furthest, steps in one over a metre, and the last step."""
    nearest: NDArray[np.uint32]
    """[size * size + LANES] step of depth << `bits` | 1 + triangle; 0: there is none."""
    ends: NDArray[np.int32]
    """[2, size + LANES] of a triangle, first pixel of each line and the one behind the last."""
    spans: NDArray[np.int32]
    """[2, size + LANES] first pixel of each line that shows what is opaque, and the one behind the
    last.
    """
    hair: NDArray[np.int32]
    """[2, size + LANES] the same of what may be seen through."""
    before: NDArray[np.int32]
    """[2, size + LANES] of the picture before, both."""
    clear: NDArray[np.uint32]
    """[size * size] what can be seen through: bytes R, G, B, A, colours times alpha."""
    listed: NDArray[np.uint32]
    """[some] column | row << 16 of pixels that a clear triangle covers,"""
    keys: NDArray[np.uint32]
    """[some] what they are to be in `nearest`,"""
    texels: NDArray[np.int32]
    """[some] and where they are in its texture."""
    within: NDArray[np.uint32]
    """[some] Place within texels and shine,"""
    lights: NDArray[np.uint32]
    """[some] and light."""
    chosen: NDArray[np.int32]
    """[some] Which of them are neither solid nor quite clear."""
    held: NDArray[np.uint32]
    """[some] Pixels of clear triangles that are yet to be laid over each other,"""
    held_keys: NDArray[np.uint32]
    """[some] what they are to be in `nearest`,"""
    colours: NDArray[np.uint32]
    """[some] and their colours."""
    looks: NDArray[np.uint32]
    """[4, some] of those, or pixels of a line: place within texels and shine, and light. Of
    pixels of a line, too: first of the four texels, and first of those below.
    """
    fours: NDArray[np.uint64]
    """[2, some] two texels of each, and the two below,"""
    halves: NDArray[np.uint32]
    """[2, 2 * some] and the same memory, texel by texel."""
    lines: NDArray[np.uint32]
    """[2, size] lines of the picture before they change."""
    background: NDArray[np.uint32]
    """[size * size] that of the model, which is behind the head in `pixels`."""
    pixels: NDArray[np.uint32]
    """[size * size] bytes R, G, B and a zero."""
    picture: NDArray[np.uint8]
    """[size, size, 4] the same."""

    def triangles(self) -> NDArray[np.int64]:
        """[size, size] the triangle that each pixel shows; -1: none."""
        size = len(self.picture)
        shown = self.nearest[: size * size] & np.uint32((1 << self.bits) - 1)
        return np.asarray(shown.astype(np.int64).reshape(size, size) - 1)

    def depths(self) -> NDArray[np.float32]:
        """[size, size] inverse metres; 0: nothing is there."""
        size = len(self.picture)
        steps = (self.nearest[: size * size] >> np.uint32(self.bits)).reshape(size, size)
        furthest, rate, _ = self.reach
        return np.where(steps > 0, furthest + (steps - FIRST) / rate, 0).astype(np.float32)


def new_work(model: Model) -> Work:
    """For heads of that many points before that background."""
    vertices, triangles, size = len(model.rest), len(model.triangles), model.size
    some = (LISTED_LINES + 1) * size + HELD + LANES
    pixels, fours = model.background.copy(), np.empty((2, some), np.uint64)
    planes = _aligned(16 * (triangles + 1))
    return Work(
        moved=np.ascontiguousarray(np.concatenate([model.rest, model.normals], axis=1).T),
        sums=_aligned(8 * len(model.moving)),
        placed=np.empty((5, vertices), np.float32),
        screen=_aligned(8 * vertices).reshape(vertices, 8),
        facing=np.empty(triangles, np.uint8),
        planes=planes,
        textures=planes.view(np.int32),
        outlines=np.empty(len(model.edges) + 1, np.int32),
        order=np.empty(triangles, np.int32),
        counts=np.empty(ORDERS + 1, np.int32),
        bits=max(triangles.bit_length(), _FEWEST_BITS),
        reach=np.zeros(3, np.float32),
        nearest=np.zeros(size * size + LANES, np.uint32),
        ends=np.zeros((2, size + LANES), np.int32),
        spans=np.zeros((2, size + LANES), np.int32),
        hair=np.zeros((2, size + LANES), np.int32),
        before=np.empty((2, size + LANES), np.int32),
        clear=np.zeros(size * size, np.uint32),
        listed=np.zeros(some, np.uint32),
        keys=np.zeros(some, np.uint32),
        texels=np.zeros(some, np.int32),
        within=np.zeros(some, np.uint32),
        lights=np.zeros(some, np.uint32),
        chosen=np.zeros(some, np.int32),
        held=np.zeros(some, np.uint32),
        held_keys=np.zeros(some, np.uint32),
        colours=np.zeros(some, np.uint32),
        looks=np.zeros((4, some), np.uint32),
        fours=fours,
        halves=fours.view(np.uint32),
        lines=np.empty((2, size), np.uint32),
        background=model.background,
        pixels=pixels,
        picture=pixels.view(np.uint8).reshape(size, size, 4),
    )


def _aligned(count: int) -> NDArray[np.float32]:
    """Zeros that begin where a line of the caches does, which 16 of them fill."""
    room = np.zeros(count + 15, np.float32)
    first = -room.ctypes.data % 64 // 4
    return room[first : first + count]
