"""A small reader of binary glTF 2.0: meshes, their named morph targets, and colours.

What a head needs and nothing else (Khronos, "glTF 2.0 Specification"): triangles with positions,
places in one texture and targets, also sparse; nodes that move them; no skins, animations or
extensions that change what is read. A file comes from strangers: whatever it says is checked.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.avatar.making.decoding import image_size
from visavis.serving.errors import InvalidInputError

MOST_VERTICES, MOST_TRIANGLES, LARGEST_TEXTURE = 80_000, 150_000, 2048
_FURTHEST = 16
_MAGIC, _JSON, _BINARY = 0x46546C67, 0x4E4F534A, 0x004E4942
_DTYPES = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
_COMPONENTS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4}
_TRIANGLES = 4
_UNLIT = "KHR_materials_unlit"
# What a file that lies about itself makes of reading it.
_DAMAGE = (
    ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, struct.error,
    RecursionError, MemoryError, cv2.error,
)  # fmt: skip


@dataclass(frozen=True)
class Target:
    """How far a shape moves some vertices, at a coefficient of 1."""

    vertices: NDArray[np.int32]
    """[K], each once."""
    deltas: NDArray[np.float32]
    """[K, 3] metres."""


@dataclass(frozen=True)
class Part:
    """One primitive: triangles that share a material."""

    names: tuple[str, ...]
    """Of its material, its mesh and its node."""
    positions: NDArray[np.float32]
    """[N, 3] metres, +Y up, +Z towards the viewer."""
    normals: NDArray[np.float32] | None
    """[N, 3] as the file has them, if it does."""
    places: NDArray[np.float32]
    """[N, 2] in its texture, 0..1 from the left and from the top; may go on beyond 1."""
    triangles: NDArray[np.int32]
    """[M, 3] counter-clockwise as seen from their front."""
    targets: Mapping[str, Target]
    texture: NDArray[np.uint8]
    """[h, w, 4] RGBA, sRGB."""
    blends: bool
    """Whether what is behind shows through where the texture is clear."""
    cut: float | None
    """Of one that is cut out along its texture: the alpha of its edge."""
    two_sided: bool
    unlit: bool
    """Whether its colours are those that are to be seen, with all light in them."""


def read_glb(content: bytes) -> list[Part]:
    """The parts of a file, in its order. Raises InvalidInputError, which says what is wrong."""
    try:
        return _File(content).parts()
    except _DAMAGE as error:
        raise InvalidInputError(f"the GLB is damaged: {error!r}") from error


class _File:
    def __init__(self, content: bytes) -> None:
        if len(content) < 20 or struct.unpack_from("<II", content) != (_MAGIC, 2):
            raise InvalidInputError("not a binary glTF 2.0 file (GLB)")
        length, kind = struct.unpack_from("<II", content, 12)
        if kind != _JSON:
            raise InvalidInputError("the GLB is damaged: it does not begin with its description")
        self._json: dict[str, Any] = json.loads(content[20 : 20 + length])
        self._binary = b""
        at = 20 + length
        if at + 8 <= len(content):
            size, kind = struct.unpack_from("<II", content, at)
            if kind == _BINARY:
                self._binary = content[at + 8 : at + 8 + size]
        if needed := self._json.get("extensionsRequired"):
            allowed = [name for name in needed if name != _UNLIT]
            if allowed:
                raise InvalidInputError(
                    f"the GLB needs the extensions {allowed}, which are not read: "
                    "save it without compression"
                )
        self._textures: dict[int, NDArray[np.uint8]] = {}

    def parts(self) -> list[Part]:
        scene = self._json["scenes"][self._json.get("scene", 0)]
        parts: list[Part] = []
        for node in scene["nodes"]:
            self._visit(node, np.eye(4), parts, 0)
        if not parts:
            raise InvalidInputError("the GLB shows nothing: its scene has no mesh")
        vertices = sum(len(part.positions) for part in parts)
        triangles = sum(len(part.triangles) for part in parts)
        if vertices > MOST_VERTICES or triangles > MOST_TRIANGLES:
            raise InvalidInputError(
                f"the GLB has {vertices} vertices and {triangles} triangles: "
                f"{MOST_VERTICES} and {MOST_TRIANGLES} are allowed"
            )
        return parts

    def _visit(self, index: int, above: NDArray[np.float64], out: list[Part], depth: int) -> None:
        if depth > 16 or len(out) > 64:
            raise InvalidInputError("the GLB has too many nodes")
        node = self._json["nodes"][index]
        place = above @ _matrix(node)
        if "mesh" in node:
            mesh = self._json["meshes"][node["mesh"]]
            for primitive in mesh["primitives"]:
                part = self._part(node, mesh, primitive, place)
                if len(part.triangles):
                    out.append(part)
        for child in node.get("children", ()):
            self._visit(child, place, out, depth + 1)

    def _part(
        self,
        node: dict[str, Any],
        mesh: dict[str, Any],
        primitive: dict[str, Any],
        place: NDArray[np.float64],
    ) -> Part:
        if primitive.get("mode", _TRIANGLES) != _TRIANGLES:
            raise InvalidInputError("the GLB has lines or strips: only triangles are drawn")
        material: dict[str, Any] = {}
        if "material" in primitive:
            material = self._json["materials"][primitive["material"]]
        attributes = primitive["attributes"]
        positions = self._floats(attributes["POSITION"], 3)
        count = len(positions)
        places = np.zeros((count, 2), np.float32)
        if "TEXCOORD_0" in attributes:
            places = self._floats(attributes["TEXCOORD_0"], 2)
        normals, mode = None, material.get("alphaMode", "OPAQUE")
        if "NORMAL" in attributes:
            normals = self._floats(attributes["NORMAL"], 3) @ place[:3, :3].T.astype(np.float32)
            _check_near(normals)
        named = [material.get("name", ""), mesh.get("name", ""), node.get("name", "")]
        found = Part(
            names=tuple(str(name) for name in named),
            positions=_moved(positions, place),
            normals=normals,
            places=places,
            triangles=self._triangles(primitive, count),
            targets=self._targets(mesh, primitive, place, count),
            texture=self._texture(material),
            blends=mode != "OPAQUE",
            cut=float(material.get("alphaCutoff", 0.5)) if mode == "MASK" else None,
            two_sided=bool(material.get("doubleSided", False)),
            unlit=_UNLIT in material.get("extensions", {}),
        )
        if len(places) != count or (normals is not None and len(normals) != count):
            raise InvalidInputError("the GLB is damaged: lists of several lengths for one part")
        _check_near(found.positions)
        _check_near(places)
        return found

    def _triangles(self, primitive: dict[str, Any], count: int) -> NDArray[np.int32]:
        if "indices" in primitive:
            indices = self._accessor(primitive["indices"])[:, 0].astype(np.int64)
        else:
            indices = np.arange(count)
        if len(indices) % 3 or (len(indices) and not 0 <= indices.min() <= indices.max() < count):
            raise InvalidInputError("the GLB is damaged: triangles of vertices that are not there")
        return np.ascontiguousarray(indices.reshape(-1, 3), np.int32)

    def _targets(
        self,
        mesh: dict[str, Any],
        primitive: dict[str, Any],
        place: NDArray[np.float64],
        count: int,
    ) -> dict[str, Target]:
        named: Sequence[str] = mesh.get("extras", {}).get("targetNames", ())
        targets = primitive.get("targets", ())
        if len(named) < len(targets):
            raise InvalidInputError("the GLB does not name its morph targets (extras.targetNames)")
        found = {}
        for name, target in zip(named, targets, strict=False):
            if "POSITION" not in target:
                continue
            deltas = self._floats(target["POSITION"], 3) @ place[:3, :3].T.astype(np.float32)
            if len(deltas) != count:
                raise InvalidInputError(f"the GLB is damaged: so is its shape {name!r}")
            _check_near(deltas)
            moved = np.flatnonzero(np.abs(deltas).max(axis=1, initial=0) > 1e-7)
            if len(moved):
                found[str(name)] = Target(moved.astype(np.int32), deltas[moved])
        return found

    def _floats(self, index: int, components: int) -> NDArray[np.float32]:
        """[count, components] of an accessor, integers as the fractions that they stand for."""
        found = self._accessor(index)
        if found.shape[1] != components:
            raise InvalidInputError("the GLB is damaged: an accessor of another type")
        if found.dtype.kind != "f":
            found = found / np.iinfo(found.dtype).max
        return np.ascontiguousarray(found, np.float32)

    def _accessor(self, index: int) -> NDArray[Any]:
        about = self._json["accessors"][index]
        count, width = int(about["count"]), _COMPONENTS[about["type"]]
        if not 0 <= count <= 3 * MOST_TRIANGLES:
            raise InvalidInputError(f"the GLB is damaged or too large: {count} entries in a list")
        dtype = np.dtype(_DTYPES[about["componentType"]])
        if "bufferView" in about:
            found = self._read(about["bufferView"], about.get("byteOffset", 0), dtype, count, width)
        else:
            found = np.zeros((count, width), dtype)
        if sparse := about.get("sparse"):
            some, where, what = int(sparse["count"]), sparse["indices"], sparse["values"]
            kind = np.dtype(_DTYPES[where["componentType"]])
            rows = self._read(where["bufferView"], where.get("byteOffset", 0), kind, some, 1)[:, 0]
            if some and int(rows.max()) >= count:
                raise InvalidInputError("the GLB is damaged: a sparse list goes beyond its end")
            values = self._read(what["bufferView"], what.get("byteOffset", 0), dtype, some, width)
            found = found.copy()
            found[rows] = values
        return found

    def _read(
        self, view: int, offset: int, dtype: np.dtype[Any], count: int, width: int
    ) -> NDArray[Any]:
        about = self._json["bufferViews"][view]
        if about.get("buffer", 0) != 0:
            raise InvalidInputError("the GLB is damaged: it refers to another file")
        row = dtype.itemsize * width
        stride = int(about.get("byteStride", row))
        first = int(about.get("byteOffset", 0)) + int(offset)
        end = first + stride * (count - 1) + row if count else first
        if first < 0 or stride < row or end > len(self._binary):
            raise InvalidInputError("the GLB is cut off")
        return np.ndarray((count, width), dtype, self._binary, first, (stride, dtype.itemsize))

    def _texture(self, material: dict[str, Any]) -> NDArray[np.uint8]:
        """Its base colour: a picture times a factor."""
        about = material.get("pbrMetallicRoughness", {})
        factor = np.asarray(about.get("baseColorFactor", (1.0, 1.0, 1.0, 1.0)), np.float64)
        if factor.shape != (4,) or not np.isfinite(factor).all():
            raise InvalidInputError("the GLB is damaged: a colour that is none")
        level = np.clip(factor, 0, 1)
        # The factor is linear light; the picture is as the screen shows it.
        level[:3] **= 1 / 2.2
        if "baseColorTexture" not in about:
            plain = np.rint(255 * level).astype(np.uint8)
            return np.ascontiguousarray(np.broadcast_to(plain, (4, 4, 4)))
        picture = self._picture(self._json["textures"][about["baseColorTexture"]["index"]])
        if (level == 1).all():
            return picture
        return np.rint(picture * level).astype(np.uint8)

    def _picture(self, texture: dict[str, Any]) -> NDArray[np.uint8]:
        source = int(texture["source"])
        if source not in self._textures:
            view = self._json["bufferViews"][self._json["images"][source]["bufferView"]]
            first = int(view.get("byteOffset", 0))
            packed = self._binary[first : first + int(view["byteLength"])]
            size = image_size(packed)
            if size is None or max(size) > LARGEST_TEXTURE:
                most = f"{LARGEST_TEXTURE} x {LARGEST_TEXTURE}"
                raise InvalidInputError(f"a texture of the GLB is no picture of at most {most}")
            pixels = cv2.imdecode(np.frombuffer(packed, np.uint8), cv2.IMREAD_UNCHANGED)
            if pixels is None or pixels.dtype != np.uint8:
                raise InvalidInputError("a texture of the GLB cannot be decoded")
            self._textures[source] = _rgba(pixels)
        return self._textures[source]


def _check_near(values: NDArray[np.float32]) -> None:
    """What draws is compiled, and counts on numbers that it can count with."""
    if not (np.isfinite(values).all() and np.abs(values).max(initial=0) <= _FURTHEST):
        raise InvalidInputError(
            f"the GLB has points further than {_FURTHEST} m from its middle, or nowhere: "
            "its unit is to be the metre"
        )


def _rgba(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    how = {1: cv2.COLOR_GRAY2RGBA, 3: cv2.COLOR_BGR2RGBA, 4: cv2.COLOR_BGRA2RGBA}[channels]
    return np.ascontiguousarray(cv2.cvtColor(pixels, how), np.uint8)


def _moved(positions: NDArray[np.float32], place: NDArray[np.float64]) -> NDArray[np.float32]:
    return np.ascontiguousarray(positions @ place[:3, :3].T + place[:3, 3], np.float32)


def _matrix(node: dict[str, Any]) -> NDArray[np.float64]:
    """[4, 4] from the node to the one above it."""
    if "matrix" in node:
        return np.asarray(node["matrix"], np.float64).reshape(4, 4).T
    x, y, z, w = node.get("rotation", (0.0, 0.0, 0.0, 1.0))
    turn = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )
    found = np.eye(4)
    found[:3, :3] = turn * np.asarray(node.get("scale", (1.0, 1.0, 1.0)), np.float64)
    found[:3, 3] = node.get("translation", (0.0, 0.0, 0.0))
    return found
