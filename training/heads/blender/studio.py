"""Light and camera of the portraits, pictures and bakes. (Imports bpy: GPL-3.0, see the folder.)"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bpy
import numpy as np
from mathutils import Vector
from numpy.typing import NDArray

from training.heads.blender.nodes import Nodes, mesh_object
from training.heads.people import Colour

TARGET = (0.0, -0.1, -0.025)
"""What the camera looks at."""
DISTANCE, FRAME = 1.5, 0.36
"""How far the camera stands, and how high its picture is there, metres."""


@dataclass(frozen=True)
class Lamp:
    """A round area light."""

    name: str
    place: tuple[float, float, float]
    size: float
    """Metres across."""
    watt: float
    colour: Colour


LAMPS = (
    Lamp("key", (-0.75, -1.35, 0.75), 0.9, 24, (1, 0.965, 0.92)),
    Lamp("fill", (1.1, -1.2, 0.05), 1.3, 7, (0.92, 0.96, 1)),
    Lamp("low", (0, -1.0, -0.9), 0.8, 3, (1, 0.95, 0.9)),
    Lamp("rim.l", (0.9, 0.9, 0.7), 0.6, 9, (1, 0.97, 0.93)),
    Lamp("rim.r", (-0.9, 0.9, 0.5), 0.6, 7, (0.93, 0.96, 1)),
)
AMBIENT = 0.12
_AIM = (0.0, -0.1, -0.03)


def light_and_camera(wall: Colour) -> None:
    scene = bpy.context.scene
    camera = bpy.data.objects.new("camera", bpy.data.cameras.new("camera"))
    camera.data.sensor_width = 36
    camera.data.lens = 36 * DISTANCE / FRAME
    camera.location = Vector(TARGET) + Vector((0, -DISTANCE, 0))
    camera.rotation_euler = (Vector(TARGET) - camera.location).to_track_quat("-Z", "Y").to_euler()
    scene.collection.objects.link(camera)
    scene.camera = camera
    for lamp in LAMPS:
        light = bpy.data.lights.new(lamp.name, "AREA")
        light.energy, light.size, light.color, light.shape = (
            lamp.watt,
            lamp.size,
            lamp.colour,
            "DISK",
        )
        thing = bpy.data.objects.new(lamp.name, light)
        thing.location = lamp.place
        away = Vector(_AIM) - Vector(lamp.place)
        thing.rotation_euler = away.to_track_quat("-Z", "Y").to_euler()
        scene.collection.objects.link(thing)
    scene.world = bpy.data.worlds.new("world")
    scene.world.use_nodes = True
    sky = scene.world.node_tree.nodes["Background"].inputs
    sky[0].default_value, sky[1].default_value = (0.5, 0.53, 0.58, 1), AMBIENT
    _wall(wall)


def _wall(colour: Colour) -> None:
    """Shines by itself, softly brighter behind the head, and lights nothing."""
    corners = np.array([(-4, 2.2, -3), (4, 2.2, -3), (4, 2.2, 3), (-4, 2.2, 3)], float)
    wall = mesh_object("wall", corners, [(0, 1, 2, 3)])
    n = Nodes("wall")
    at = n.node("ShaderNodeNewGeometry", out="Position")
    off = n.node("ShaderNodeVectorMath", at, (0, 2.2, 0.05), operation="SUBTRACT")
    away = n.node("ShaderNodeVectorMath", off, operation="LENGTH", out=1)
    bright, dim = (tuple(c * k for c in colour) for k in (1.5, 0.45))
    shade = n.mix(n.ramp(away, 0.1, 1.0), bright, dim)
    wall.data.materials.append(n.finish(n.node("ShaderNodeEmission", shade, 1.0)))
    for flag in ("visible_diffuse", "visible_glossy", "visible_shadow"):
        setattr(wall, flag, False)


def take(path: Path, size: int, samples: int) -> None:
    """Renders what the camera sees as a PNG of `size`²."""
    scene = bpy.context.scene
    scene.render.engine = "CYCLES"
    cycles = scene.cycles
    cycles.device, cycles.samples = "CPU", samples
    cycles.use_adaptive_sampling, cycles.adaptive_threshold = True, 0.02
    cycles.use_denoising, cycles.denoiser = True, "OPENIMAGEDENOISE"
    cycles.max_bounces, cycles.transparent_max_bounces = 6, 12
    cycles.diffuse_bounces = cycles.glossy_bounces = 3
    cycles.caustics_reflective = cycles.caustics_refractive = False
    scene.cycles_curves.shape = "RIBBONS"
    scene.render.resolution_x = scene.render.resolution_y = size
    scene.render.image_settings.file_format = "PNG"
    scene.view_settings.view_transform = "AgX"
    scene.view_settings.look = "AgX - Medium High Contrast"
    scene.view_settings.exposure = 0.45
    scene.render.filepath = str(path)
    bpy.ops.render.render(write_still=True)


def take_background(path: Path, size: int) -> None:
    """The wall alone, as the portrait has it."""
    shown = [
        o for o in bpy.context.scene.objects if o.type in ("MESH", "CURVES") and o.name != "wall"
    ]
    for thing in shown:
        thing.hide_render = True
    take(path, size, 4)
    for thing in shown:
        thing.hide_render = False


class Baker:
    """Bakes what a material shows into pictures of one object's texture."""

    def __init__(self, thing: Any, size: int) -> None:
        self._thing, self._size = thing, size
        material = thing.data.materials[0]
        self._tree = material.node_tree
        nodes = self._tree.nodes
        self._surface = next(node for node in nodes if node.type == "BSDF_PRINCIPLED")
        self._out = next(node for node in nodes if node.type == "OUTPUT_MATERIAL")
        thing.data.uv_layers["UVMap"].active = True
        scene = bpy.context.scene
        scene.render.engine = "CYCLES"
        scene.cycles.device, scene.cycles.use_denoising = "CPU", False

    def colour(self) -> NDArray[np.float64]:
        """[size, size, 3] 0..1 on the sRGB curve, free of light."""
        bare = self._tree.nodes.new("ShaderNodeEmission")
        self._tree.links.new(self._given("Base Color"), bare.inputs[0])
        return self._bake("EMIT", bare, 2, "sRGB")

    def normals(self) -> NDArray[np.float64]:
        """[size, size, 3] 0..1, in tangent space: what is finer than the mesh."""
        plain = self._tree.nodes.new("ShaderNodeBsdfDiffuse")
        self._tree.links.new(self._given("Normal"), plain.inputs["Normal"])
        return self._bake("NORMAL", plain, 2, "Non-Color")

    def open_to_the_sky(self, reach: float, samples: int) -> NDArray[np.float64]:
        """[size, size] 0..1: how little of the sky other surfaces within `reach` metres hide."""
        bpy.context.scene.world.light_settings.distance = reach
        plain = self._tree.nodes.new("ShaderNodeBsdfDiffuse")
        return self._bake("AO", plain, samples, "Non-Color")[..., 0]

    def _given(self, name: str) -> Any:
        return self._surface.inputs[name].links[0].from_socket

    def _bake(self, kind: str, shader: Any, samples: int, space: str) -> NDArray[np.float64]:
        """With `shader` instead of the whole material, whose noise takes most of the time."""
        size = self._size
        self._tree.links.new(shader.outputs[0], self._out.inputs[0])
        bpy.context.scene.cycles.samples = samples
        picture = bpy.data.images.new("bake", size, size)
        picture.colorspace_settings.name = space
        target = self._tree.nodes.new("ShaderNodeTexImage")
        target.image = picture
        self._tree.nodes.active = target
        for thing in bpy.data.objects:
            thing.select_set(thing == self._thing)
        bpy.context.view_layer.objects.active = self._thing
        bpy.ops.object.bake(type=kind, margin=8)
        pixels = np.empty(size * size * 4, np.float32)
        picture.pixels.foreach_get(pixels)
        self._tree.nodes.remove(target)
        self._tree.nodes.remove(shader)
        self._tree.links.new(self._surface.outputs[0], self._out.inputs[0])
        bpy.data.images.remove(picture)
        return pixels.reshape(size, size, 4)[::-1, :, :3].astype(float)
