"""A head as objects of a scene, at rest or in a pose. (Imports bpy: GPL-3.0, see the folder.)"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import bmesh
import bpy
import numpy as np
from mathutils import Vector

from training.heads import groom
from training.heads.blender import materials
from training.heads.blender.nodes import attribute, curve_object, mesh_object
from training.heads.eyes import (
    IRIS_RADIUS,
    cornea,
    eyeball,
    lash_strip,
    toed_in,
)
from training.heads.geometry import Mesh, Points, fit_rotation, smooth, unit
from training.heads.head import Head
from training.heads.mouth import teeth_mesh, tongue_mesh


class Actor:
    """One person's head in an empty scene. `strands`: with every single hair, for pictures."""

    def __init__(self, head: Head, guides: groom.Strands, strands: int) -> None:
        self.head = head
        bpy.ops.wm.read_factory_settings(use_empty=True)
        self._moving: list[tuple[Any, Points, dict[str, Points]]] = []
        self.skin = self._skin()
        self.cloth = self._cloth()
        for side in "lr":
            self._eye(side)
        self._mouth()
        if strands:
            self._hair(guides, strands)

    def pose(self, weights: Mapping[str, float]) -> None:
        """Skin, teeth, tongue and gaze as the 52 shapes have them; hairs stay."""
        for thing, rest, deltas in self._moving:
            moved = rest + sum(
                (w * deltas[name] for name, w in weights.items() if name in deltas),
                start=np.zeros_like(rest),
            )
            thing.data.vertices.foreach_set("co", moved.astype(np.float32).ravel())
            thing.data.update()

    @contextlib.contextmanager
    def without_hair(self) -> Iterator[None]:
        """Hairs neither shade the skin's texture nor cost time meanwhile."""
        hairs = [thing for thing in bpy.context.scene.objects if thing.type == "CURVES"]
        for thing in hairs:
            thing.hide_render = True
        yield
        for thing in hairs:
            thing.hide_render = False

    def _follow(self, thing: Any, rest: Points, deltas: dict[str, Points]) -> None:
        self._moving.append((thing, rest, deltas))

    def _skin(self) -> Any:
        head = self.head
        rest = head.body[head.ids]
        thing = mesh_object("skin", rest, head.faces, head.uvs)
        original = np.array([head.base.uv[i] for uvs in head.face_uvs for i in uvs], np.float32)
        thing.data.uv_layers.new(name="MakeHuman").data.foreach_set("uv", original.ravel())
        attribute(thing, "rest", rest)
        scalp = groom.scalp_weight(head, head.points, 0.014) * ~head.by_ear[head.ids]
        for name, values in {**head.zones, "scalp": scalp}.items():
            attribute(thing, name, values)
        mask = head.base.root / "mpfb2/textures/mpfb_lips.jpg"
        thing.data.materials.append(materials.skin(head.person, mask))
        smoother = thing.modifiers.new("subdivision", "SUBSURF")
        smoother.levels = smoother.render_levels = 2
        smoother.uv_smooth = "NONE"  # texture places stay as the real-time mesh has them
        self._follow(thing, rest, head.moved(head.ids))
        return thing

    def _eye(self, side: str) -> None:
        head, eye = self.head, self.head.eyes[side]
        helper = head.base.groups[f"helper-{side}-eye"]
        ball, faces = eyeball(eye.radius, 64, (14, 18), bowl=True)
        rest = toed_in(ball, side)
        thing = mesh_object(f"eye.{side}", rest + eye.centre, faces)
        out = np.hypot(ball[:, 0], ball[:, 2]) / IRIS_RADIUS
        out[ball[:, 1] > 0] = np.maximum(out[ball[:, 1] > 0], 2.5)
        flat = unit(np.stack([ball[:, 0], np.zeros(len(ball)), ball[:, 2]], axis=-1))
        flat[:, 1] = 0.18 * out
        for name, values in (("rho", out), ("dir", flat), ("rest", ball)):
            attribute(thing, name, values)
        thing.data.materials.append(materials.eye(head.person))
        clear, clear_faces = cornea(eye.radius)
        shell = mesh_object(f"cornea.{side}", toed_in(clear, side) + eye.centre, clear_faces)
        shell.data.materials.append(materials.cornea())
        turns = {
            name: fit_rotation(head.body[helper], head.body[helper] + moved)
            for name, moved in head.moved(helper).items()
            if np.abs(moved).max() > 1e-5
        }
        for part, places in ((thing, rest), (shell, toed_in(clear, side))):
            deltas = {name: places @ turn.T - places for name, turn in turns.items()}
            self._follow(part, places + eye.centre, deltas)

    def _mouth(self) -> None:
        enamel = materials.teeth()
        for upper in (True, False):
            mesh = teeth_mesh(self.head, upper, fine=True)
            thing = self._part("teeth", mesh, enamel)
            gum = np.zeros(len(mesh.points))
            gum[mesh.corners()] = mesh.uvs[:, 1] > 0.5
            attribute(thing, "gum", gum)
        thing = self._part("tongue", tongue_mesh(self.head), materials.tongue())
        thing.modifiers.new("subdivision", "SUBSURF").render_levels = 2

    def _part(self, name: str, mesh: Mesh, material: Any) -> Any:
        thing = mesh_object(name, mesh.points, mesh.faces)
        attribute(thing, "rest", mesh.points)
        thing.data.materials.append(material)
        self._follow(thing, mesh.points, mesh.deltas)
        return thing

    def _hair(self, guides: groom.Strands, count: int) -> None:
        head, rng = self.head, self.head.rng
        shade = groom.shade_of(head.person.hair)
        look = materials.hair(tuple(np.clip(shade * 0.85, 0, 1)), "hair")
        dark = materials.hair(tuple(shade * 0.25), "lash")
        combed = groom.Comb(head).all(guides, count)
        thin = 0.00003 if head.person.hair.top < 0.06 else 0.00007
        curve_object("hair", combed.points, (0.00010, thin), look)
        for side in "lr":
            brow = groom.brow_strands(head, side, int(760 * head.person.brow))
            curve_object(f"brow.{side}", brow.points, (0.00007, 0.000015), dark)
            for row, number, length in (("1", 80, 0.45), ("2", 150, 0.75)):
                grid = head.body[lash_strip(head, side, row)]
                length *= head.person.lashes
                lashes = groom.lash_strands(grid, number, length, rng)
                curve_object(f"lash.{side}{row}", lashes, (0.00010, 0.000015), dark)

    def _cloth(self) -> Any:
        """A turtleneck: the body below the collar's plane, blown up a little, with a folded rim."""
        head, marks = self.head, self.head.marks
        kept = np.zeros(len(head.body), bool)
        body = head.base.groups["body"]
        kept[body] = (head.body[body][:, 2] > -0.36) & (np.abs(head.body[body][:, 0]) < 0.30)
        faces = [
            f.vertices
            for f in head.base.faces
            if f.group == "body" and kept[list(f.vertices)].all()
        ]
        ids = np.unique([v for face in faces for v in face])
        new = {int(old): k for k, old in enumerate(ids)}
        thing = mesh_object("cloth", head.body[ids], [tuple(new[v] for v in f) for f in faces])
        _tailor(thing.data, marks.neck, marks.neck_normal)
        places = np.array([v.co for v in thing.data.vertices])
        attribute(thing, "rest", places)
        above = (places - marks.neck) @ marks.neck_normal
        attribute(thing, "collar", smooth(above, -0.045, -0.028))
        thing.data.uv_layers.new(name="UVMap").data.foreach_set(
            "uv", _around(thing.data, places, float(marks.neck[1])).astype(np.float32).ravel()
        )
        thing.data.polygons.foreach_set("use_smooth", np.ones(len(thing.data.polygons), bool))
        thing.data.materials.append(materials.cloth(head.person.cloth, float(marks.neck[1])))
        return thing

    def cloth_mesh(self) -> Mesh:
        """The clothes, as Blender cut them."""
        data = self.cloth.data
        uvs = np.empty(len(data.loops) * 2, np.float32)
        data.uv_layers["UVMap"].data.foreach_get("uv", uvs)
        points = np.array([v.co for v in data.vertices], float)
        return Mesh(
            points, [tuple(p.vertices) for p in data.polygons], uvs.reshape(-1, 2).astype(float)
        )


