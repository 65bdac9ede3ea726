"""Writes a head as GLB: one mesh, a primitive for each part, the shapes as sparse morph targets.

The format is glTF 2.0 (Khronos, registry.khronos.org/glTF).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training.heads.geometry import Mesh, Points, vertex_normals

_STILL_METRES = 8e-5
"""Vertices that a shape moves less are left out of it."""
_FLOAT, _USHORT, _UINT = 5126, 5123, 5125
_ARRAY, _ELEMENTS = 34962, 34963
_TURNED = 0.06
"""Normals that a shape turns less are left out of it."""


@dataclass(frozen=True)
class Material:
    """How a part looks: pictures and the few numbers that glTF knows."""

    picture: bytes
    """JPEG or PNG."""
    normal_map: bytes | None = None
    roughness: float = 0.6
    alpha: str = "OPAQUE"
    """OPAQUE, MASK (cut off at a half) or BLEND."""
    two_sided: bool = False


@dataclass(frozen=True)
class Part:
    """One primitive."""

    name: str
    mesh: Mesh
    material: Material
    normals_move: bool = False
    """Whether shapes turn its normals as well: it costs space, so only where it shows."""


class _Writer:
    """Collects accessors, views and bytes."""

    def __init__(self) -> None:
        self.accessors: list[dict[str, Any]] = []
        self.views: list[dict[str, Any]] = []
        self.data = bytearray()

    def view(self, content: bytes, target: int | None = None) -> int:
        self.data.extend(b"\0" * (-len(self.data) % 4))
        view = {"buffer": 0, "byteOffset": len(self.data), "byteLength": len(content)}
        self.views.append(view | ({"target": target} if target else {}))
        self.data.extend(content)
        return len(self.views) - 1

    def accessor(self, **fields: Any) -> int:
        self.accessors.append(fields)
        return len(self.accessors) - 1

    def floats(self, values: NDArray[np.float64], bounds: bool = False) -> int:
        """values: [N, 2 or 3]."""
        packed = values.astype(np.float32)
        fields = {
            "bufferView": self.view(packed.tobytes(), _ARRAY),
            "componentType": _FLOAT,
            "count": len(packed),
            "type": f"VEC{packed.shape[1]}",
        }
        if bounds:
            fields |= {"min": packed.min(axis=0).tolist(), "max": packed.max(axis=0).tolist()}
        return self.accessor(**fields)

    def indices(self, values: NDArray[np.int64], count: int) -> int:
        small = count < 65535
        packed = values.astype(np.uint16 if small else np.uint32)
        return self.accessor(
            bufferView=self.view(packed.tobytes(), _ELEMENTS),
            componentType=_USHORT if small else _UINT,
            count=packed.size,
            type="SCALAR",
        )

    def sparse(self, values: Points, least: float) -> int:
        """Zeros but where a value is longer than `least`."""
        packed = values.astype(np.float32)
        fields: dict[str, Any] = {"componentType": _FLOAT, "count": len(packed), "type": "VEC3"}
        moved = np.flatnonzero(np.linalg.norm(packed, axis=1) > least)
        kept = np.zeros_like(packed)
        kept[moved] = packed[moved]
        fields |= {"min": kept.min(axis=0).tolist(), "max": kept.max(axis=0).tolist()}
        if len(moved):
            small = len(packed) < 65536
            index = moved.astype(np.uint16 if small else np.uint32)
            fields["sparse"] = {
                "count": len(moved),
                "indices": {
                    "bufferView": self.view(index.tobytes()),
                    "componentType": _USHORT if small else _UINT,
                },
                "values": {"bufferView": self.view(packed[moved].tobytes())},
            }
        return self.accessor(**fields)


def glb(parts: Sequence[Part], shapes: Sequence[str], extras: dict[str, Any]) -> bytes:
    """A binary glTF of one node, in metres, Y up, the face looking along +Z.

    shapes: the names of the morph targets, in order; every part gets all of them.
    """
    writer = _Writer()
    primitives: list[dict[str, Any]] = []
    materials: list[dict[str, Any]] = []
    images: list[dict[str, Any]] = []
    for part in parts:
        primitives.append(_primitive(writer, part, shapes, len(materials)))
        first = len(images)
        pictures = [part.material.picture, part.material.normal_map]
        images += [
            {"bufferView": writer.view(picture), "mimeType": _mime(picture)}
            for picture in pictures
            if picture is not None
        ]
        materials.append(_material(part, first))
    head = {
        "name": "head",
        "primitives": primitives,
        "weights": [0.0] * len(shapes),
        "extras": {"targetNames": list(shapes)},
    }
    document = {
        "asset": {"version": "2.0", "generator": "visavis training.heads", "extras": extras},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": [{"name": "head", "mesh": 0}],
        "meshes": [head],
        "materials": materials,
        "textures": [{"source": k, "sampler": 0} for k in range(len(images))],
        "samplers": [{"magFilter": 9729, "minFilter": 9987, "wrapS": 33071, "wrapT": 33071}],
        "images": images,
        "accessors": writer.accessors,
        "bufferViews": writer.views,
        "buffers": [{"byteLength": len(writer.data)}],
    }
    return _packed(document, writer.data)


def _packed(document: dict[str, Any], data: bytearray) -> bytes:
    text = json.dumps(document, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    data.extend(b"\0" * (-len(data) % 4))
    header = struct.pack("<III", 0x46546C67, 2, 28 + len(text) + len(data))
    return b"".join(
        [
            header,
            struct.pack("<II", len(text), 0x4E4F534A),
            text,
            struct.pack("<II", len(data), 0x004E4942),
            bytes(data),
        ]
    )


def _mime(picture: bytes) -> str:
    return "image/png" if picture[:4] == b"\x89PNG" else "image/jpeg"


def _material(part: Part, texture: int) -> dict[str, Any]:
    look = part.material
    surface: dict[str, Any] = {
        "baseColorTexture": {"index": texture},
        "metallicFactor": 0.0,
        "roughnessFactor": look.roughness,
    }
    out: dict[str, Any] = {"name": part.name, "pbrMetallicRoughness": surface}
    if look.normal_map is not None:
        out["normalTexture"] = {"index": texture + 1, "scale": 0.8}
    if look.alpha != "OPAQUE":
        out["alphaMode"] = look.alpha
    if look.alpha == "MASK":
        out["alphaCutoff"] = 0.42
    if look.two_sided:
        out["doubleSided"] = True
    return out


def _primitive(writer: _Writer, part: Part, shapes: Sequence[str], material: int) -> dict[str, Any]:
    mesh = part.mesh
    normals = mesh.normals if mesh.normals is not None else vertex_normals(mesh.points, mesh.faces)
    corners = mesh.corners()
    # A vertex of glTF has one texture coordinate: those on a seam are doubled.
    keys = np.c_[corners, np.round(mesh.uvs * 65536).astype(np.int64)]
    _, first, new = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    vertex, uvs = corners[first], mesh.uvs[first]
    attributes = {
        "POSITION": writer.floats(_turned(mesh.points[vertex]), bounds=True),
        "NORMAL": writer.floats(_turned(normals[vertex])),
        "TEXCOORD_0": writer.floats(np.stack([uvs[:, 0], 1 - uvs[:, 1]], axis=1)),
    }
    targets = []
    still = writer.sparse(np.zeros((len(vertex), 3)), 1)
    for name in shapes:
        delta = mesh.deltas.get(name)
        if delta is None:
            targets.append({"POSITION": still})
            continue
        target = {"POSITION": writer.sparse(_turned(delta[vertex]), _STILL_METRES)}
        if part.normals_move:
            after = vertex_normals(mesh.points + delta, mesh.faces)
            before = vertex_normals(mesh.points, mesh.faces)
            target["NORMAL"] = writer.sparse(_turned((after - before)[vertex]), _TURNED)
        targets.append(target)
    if part.normals_move:  # glTF wants the same attributes in every target
        for target in targets:
            target.setdefault("NORMAL", still)
    triangles = np.asarray(new).reshape(-1)[mesh.triangles()]
    return {
        "attributes": attributes,
        "indices": writer.indices(triangles, len(vertex)),
        "material": material,
        "mode": 4,
        "targets": targets,
        "extras": {"name": part.name},
    }


def _turned(places: Points) -> Points:
    """Z up to Y up."""
    return np.stack([places[:, 0], places[:, 2], -places[:, 1]], axis=1)
