"""Where nodes, bones and skins put the points of a mesh: the file as it stands, but for arms that
are held out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from services.face.engines.head.gltf.file import GltfFile
from visavis.serving.errors import InvalidInputError

_TURNED = np.diag([-1.0, 1.0, -1.0, 1.0])
"""Figures of VRM 0.x look along -Z."""
_UPPER_ARM = re.compile(r"((left|right)(upper)?arm|[lr]upperarm|upperarm(01)?[lr])$")
"""What makers of avatars call these bones, without what stands between the words."""
_HANGING, _HELD_OUT = 1.2, 0.6
"""Radians below the horizon: of an arm that hangs, and of one that is let down to there."""


@dataclass(frozen=True)
class Placing:
    """From the numbers of a mesh to metres: one way for all of its points, or one for each."""

    matrix: NDArray[np.float64]
    """[4, 4] or [N, 4, 4]."""

    @property
    def mirrors(self) -> bool:
        """Whether what goes counter-clockwise goes clockwise then."""
        return bool(np.median(np.linalg.det(self.matrix[..., :3, :3])) < 0)

    def points(self, points: NDArray[np.float32]) -> NDArray[np.float32]:
        """[N, 3] metres."""
        moved = _each(self.matrix[..., :3, :3], points) + self.matrix[..., :3, 3]
        return np.ascontiguousarray(moved, np.float32)

    def ways(self, ways: NDArray[np.float32]) -> NDArray[np.float32]:
        """[N, 3] metres of how far points [N, 3] are moved."""
        return np.ascontiguousarray(_each(self.matrix[..., :3, :3], ways), np.float32)

    def normals(self, normals: NDArray[np.float32]) -> NDArray[np.float32]:
        """[N, 3] unit vectors: they stand upright on a surface that is stretched as well."""
        x, y, z = np.moveaxis(self.matrix[..., :3, :3], -1, 0)
        upright = np.stack([np.cross(y, z), np.cross(z, x), np.cross(x, y)], axis=-1)
        turned = (
            _each(upright, normals) * np.sign(np.linalg.det(self.matrix[..., :3, :3]))[..., None]
        )
        length = np.linalg.norm(turned, axis=1, keepdims=True)
        return np.ascontiguousarray(turned / np.maximum(length, 1e-12), np.float32)


class Nodes:
    """The nodes of a file, as a tree."""

    def __init__(self, file: GltfFile) -> None:
        self._file = file
        self._nodes: list[dict[str, Any]] = file.told.get("nodes", [])
        known = set(range(len(self._nodes)))
        children = [child for node in self._nodes for child in node.get("children", ())]
        if len(set(children)) < len(children) or not known.issuperset(children):
            raise InvalidInputError("the GLB is damaged: its nodes are no tree")
        first = _TURNED if "VRM" in file.told.get("extensions", {}) else np.eye(4)
        self._placed: dict[int, NDArray[np.float64]] = {}
        for root in known.difference(children):
            self._place(root, first @ _matrix(self._nodes[root]))
        if len(self._placed) < len(known):
            raise InvalidInputError("the GLB is damaged: its nodes go round in a circle")
        self._let_arms_down()

    def _place(self, root: int, at: NDArray[np.float64]) -> None:
        """It, and all below it as they stand to it."""
        to_place = [(root, at)]
        while to_place:
            index, at = to_place.pop()
            self._placed[index] = at
            below = self._nodes[index].get("children", ())
            to_place += [(child, at @ _matrix(self._nodes[child])) for child in below]

    def _let_arms_down(self) -> None:
        """Figures hold their arms out to be dressed; nobody speaks so."""
        joints = {joint for skin in self._file.told.get("skins", ()) for joint in skin["joints"]}
        for arm in joints:
            below = joints.intersection(self._nodes[arm].get("children", ()))
            if not below or not _UPPER_ARM.search(self._called(arm)):
                continue
            shoulder = self._placed[arm][:3, 3]
            ways = [self._placed[child][:3, 3] - shoulder for child in below]
            out, up, _ = max(ways, key=lambda way: float(way @ way))
            down = math.atan2(-up, abs(out))
            if down < _HELD_OUT:
                turn = np.eye(4)
                turn[:3, :3] = _rolled(math.copysign(_HANGING - down, -out))
                turn[:3, 3] = shoulder - turn[:3, :3] @ shoulder
                self._place(arm, turn @ self._placed[arm])

    def _called(self, index: int) -> str:
        name = str(self._nodes[index].get("name", "")).lower()
        return re.sub(r"[\s_.:-]+", "", name)

    def shown(self) -> Iterator[tuple[dict[str, Any], int]]:
        """Each node with a mesh that the scene shows, and its index; those above first."""
        scenes = self._file.told.get("scenes", ())
        if not scenes:
            return
        to_visit = list(reversed(scenes[self._file.told.get("scene", 0)].get("nodes", ())))
        while to_visit:
            index = to_visit.pop()
            node = self._nodes[index]
            if not node.get("extensions", {}).get("KHR_node_visibility", {}).get("visible", True):
                continue
            if "mesh" in node:
                yield node, index
            to_visit += reversed(node.get("children", ()))

    def placing(self, index: int, attributes: dict[str, int], count: int) -> Placing:
        """Of a primitive of the node's mesh, with so many points. A skin's bones alone say where
        it is: its own node does not.
        """
        skin = self._nodes[index].get("skin")
        if skin is None or "JOINTS_0" not in attributes:
            return Placing(self._placed[index])
        return Placing(self._bones(self._file.told["skins"][skin], attributes, count))

    def _bones(
        self, skin: dict[str, Any], attributes: dict[str, int], count: int
    ) -> NDArray[np.float64]:
        """[count, 4, 4] the mean of the bones of each point."""
        bones = np.array([self._placed[joint] for joint in skin["joints"]])
        if "inverseBindMatrices" in skin:
            bound = self._file.floats(skin["inverseBindMatrices"], 16)
            bones = bones @ bound[: len(bones)].reshape(-1, 4, 4).swapaxes(1, 2)
        mean, whole = np.zeros((count, 4, 4)), np.zeros(count)
        for k in range(sum(name.startswith("JOINTS_") for name in attributes)):
            joints = self._file.whole(attributes[f"JOINTS_{k}"], 4)
            shares = self._file.floats(attributes[f"WEIGHTS_{k}"], 4)
            for bone, share in zip(joints.T, shares.T, strict=True):
                mean += share[:, None, None] * bones[bone]
                whole += share
        if (whole <= 0).any():
            raise InvalidInputError("the GLB is damaged: a point of a skin that no bone holds")
        return mean / whole[:, None, None]


def _each(matrix: NDArray[np.float64], vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    if matrix.ndim == 2:
        return np.asarray(vectors @ matrix.T)
    return np.asarray(np.einsum("nij,nj->ni", matrix, vectors))


def _rolled(angle: float) -> NDArray[np.float64]:
    """[3, 3] counter-clockwise, as seen from the front."""
    c, s = math.cos(angle), math.sin(angle)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


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