def _tailor(mesh: Any, middle: Points, normal: Points) -> None:
    shape = bmesh.new()
    shape.from_mesh(mesh)
    plane = {"plane_co": Vector(middle + normal * 0.004), "plane_no": Vector(normal)}
    everything = shape.verts[:] + shape.edges[:] + shape.faces[:]
    bmesh.ops.bisect_plane(shape, geom=everything, clear_outer=True, **plane)
    inner = [v for v in shape.verts if not v.is_boundary]
    axes = {"use_axis_x": True, "use_axis_y": True, "use_axis_z": True}
    for _ in range(12):
        bmesh.ops.smooth_vert(shape, verts=inner, factor=0.5, **axes)
    shape.normal_update()
    for vertex in shape.verts:
        below = -(np.array(vertex.co) - middle) @ normal
        vertex.co += vertex.normal * (0.0045 + 0.006 * float(smooth(below, 0.0, 0.05)))

    def high(edge: Any) -> bool:
        return all((np.array(v.co) - middle) @ normal > -0.012 for v in edge.verts)

    rim = [edge for edge in shape.edges if edge.is_boundary and high(edge)]
    # The fold: up, over, and down outside.
    for out, up in ((0.001, 0.003), (0.0025, 0.002), (0.002, -0.004), (0.001, -0.016)):
        made = bmesh.ops.extrude_edge_only(shape, edges=rim)["geom"]
        for vertex in (item for item in made if isinstance(item, bmesh.types.BMVert)):
            away = np.array(vertex.co) - middle
            away -= normal * (away @ normal)
            vertex.co += Vector(unit(away) * out + normal * up)
        rim = [item for item in made if isinstance(item, bmesh.types.BMEdge)]
    bmesh.ops.recalc_face_normals(shape, faces=shape.faces)
    shape.to_mesh(mesh)
    shape.free()


def _around(mesh: Any, places: Points, axis: float) -> Points:
    """[corners, 2] wound around the neck, the seam behind."""
    angle = np.arctan2(places[:, 0], -(places[:, 1] - axis)) / (2 * np.pi) + 0.5
    # Shoulders lie flat: the distance from the neck counts as height there.
    down = -places[:, 2] + 0.9 * np.hypot(places[:, 0], places[:, 1] - axis)
    low, high = down.min(), down.max()
    rows = []
    for face in mesh.polygons:
        ids = list(face.vertices)
        turn = angle[ids]
        if np.ptp(turn) > 0.5:
            turn = np.where(turn < 0.5, turn + 1, turn)
        rows.append(
            np.stack([0.005 + turn / 1.12, 0.995 - 0.99 * (down[ids] - low) / (high - low)], 1)
        )
    return np.concatenate(rows)
