"""How the lids fall and rise. Pure.

A lid falls faster than it rises and shuts wholly: such blinks are taken for natural, symmetric and
half ones are not (Trutoiu, Carter, Matthews and Hodgins, "Modeling and animating eye blinks", ACM
Transactions on Applied Perception 8, 2011).
"""

from __future__ import annotations

import math

CLOSING_S, SHUT_S, OPENING_S = 0.16, 0.04, 0.28
"""At 25 fps four frames, one and seven."""
BLINK_S = CLOSING_S + SHUT_S + OPENING_S


def lid_at(since_s: float) -> float:
    """How far the lids are shut, 0..1, so long after a blink began."""
    if not 0.0 < since_s < BLINK_S:
        return 0.0
    if since_s < CLOSING_S:
        return 0.5 - 0.5 * math.cos(math.pi * since_s / CLOSING_S)
    into = max(0.0, since_s - CLOSING_S - SHUT_S) / OPENING_S
    x = math.pow(into, 0.8)  # the last of the way takes longest
    return 1.0 - x * x * (3.0 - 2.0 * x)
