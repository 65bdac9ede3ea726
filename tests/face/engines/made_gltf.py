"""The made head as other tools would write it: its description and numbers, to be changed."""

from __future__ import annotations

import json
import struct
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from tests.face.engines.made_head import made_glb

_KINDS = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4", 16: "MAT4"}
_TYPES = {"i1": 5120, "u1": 5121, "i2": 5122, "u2": 5123, "u4": 5125, "f4": 5126}
SKIN = 0
"""The first part, and its material."""


class Gltf:
    """A GLB, opened. Its skin has a picture, unfolded as it is seen from the front."""

    def __init__(self) -> None:
        glb = made_glb()
        length = struct.unpack_from("<I", glb, 12)[0]
        self.told: dict[str, Any] = json.loads(glb[20 : 20 + length])
        self.data = bytearray(glb[28 + length :])
        points = self.numbers(self.attributes()["POSITION"])
        flat = points[:, :2] * (1, -1) - (points[:, :2] * (1, -1)).min(axis=0)
        self.attributes()["TEXCOORD_0"] = self.add(flat / flat.max() * 0.9 + 0.05)
        self.material()["pbrMetallicRoughness"] = {"baseColorTexture": {"index": self.picture()}}

    def attributes(self, part: int = SKIN) -> dict[str, int]:
        found: dict[str, int] = self.told["meshes"][0]["primitives"][part]["attributes"]
        return found

    def material(self, part: int = SKIN) -> dict[str, Any]:
        found: dict[str, Any] = self.told["materials"][part]
        return found

    def surface(self, part: int = SKIN) -> dict[str, Any]:
        found: dict[str, Any] = self.material(part)["pbrMetallicRoughness"]
        return found

    def texture(self) -> dict[str, Any]:
        """How the skin's material names its picture."""
        found: dict[str, Any] = self.surface()["baseColorTexture"]
        return found

    def numbers(self, accessor: int) -> NDArray[np.float64]:
        """[count, components] of one without gaps."""
        about = self.told["accessors"][accessor]
        view = self.told["bufferViews"][about["bufferView"]]
        width = next(width for width, kind in _KINDS.items() if kind == about["type"])
        dtype = next(name for name, number in _TYPES.items() if number == about["componentType"])
        count = about["count"] * width
        flat = np.frombuffer(bytes(self.data), "<" + dtype, count, view["byteOffset"])
        return flat.reshape(-1, width).astype(np.float64)

    def view(self, content: bytes, **more: Any) -> int:
        self.data.extend(b"\0" * (-len(self.data) % 4))
        about = {"buffer": 0, "byteOffset": len(self.data), "byteLength": len(content)}
        self.told["bufferViews"].append(about | more)
        self.data.extend(content)
        return len(self.told["bufferViews"]) - 1

    def add(self, values: NDArray[Any], dtype: str = "f4", **more: Any) -> int:
        """An accessor of [count, components]; rows of whole numbers begin every four bytes."""
        count, width = values.shape
        rows = values.astype("<" + dtype)
        size = rows.itemsize * width
        stride = -(-size // 4) * 4
        padded = np.zeros((count, stride), np.uint8)
        padded[:, :size] = rows.view(np.uint8).reshape(count, size)
        apart = {} if stride == size else {"byteStride": stride}
        about = {
            "bufferView": self.view(padded.tobytes(), **apart),
            "componentType": _TYPES[dtype],
            "count": count,
            "type": _KINDS[width],
        }
        self.told["accessors"].append(about | more)
        return len(self.told["accessors"]) - 1

    def picture(self, content: bytes | None = None, sampler: dict[str, int] | None = None) -> int:
        """A texture; of four colours, where none is given."""
        image = self.view(painted() if content is None else content)
        self.told["images"].append({"bufferView": image, "mimeType": "image/png"})
        texture: dict[str, Any] = {"source": len(self.told["images"]) - 1}
        if sampler is not None:
            self.told.setdefault("samplers", []).append(sampler)
            texture["sampler"] = len(self.told["samplers"]) - 1
        self.told["textures"].append(texture)
        return len(self.told["textures"]) - 1

    def packed(self) -> bytes:
        self.told["buffers"][0]["byteLength"] = len(self.data)
        text = json.dumps(self.told).encode()
        text += b" " * (-len(text) % 4)
        data = bytes(self.data) + b"\0" * (-len(self.data) % 4)
        head = struct.pack("<III", 0x46546C67, 2, 28 + len(text) + len(data))
        about = struct.pack("<II", len(text), 0x4E4F534A) + text
        return head + about + struct.pack("<II", len(data), 0x004E4942) + data


def hold_out_arms(gltf: Gltf, clothes: int, down: float) -> None:
    """The clothes hang from the bones of two upper arms that point `down` below the horizon,
    radians; let down to 1.2, they are where they were.
    """
    attributes, sides = gltf.attributes(clothes), ((1, "mixamorig:LeftArm"), (-1, "Arm_R_UpperArm"))
    points = gltf.numbers(attributes["POSITION"])
    gltf.told["nodes"][0]["skin"], joints, inverse = 0, [], []
    for side, name in sides:
        shoulder, some = np.array((0.1 * side, -0.2, 0.0)), points[:, 0] * side > 0
        turn = side * (1.2 - down if down < 0.6 else 0.0)
        c, s = np.cos(turn), np.sin(turn)
        points[some] = (points[some] - shoulder) @ [[c, s, 0], [-s, c, 0], [0, 0, 1]] + shoulder
        first = len(gltf.told["nodes"])
        elbow = [0.2 * side * np.cos(down), -0.2 * np.sin(down), 0.0]
        gltf.told["nodes"] += [
            {"name": name, "translation": shoulder.tolist(), "children": [first + 1, first + 2]},
            {"name": "twist"},
            {"name": "elbow", "translation": elbow},
        ]
        gltf.told["scenes"][0]["nodes"].append(first)
        joints += [first, first + 1, first + 2]
        for at in (shoulder, shoulder, shoulder + elbow):
            bound = np.eye(4)
            bound[3, :3] = -at
            inverse.append(bound.ravel())
    bones = np.where(points[:, :1] > 0, (0, 2, 0, 0), (3, 5, 0, 0))
    attributes["POSITION"] = gltf.add(points)
    attributes["JOINTS_0"] = gltf.add(bones, "u1")
    attributes["WEIGHTS_0"] = gltf.add(np.tile((0.5, 0.5, 0.0, 0.0), (len(points), 1)))
    matrices = gltf.add(np.array(inverse))
    gltf.told["skins"] = [{"joints": joints, "inverseBindMatrices": matrices}]


def four_colours() -> NDArray[np.uint8]:
    """[64, 64, 3] BGR."""
    corners = np.array([[(40, 40, 200), (40, 200, 40)], [(200, 40, 40), (40, 200, 200)]], np.uint8)
    return np.asarray(cv2.resize(corners, (64, 64), interpolation=cv2.INTER_LINEAR), np.uint8)


def painted(suffix: str = ".png", pixels: NDArray[Any] | None = None) -> bytes:
    """A picture's file; of four colours, where no pixels are given."""
    options = [int(cv2.IMWRITE_WEBP_QUALITY), 101] if suffix == ".webp" else []
    return cv2.imencode(suffix, four_colours() if pixels is None else pixels, options)[1].tobytes()
