"""A head bundle made of a few balls: everything that a real one has, and nothing of its looks."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.draw.blendshapes import ARKIT_NAMES

SKIN, BALL, LID = (200, 150, 120), (240, 240, 240), (120, 60, 40)
HAIR, CLOTH = (30, 20, 10), (0, 80, 0)
EYE_X, EYE_Z, EYE_RADIUS = 0.03, 0.085, 0.012
ABOUT = """
name = "made"
title = "Made of balls"
licence = "CC0-1.0"
[framing]
position = [0.0, 0.0, 1.5]
target = [0.0, 0.0, 0.0]
vertical_fov_deg = 20.0
[light]
baked = true
"""

Points = NDArray[np.float64]


def bundle_files(changes: Mapping[str, bytes] = MappingProxyType({})) -> dict[str, bytes]:
    """The files of the head, by name; changes: others in their place."""
    files = {
        "head.toml": ABOUT.encode(),
        "head.glb": made_glb(),
        "background.png": _png(_checks()),
        "portrait.png": _png(_checks()),
    }
    return {**files, **changes}


def zipped(files: Mapping[str, bytes], folder: str = "") -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(folder + name, content)
    return packed.getvalue()


def background(size: int) -> NDArray[np.uint8]:
    """[size, size, 3] RGB: what stands behind the head."""
    return np.asarray(cv2.resize(_checks(), (size, size), interpolation=cv2.INTER_AREA), np.uint8)


def made_glb(*, names: tuple[str, ...] = ARKIT_NAMES, eyes: str = "eyes", layers: int = 1) -> bytes:
    """names: of the morph targets; eyes: what the part of the eyes is called; layers: of cloth."""
    skull, faces = _ball(0.1)
    skull[:, 1] *= 1.2
    neck, neck_faces = _ball(0.04, (0.0, -0.14, -0.02))
    head = np.concatenate([skull, neck]), np.concatenate([faces, neck_faces + len(skull)])
    balls = [_ball(EYE_RADIUS, (side * EYE_X, 0.0, EYE_Z)) for side in (-1, 1)]
    both = [np.concatenate([balls[0][0], balls[1][0]])]
    both += [np.concatenate([balls[0][1], balls[1][1] + len(balls[0][0])])]
    lids = [_plate((side * EYE_X, 0.03, EYE_Z + 0.02), 0.034, 0.03) for side in (-1, 1)]
    cloth = _plate((0.0, -0.24, 0.0), 0.5, 0.1)
    cap, cap_faces = _ball(0.106, (0.0, 0.03, -0.01))
    builder = _Glb(names)
    # A little of everything else, at the tip of the nose.
    nose = np.where(head[0][:, 2:] > 0.098, (0.0, 0.001, 0.0), 0.0)
    shapes = dict.fromkeys(n for n in names if "Blink" not in n) | {"jawOpen": _lower(head[0])}
    moved = {name: nose if points is None else points for name, points in shapes.items()}
    builder.part("head", *head, SKIN, moved)
    builder.part(eyes, both[0], both[1], BALL, {})
    for lid, name in zip(lids, ("eyeBlinkRight", "eyeBlinkLeft"), strict=True):
        down = np.broadcast_to((0.0, -0.03, 0.0), lid[0].shape)
        builder.part("brows", *lid, LID, {name: down})
    builder.part("clothes", cloth[0], np.tile(cloth[1], (layers, 1)), CLOTH, {})
    builder.part("hair", cap, cap_faces[cap[cap_faces][:, :, 1].min(axis=1) > 0.05], HAIR, {}, True)
    return builder.done()


def _lower(points: Points) -> Points:
    moved = np.zeros_like(points)
    moved[(points[:, 1] < -0.05) & (points[:, 2] > 0.03)] = (0.0, -0.02, 0.0)
    return moved


def _ball(radius: float, at: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> tuple[Points, Any]:
    rows, columns = 16, 24
    down, round_ = np.linspace(0, np.pi, rows + 1), np.linspace(0, 2 * np.pi, columns + 1)[:-1]
    a, b = (grid.ravel() for grid in np.meshgrid(down, round_, indexing="ij"))
    points = np.stack([np.sin(a) * np.sin(b), np.cos(a), np.sin(a) * np.cos(b)], axis=1)
    faces = []
    for i in range(rows):
        for j in range(columns):
            one, two = i * columns + j, i * columns + (j + 1) % columns
            faces += [(one, one + columns, two), (two, one + columns, two + columns)]
    return radius * points + np.array(at), np.array(faces)


def _plate(at: tuple[float, float, float], width: float, height: float) -> tuple[Points, Any]:
    corners = np.array([(-1, -1, 0), (1, -1, 0), (1, 1, 0), (-1, 1, 0)]) / 2.0
    return corners * (width, height, 0) + np.array(at), np.array([(0, 1, 2), (0, 2, 3)])


class _Glb:
    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names
        self._data = bytearray()
        self._views: list[Any] = []
        self._accessors: list[Any] = []
        self._primitives: list[Any] = []
        self._materials: list[Any] = []
        self._images: list[Any] = []

    def part(
        self,
        name: str,
        points: Points,
        faces: Any,
        colour: tuple[int, int, int],
        moved: Mapping[str, Points],
        clear: bool = False,
    ) -> None:
        pixels = np.broadcast_to(np.array((*colour, 255), np.uint8), (8, 8, 4))
        picture = self._view(_png(pixels))
        self._images.append({"bufferView": picture, "mimeType": "image/png"})
        look = {"baseColorTexture": {"index": len(self._images) - 1}}
        mode = {"alphaMode": "BLEND"} if clear else {}
        self._materials.append({"name": name, "pbrMetallicRoughness": look, **mode})
        places = np.full((len(points), 2), 0.5)
        targets = []
        for shape in self._names:
            delta = moved.get(shape, np.zeros_like(points))
            rows = np.flatnonzero(np.abs(delta).max(axis=1))
            targets.append({"POSITION": self._sparse(len(points), rows, delta[rows])})
        self._primitives.append(
            {
                "attributes": {
                    "POSITION": self._floats(points, "VEC3"),
                    "TEXCOORD_0": self._floats(places, "VEC2"),
                },
                "indices": self._whole(faces.ravel()),
                "material": len(self._materials) - 1,
                "targets": targets,
            }
        )

    def done(self) -> bytes:
        mesh = {"primitives": self._primitives, "extras": {"targetNames": list(self._names)}}
        document = {
            "asset": {"version": "2.0"},
            "scenes": [{"nodes": [0]}],
            "nodes": [{"mesh": 0}],
            "meshes": [mesh],
            "materials": self._materials,
            "textures": [{"source": k} for k in range(len(self._images))],
            "images": self._images,
            "accessors": self._accessors,
            "bufferViews": self._views,
            "buffers": [{"byteLength": len(self._data)}],
        }
        text = json.dumps(document).encode()
        text += b" " * (-len(text) % 4)
        length = 28 + len(text) + len(self._data)
        head = struct.pack("<III", 0x46546C67, 2, length)
        about = struct.pack("<II", len(text), 0x4E4F534A) + text
        return head + about + struct.pack("<II", len(self._data), 0x004E4942) + bytes(self._data)

    def _view(self, content: bytes) -> int:
        self._data.extend(b"\0" * (-len(self._data) % 4))
        self._views.append({"buffer": 0, "byteOffset": len(self._data), "byteLength": len(content)})
        self._data.extend(content)
        self._data.extend(b"\0" * (-len(self._data) % 4))
        return len(self._views) - 1

    def _accessor(self, **fields: Any) -> int:
        self._accessors.append(fields)
        return len(self._accessors) - 1

    def _floats(self, values: Points, kind: str) -> int:
        view = self._view(values.astype("<f4").tobytes())
        return self._accessor(bufferView=view, componentType=5126, count=len(values), type=kind)

    def _whole(self, values: NDArray[np.int64]) -> int:
        view = self._view(values.astype("<u2").tobytes())
        return self._accessor(bufferView=view, componentType=5123, count=len(values), type="SCALAR")

    def _sparse(self, count: int, rows: NDArray[np.int64], values: Points) -> int:
        if not len(rows):
            return self._accessor(componentType=5126, count=count, type="VEC3")
        which = self._view(rows.astype("<u2").tobytes())
        sparse = {
            "count": len(rows),
            "indices": {"bufferView": which, "componentType": 5123},
            "values": {"bufferView": self._view(values.astype("<f4").tobytes())},
        }
        return self._accessor(componentType=5126, count=count, type="VEC3", sparse=sparse)


def _checks() -> NDArray[np.uint8]:
    """[512, 512, 3] RGB with detail that no drawing over it would leave as it is."""
    y, x = np.mgrid[0:512, 0:512]
    return np.stack([x // 2, y // 2, 128 + 64 * ((x // 8 + y // 8) % 2)], axis=-1).astype(np.uint8)


def _png(rgb: NDArray[np.uint8]) -> bytes:
    order = [2, 1, 0] if rgb.shape[2] == 3 else [2, 1, 0, 3]
    _, content = cv2.imencode(".png", np.ascontiguousarray(rgb[..., order]))
    return content.tobytes()
