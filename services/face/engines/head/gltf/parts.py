"""The parts of a head: triangles that share a material, and the shapes that move them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.draw.blendshapes import ARKIT_NAMES
from services.face.engines.head.gltf.file import (
    DAMAGE,
    DRACO,
    MOST_OF_A_NAME,
    MOST_TRIANGLES,
    MOST_VERTICES,
    GltfFile,
    compressed,
)
from services.face.engines.head.gltf.look import Look, Looks
from services.face.engines.head.gltf.placing import Nodes, Placing
from visavis.serving.errors import InvalidInputError

MOST_TILES = 4
"""How often a triangle may show its texture, each way."""
_MOST_PARTS = 64
_FURTHEST = 16
_TRIANGLES = 4
_MOST_OF_A_FAULT = 200
"""Letters of what reading it failed at, that are told."""
_MOST_BEFORE = 10_000
"""Textures to either side of which one may be shown, and places still be told from each other."""
EDGE = 1e-4
"""Of a texture: what goes beyond it by less does not."""
_INSTANCES = "EXT_mesh_gpu_instancing"


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
    """Whether its colours are those that are to be seen, in any light."""
    clamped: tuple[bool, bool] = (False, False)
    """Whether the edge of its texture goes on beyond it, along and down; else it begins anew."""
    colours: NDArray[np.float32] | None = None
    """[N, 3] 0..1 linear light that its texture is multiplied by; None: it is not."""


@dataclass(frozen=True)
class Parts:
    """What is drawn of a file, in its order, and what is not."""

    parts: Sequence[Part]
    left_out: Sequence[str]
    """Each as a whole sentence."""


def read_glb(content: bytes) -> Parts:
    """Raises InvalidInputError, which says what is wrong and what to do."""
    try:
        return _Reader(GltfFile(content)).read()
    except DAMAGE as error:
        # Some tell all of what they could not read.
        raise InvalidInputError(f"the GLB is damaged: {repr(error)[:_MOST_OF_A_FAULT]}") from error


class _Reader:
    def __init__(self, file: GltfFile) -> None:
        self._file, self._nodes, self._looks = file, Nodes(file), Looks(file)
        self._left_out: dict[str, None] = {}

    def read(self) -> Parts:
        parts: list[Part] = []
        for node, index in self._nodes.shown():
            if _INSTANCES in node.get("extensions", {}):
                name = str(node.get("name", ""))[:MOST_OF_A_NAME]
                self._leave_out(f"node {name!r}: {_INSTANCES} is not drawn")
            mesh = self._file.told["meshes"][node["mesh"]]
            for primitive in mesh["primitives"]:
                part = self._part(node, index, mesh, primitive)
                if len(part.triangles):
                    parts.append(part)
                if len(parts) > _MOST_PARTS:
                    raise InvalidInputError(
                        f"the GLB has more than {_MOST_PARTS} parts: join those of one material"
                    )
        if not parts:
            raise InvalidInputError("the GLB shows nothing: its scene has no mesh")
        vertices = sum(len(part.positions) for part in parts)
        triangles = sum(len(part.triangles) for part in parts)
        if vertices > MOST_VERTICES or triangles > MOST_TRIANGLES:
            raise InvalidInputError(
                f"the GLB has {vertices} vertices and {triangles} triangles: "
                f"{MOST_VERTICES} and {MOST_TRIANGLES} are allowed, so simplify it"
            )
        return Parts(parts, tuple(self._left_out))

    def _leave_out(self, *what: str) -> None:
        self._left_out.update(dict.fromkeys(what))

    def _part(
        self, node: dict[str, Any], index: int, mesh: dict[str, Any], primitive: dict[str, Any]
    ) -> Part:
        if primitive.get("mode", _TRIANGLES) != _TRIANGLES:
            raise InvalidInputError(
                "the GLB has points, lines or strips: only triangles are drawn, so save it with "
                "these alone"
            )
        attributes = primitive["attributes"]
        at = attributes["POSITION"]
        if DRACO in primitive.get("extensions", {}) and not self._file.has_data(at):
            raise compressed(DRACO)
        positions = self._file.floats(at, 3)
        count = len(positions)
        placing = self._nodes.placing(index, attributes, count)
        look = self._looks.look(primitive.get("material"), self._colours(attributes, count))
        self._leave_out(*look.left_out)
        rest, targets = self._shapes(node, mesh, primitive, positions, placing)
        named = [look.name, mesh.get("name", ""), node.get("name", "")]
        found = Part(
            names=tuple(str(name) for name in named),
            positions=rest,
            normals=self._normals(attributes, count, placing),
            places=self._places(attributes, count, look),
            triangles=self._triangles(primitive, count, placing.mirrors),
            targets=targets,
            texture=look.texture,
            blends=look.blends,
            cut=look.cut,
            two_sided=look.two_sided,
            unlit=look.unlit,
            clamped=look.clamped,
            colours=look.colours,
        )
        _check_near(found.positions)
        found = _within_tiles(found)
        if found.blends and not _shows_through(found):
            return replace(found, blends=False, cut=None)
        return found

    def _listed(self, index: int, components: int, count: int) -> NDArray[np.float32]:
        found = self._file.floats(index, components)
        if len(found) != count:
            raise InvalidInputError("the GLB is damaged: lists of several lengths for one part")
        return found

    def _colours(self, attributes: dict[str, int], count: int) -> NDArray[np.float32] | None:
        """[N, 4] linear RGBA, 0..1."""
        if "COLOR_0" not in attributes:
            return None
        index = attributes["COLOR_0"]
        components = 3 if self._file.told["accessors"][index]["type"] == "VEC3" else 4
        found = self._listed(index, components, count)
        _check_near(found)
        opaque = np.ones((count, 4 - components), np.float32)
        return np.hstack([found.clip(0, 1), opaque])

    def _normals(
        self, attributes: dict[str, int], count: int, placing: Placing
    ) -> NDArray[np.float32] | None:
        if "NORMAL" not in attributes:
            return None
        found = placing.normals(self._listed(attributes["NORMAL"], 3, count))
        _check_near(found)
        return found

    def _places(self, attributes: dict[str, int], count: int, look: Look) -> NDArray[np.float32]:
        if look.coordinates is None:
            return np.zeros((count, 2), np.float32)
        name = f"TEXCOORD_{look.coordinates}"
        if name not in attributes:
            raise InvalidInputError(
                f"material {look.name!r}: its texture lies by {name}, which its mesh lacks: "
                "unfold the mesh, or take the texture away"
            )
        found = self._listed(attributes[name], 2, count)
        return np.ascontiguousarray(found @ look.moved[:, :2].T + look.moved[:, 2], np.float32)

    def _triangles(
        self, primitive: dict[str, Any], count: int, mirrored: bool
    ) -> NDArray[np.int32]:
        if "indices" in primitive:
            indices = self._file.whole(primitive["indices"], 1)[:, 0]
        else:
            indices = np.arange(count)
        if len(indices) % 3 or (len(indices) and not indices.max() < count):
            raise InvalidInputError("the GLB is damaged: triangles of vertices that are not there")
        corners = indices.reshape(-1, 3)
        return np.ascontiguousarray(corners[:, ::-1] if mirrored else corners, np.int32)

    def _shapes(
        self,
        node: dict[str, Any],
        mesh: dict[str, Any],
        primitive: dict[str, Any],
        positions: NDArray[np.float32],
        placing: Placing,
    ) -> tuple[NDArray[np.float32], dict[str, Target]]:
        """The points at rest, [N, 3] metres, and what moves them."""
        extras = (mesh.get("extras") or {}) | (primitive.get("extras") or {})
        named: Sequence[str] = extras.get("targetNames", ())
        targets = primitive.get("targets", ())
        if len(named) < len(targets):
            raise InvalidInputError(
                "the GLB does not name its morph targets (extras.targetNames of their mesh)"
            )
        weights = node.get("weights", mesh.get("weights", ()))
        found = {}
        for k, target in enumerate(targets):
            if "POSITION" not in target:
                continue
            name, ways = _shape(named[k]), self._listed(target["POSITION"], 3, len(positions))
            if name not in ARKIT_NAMES:
                # How somebody is built. The others are ours to move, from the face at rest on.
                weight = float(weights[k]) if k < len(weights) else 0.0
                positions = positions + np.float32(weight) * ways
                continue
            deltas = placing.ways(ways)
            _check_near(deltas)
            moved = np.flatnonzero(np.abs(deltas).max(axis=1, initial=0) > 1e-7)
            if len(moved):
                found[name] = Target(moved.astype(np.int32), deltas[moved])
        return placing.points(positions), found


def _shape(name: object) -> str:
    """Of a morph target; some write Left as _L."""
    told = str(name)
    for short, side in (("_L", "Left"), ("_R", "Right")):
        if told.endswith(short):
            return told.removesuffix(short) + side
    return told


def _within_tiles(part: Part) -> Part:
    """The part, each triangle of which begins in the first of the textures that lie side by side:
    vertices are doubled where that parts them.
    """
    corners = part.places[part.triangles]
    repeats = ~np.array(part.clamped)
    low = np.where(repeats, np.floor(corners.min(axis=1) + EDGE), 0)
    if (
        not (np.abs(low) < _MOST_BEFORE).all()
        or not (
            np.abs(corners - low[:, None]) <= np.where(repeats, MOST_TILES + EDGE, _FURTHEST)
        ).all()
    ):
        raise InvalidInputError(
            f"material {part.names[0]!r}: a triangle shows its texture more than {MOST_TILES} "
            "times: cut it into smaller ones"
        )
    if not len(low) or (low == low[0]).all():
        return part
    parted = np.column_stack([part.triangles.ravel(), np.repeat(low, 3, axis=0)])
    kept, corner_of = np.unique(parted, axis=0, return_inverse=True)
    which = kept[:, 0].astype(np.int64)
    return replace(
        part,
        positions=part.positions[which],
        normals=None if part.normals is None else part.normals[which],
        places=(part.places[which] - kept[:, 1:]).astype(np.float32),
        triangles=corner_of.reshape(-1, 3).astype(np.int32),
        targets={
            name: _of_vertices(it, which, len(part.positions)) for name, it in part.targets.items()
        },
        colours=None if part.colours is None else part.colours[which],
    )


def _shows_through(part: Part) -> bool:
    """Whether anything does where its triangles lie: many textures are clear beside them alone."""
    clear = part.texture[..., 3] < 255 * (1 if part.cut is None else part.cut)
    if not clear.any():
        return False
    size = np.array(part.texture.shape[1::-1])
    corners = part.places[part.triangles] * size
    if corners.min(initial=0) < 0 or (corners > size).any():
        return True
    column, row = np.minimum(corners.mean(axis=1).astype(int), size - 1).T
    if clear[row, column].any():
        return True
    seen = np.zeros(clear.shape, np.uint8)
    for triangle in np.rint(corners - 0.5).astype(np.int32):
        cv2.fillConvexPoly(seen, triangle, 1)
    return bool((clear & (seen > 0)).any())


def _of_vertices(target: Target, which: NDArray[np.int64], count: int) -> Target:
    """What it moves of the vertices `which`, out of `count`, by their numbers there."""
    entry = np.full(count, -1)
    entry[target.vertices] = np.arange(len(target.vertices))
    moved = np.flatnonzero(entry[which] >= 0)
    return Target(moved.astype(np.int32), target.deltas[entry[which[moved]]])


def _check_near(values: NDArray[np.float32]) -> None:
    """What draws is compiled, and counts on numbers that it can count with."""
    if not (np.isfinite(values).all() and np.abs(values).max(initial=0) <= _FURTHEST):
        raise InvalidInputError(
            f"the GLB has points further than {_FURTHEST} m from its middle, or nowhere: "
            "its unit is to be the metre"
        )
