"""The least that is a head: a face, two lids and a jaw, each a flat piece that shapes move."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.face.draw.blendshapes import ARKIT_NAMES

_FLOAT, _SHORT = 5126, 5123
_DOWN, _LID = 0.06, 0.01
_VRM_LICENCE = "https://vrm.dev/licenses/1.0/"
"""What a figure of VRM 1.0 has to name."""


def _piece(left: float, right: float, bottom: float, top: float, depth: float) -> list[list[float]]:
    return [[left, bottom, depth], [right, bottom, depth], [right, top, depth], [left, top, depth]]


_PIECES = {
    "face": _piece(-0.08, 0.08, -0.06, 0.12, 0.10),
    "left lid": _piece(0.02, 0.05, 0.00, 0.02, 0.11),
    "right lid": _piece(-0.05, -0.02, 0.00, 0.02, 0.11),
    "jaw": _piece(-0.06, 0.06, -0.10, -0.06, 0.105),
}
_MOVED = {
    "eyeBlinkLeft": ("left lid", -_LID),
    "eyeBlinkRight": ("right lid", -_LID),
    "jawOpen": ("jaw", -_DOWN),
}
"""What a shape moves, and how far up. The other shapes move nothing."""


_BONES = {
    "hips": ("", 0.9),
    "spine": ("hips", 0.2),
    "head": ("spine", 0.4),
    **{f"{side}UpperArm": ("spine", 0.3) for side in ("left", "right")},
    **{f"{side}LowerArm": (f"{side}UpperArm", 0.0) for side in ("left", "right")},
    **{f"{side}Hand": (f"{side}LowerArm", 0.0) for side in ("left", "right")},
    **{f"{side}UpperLeg": ("hips", 0.0) for side in ("left", "right")},
    **{f"{side}LowerLeg": (f"{side}UpperLeg", -0.4) for side in ("left", "right")},
    **{f"{side}Foot": (f"{side}LowerLeg", -0.4) for side in ("left", "right")},
}
"""Those that a figure must have: the bone that each hangs from, and how far above it."""
_EXPRESSIONS = {"aa": "jawOpen", "blinkLeft": "eyeBlinkLeft", "blinkRight": "eyeBlinkRight"}


def block_figure(speaks: bool = True) -> bytes:
    """A VRM 1.0 figure: the head on the bones that it must have, with three expressions; one of
    its mouth moves nothing, where it does not speak.
    """
    shapes = list(_EXPRESSIONS.values())
    names = list(_BONES)
    nodes: list[dict[str, Any]] = [
        {"name": name, "translation": [0, up, 0]} for name, (_, up) in _BONES.items()
    ]
    for index, (parent, _) in enumerate(_BONES.values()):
        if parent:
            nodes[names.index(parent)].setdefault("children", []).append(index)
    nodes[names.index("head")]["children"] = [len(nodes)]
    mesh = {"mesh": 0, "translation": [0, 0.1, 0]}
    bound = {
        name: {"morphTargetBinds": [{"node": len(nodes), "index": shapes.index(s), "weight": 1}]}
        for name, s in _EXPRESSIONS.items()
    }
    if not speaks:
        bound["aa"] = {}
    figure = {
        "specVersion": "1.0",
        "meta": {"name": "block", "authors": ["visavis"], "licenseUrl": _VRM_LICENCE},
        "humanoid": {"humanBones": {name: {"node": i} for i, name in enumerate(names)}},
        "expressions": {"preset": bound},
    }
    extra = {
        "nodes": [*nodes, mesh],
        "extensionsUsed": ["VRMC_vrm"],
        "extensions": {"VRMC_vrm": figure},
    }
    return block_head(shapes, extra)


def block_head(
    shapes: Sequence[str] = ARKIT_NAMES, more: Mapping[str, Any] = MappingProxyType({})
) -> bytes:
    """A GLB with these shapes as morph targets. more: of its JSON."""
    names = list(_PIECES)
    points = np.array(list(_PIECES.values()), np.float32).reshape(-1, 3)
    square = np.array([0, 1, 2, 0, 2, 3], np.uint16)
    indices = np.concatenate([square + 4 * k for k in range(len(names))]).astype(np.uint16)
    arrays: list[NDArray[np.generic]] = [indices, points]
    for shape in shapes:
        change = np.zeros_like(points)
        if shape in _MOVED:
            piece, up = _MOVED[shape]
            change[4 * names.index(piece) : 4 * names.index(piece) + 4, 1] = up
        arrays.append(change)
    return _glb(arrays, shapes, more)


def _glb(
    arrays: Sequence[NDArray[np.generic]], shapes: Sequence[str], more: Mapping[str, Any]
) -> bytes:
    """arrays: indices, positions, then for each shape how far it moves them."""
    views, accessors, content = [], [], b""
    for array in arrays:
        payload = array.tobytes()
        views.append({"buffer": 0, "byteOffset": len(content), "byteLength": len(payload)})
        flat = array.ndim == 1
        accessor = {
            "bufferView": len(views) - 1,
            "componentType": _SHORT if flat else _FLOAT,
            "count": len(array),
            "type": "SCALAR" if flat else "VEC3",
        }
        if not flat:
            accessor |= {"min": array.min(axis=0).tolist(), "max": array.max(axis=0).tolist()}
        accessors.append(accessor)
        content += payload + bytes(-len(payload) % 4)
    targets = [{"POSITION": 2 + k} for k in range(len(shapes))]
    primitive = {"attributes": {"POSITION": 1}, "indices": 0, "targets": targets}
    described = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [primitive], "extras": {"targetNames": list(shapes)}}],
        "buffers": [{"byteLength": len(content)}],
        "bufferViews": views,
        "accessors": accessors,
        **more,
    }
    told = json.dumps(described).encode()
    told += b" " * (-len(told) % 4)
    size = 12 + 8 + len(told) + 8 + len(content)
    header = struct.pack("<4sII", b"glTF", 2, size)
    return (
        header
        + struct.pack("<I4s", len(told), b"JSON")
        + told
        + struct.pack("<I4s", len(content), b"BIN\0")
        + content
    )
