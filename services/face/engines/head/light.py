"""How bright a head is, by where its surface looks: tables of light and of shine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from services.face.engines.head.bundle import Light
from services.face.engines.head.gltf.look import SCREEN

LIGHT_SIDE = 64
"""Of a table: rows by a normal's y, from the top, and columns by its x."""
_WRAP = 0.25
"""How far light goes round into the shade: it is scattered under the skin."""
_EXPOSURE = 1.25


@dataclass(frozen=True)
class Gloss:
    """How a kind of surface mirrors lamps (Blinn 1977)."""

    strength: float
    sharpness: float
    base: float
    """What it shines with besides, 1 being white: the brighter, the less a highlight adds."""


SKIN = Gloss(0.08, 22, 0.35)
GLOSSES = {
    "head": SKIN,
    "teeth": Gloss(0.2, 60, 0.4),
    "tooth": Gloss(0.2, 60, 0.4),
    "tongue": Gloss(0.15, 30, 0.1),
    "gum": Gloss(0.15, 30, 0.1),
    "hair": Gloss(0.02, 14, 0.03),
}
"""By kind of part; others are dull."""


def sphere() -> NDArray[np.float64]:
    """[LIGHT_SIDE, LIGHT_SIDE, 3] the normal of each place in a table."""
    line = np.linspace(-1, 1, LIGHT_SIDE)
    x, y = np.meshgrid(line, -line)
    within = np.minimum(1, 1 / np.maximum(np.hypot(x, y), 1e-9))
    x, y = x * within, y * within
    return np.stack([x, y, np.sqrt(np.maximum(1 - x * x - y * y, 0))], axis=-1)


def light_table(light: Light) -> NDArray[np.float64]:
    """[LIGHT_SIDE, LIGHT_SIDE] what colours are multiplied by, as a screen has them."""
    normal = sphere()
    shine = np.full(normal.shape[:2], light.ambient + 0.08)
    for lamp in light.lamps:
        facing = normal @ np.array(lamp.direction)
        shine += lamp.strength * np.maximum((facing + _WRAP) / (1 + _WRAP), 0)
    return np.asarray((_EXPOSURE * shine) ** SCREEN)


def shine_table(light: Light, gloss: Gloss) -> NDArray[np.float64]:
    """[LIGHT_SIDE, LIGHT_SIDE] what is added to colours of 0..255, seen from the front."""
    normal, shine = sphere(), np.zeros((LIGHT_SIDE, LIGHT_SIDE))
    for lamp in light.lamps:
        half = np.array(lamp.direction) + np.array((0.0, 0.0, 1.0))
        half /= max(np.linalg.norm(half), 1e-9)
        glint = np.maximum(normal @ half, 0) ** gloss.sharpness
        shine += lamp.strength * glint * (normal @ np.array(lamp.direction) > 0)
    shine *= _EXPOSURE * gloss.strength
    return np.asarray(255 * ((gloss.base + shine) ** SCREEN - gloss.base**SCREEN))


def tint(light: Light) -> NDArray[np.float64]:
    """[3] colour of all lamps before the head, about 1."""
    lamps = [lamp for lamp in light.lamps if lamp.direction[2] > 0]
    if not lamps:
        return np.ones(3)
    whole = np.sum([lamp.strength * np.array(lamp.colour) for lamp in lamps], axis=0)
    return np.asarray((whole / max(whole.mean(), 1e-9)) ** SCREEN)
