"""What crops and coefficients are, for those who make them and those who learn from them."""

from __future__ import annotations

SIDE = 160
"""Pixels of a crop, each way."""
REACH = 0.2
"""How far a pixel may come from, in crops."""
EDGE = 0.1
"""Nothing is changed at the border of a crop, and all may be so far within, in crops."""

SHOWN, POSES = 8, 32
"""Pictures of a person, of which the first so many are as one is photographed."""

_PAIRS = (
    "mouthDimple", "mouthFrown", "mouthLowerDown", "mouthPress", "mouthSmile", "mouthStretch",
    "mouthUpperUp", "cheekSquint", "noseSneer",
)  # fmt: skip
COEFFICIENTS = (
    "jawOpen", "mouthClose", "mouthFunnel", "mouthPucker", "mouthRollLower", "mouthRollUpper",
    "mouthShrugLower", "mouthShrugUpper", "tongueOut",
    *(name + side for name in _PAIRS for side in ("Left", "Right")),
)  # fmt: skip
"""What it is told, of ARKit's shapes: all that the mouth is ever moved by."""
MIRRORED = tuple(
    COEFFICIENTS.index(
        name.replace("Left", "#").replace("Right", "Left").replace("#", "Right")
        if name.endswith(("Left", "Right"))
        else name
    )
    for name in COEFFICIENTS
)
"""Which coefficient is which in a mirror."""
