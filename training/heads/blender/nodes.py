"""Objects and shader trees of Blender, written shortly. (Imports bpy: GPL-3.0, see the folder.)"""

from __future__ import annotations

from typing import Any

import bpy
import numpy as np
from numpy.typing import ArrayLike

from training.heads.geometry import Faces, Points


def mesh_object(name: str, points: Points, faces: Faces, uvs: Points | None = None) -> Any:
    """An object of the scene. uvs: [corners, 2]."""
    mesh = bpy.data.meshes.new(name)
    mesh.from_pydata([tuple(p) for p in points], [], [tuple(face) for face in faces])
    if uvs is not None:
        flat = np.asarray(uvs, np.float32).ravel()
        mesh.uv_layers.new(name="UVMap").data.foreach_set("uv", flat)
    mesh.polygons.foreach_set("use_smooth", np.ones(len(mesh.polygons), bool))
    found = bpy.data.objects.new(name, mesh)
    bpy.context.scene.collection.objects.link(found)
    return found


def attribute(thing: Any, name: str, values: ArrayLike) -> None:
    """A number or a vector for every vertex, for shaders to read."""
    given = np.asarray(values, np.float32)
    kind, key = ("FLOAT", "value") if given.ndim == 1 else ("FLOAT_VECTOR", "vector")
    thing.data.attributes.new(name, kind, "POINT").data.foreach_set(key, given.ravel())


def curve_object(name: str, strands: Points, radii: tuple[float, float], material: Any) -> Any:
    """Hairs. radii: at the root and at the tip, metres."""
    count, steps, _ = strands.shape
    curves = bpy.data.hair_curves.new(name)
    curves.add_curves([steps] * count)
    flat = strands.astype(np.float32).ravel()
    curves.attributes["position"].data.foreach_set("vector", flat)
    thick = radii[0] + (radii[1] - radii[0]) * np.linspace(0, 1, steps) ** 1.4
    radius = curves.attributes.get("radius") or curves.attributes.new("radius", "FLOAT", "POINT")
    radius.data.foreach_set("value", np.tile(thick, count).astype(np.float32))
    curves.materials.append(material)
    found = bpy.data.objects.new(name, curves)
    bpy.context.scene.collection.objects.link(found)
    return found


class Nodes:
    """A shader tree as expressions: every method adds a node and returns its output."""

    def __init__(self, name: str) -> None:
        self.material = bpy.data.materials.new(name)
        self.material.use_nodes = True
        self.tree = self.material.node_tree
        self.tree.nodes.clear()
        self._out = self.tree.nodes.new("ShaderNodeOutputMaterial")

    def link(self, source: Any, socket: Any) -> None:
        """`source` is an output, a number or a colour."""
        if isinstance(source, bpy.types.NodeSocket):
            self.tree.links.new(source, socket)
            return
        if hasattr(socket.default_value, "__len__") and not hasattr(source, "__len__"):
            source = [source] * len(socket.default_value)
        if hasattr(source, "__len__") and len(source) == 3 and len(socket.default_value) == 4:
            source = (*source, 1)
        socket.default_value = source

    def node(self, kind: str, *inputs: Any, out: int | str = 0, **named: Any) -> Any:
        """inputs: by number; named: by name, or, in lower case, a property of the node."""
        made = self.tree.nodes.new(kind)
        for key, value in named.items():
            if key[0].islower():
                setattr(made, key, value)
        for number, value in enumerate(inputs):
            self.link(value, made.inputs[number])
        for key, value in named.items():
            if not key[0].islower():
                self.link(value, made.inputs[key.replace("_", " ")])
        return made.outputs[out]

    def attribute(self, name: str, out: str = "Fac") -> Any:
        return self.node("ShaderNodeAttribute", attribute_name=name, out=out)

    def maths(self, operation: str, a: Any, b: Any = 0.0) -> Any:
        return self.node("ShaderNodeMath", a, b, operation=operation)

    def times(self, a: Any, b: Any) -> Any:
        return self.maths("MULTIPLY", a, b)

    def plus(self, a: Any, b: Any) -> Any:
        return self.maths("ADD", a, b)

    def scaled(self, vector: Any, factors: tuple[float, float, float]) -> Any:
        return self.node("ShaderNodeVectorMath", vector, factors, operation="MULTIPLY")

    def noise(self, at: Any, scale: float, detail: float = 2.0, rough: float = 0.5) -> Any:
        return self.node(
            "ShaderNodeTexNoise", Vector=at, Scale=scale, Detail=detail, Roughness=rough
        )

    def ramp(self, value: Any, low: float, high: float, to: tuple[float, float] = (0, 1)) -> Any:
        """A smooth step from `low` to `high`."""
        return self.node(
            "ShaderNodeMapRange", value, low, high, *to, interpolation_type="SMOOTHSTEP"
        )

    def mix(self, share: Any, a: Any, b: Any) -> Any:
        made = self.tree.nodes.new("ShaderNodeMix")
        made.data_type, made.clamp_factor = "RGBA", True
        for number, value in ((0, share), (6, a), (7, b)):
            self.link(value, made.inputs[number])
        return made.outputs[2]

    def bump(self, height: Any, strength: float, distance: float) -> Any:
        return self.node("ShaderNodeBump", Strength=strength, Distance=distance, Height=height)

    def principled(self, **inputs: Any) -> Any:
        return self.node("ShaderNodeBsdfPrincipled", **inputs)

    def finish(self, shader: Any) -> Any:
        self.tree.links.new(shader, self._out.inputs[0])
        return self.material
