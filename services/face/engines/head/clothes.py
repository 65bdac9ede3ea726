"""What clothes ask of the head that wears them: that skin stays beneath."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from services.face.engines.head.glb import Part

_LOOSE_M, _MOST_POINTS = 0.03, 2500
"""How far from clothes skin moves as it likes, half of that not at all; points of clothes that it
is told from.
"""


def freedom(skin: NDArray[np.float32], clothes: Sequence[Part], unit: float) -> NDArray[np.float64]:
    """[N] 0 for points `skin` [N, 3] that lie at clothes and would come out of them if they turned
    with the head; 1 for those that are far enough away. unit: how large the head is, about 1.
    """
    free = np.ones(len(skin))
    worn = np.concatenate([np.zeros((0, 3), np.float32), *(part.positions for part in clothes)])
    if not len(worn):
        return free
    worn = worn[:: max(1, len(worn) // _MOST_POINTS)]
    loose = _LOOSE_M * unit
    near = ((skin > worn.min(axis=0) - loose) & (skin < worn.max(axis=0) + loose)).all(axis=1)
    for some in np.array_split(np.flatnonzero(near), near.sum() // 256 + 1):
        apart = np.sqrt(((skin[some][:, None] - worn) ** 2).sum(axis=2).min(axis=1))
        share = np.clip(2 * apart / loose - 1, 0, 1)
        free[some] = share * share * (3 - 2 * share)
    return free
