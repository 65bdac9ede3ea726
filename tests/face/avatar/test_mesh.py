"""Triangulation, mesh and shapes: geometry that needs no weights."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from services.face.avatar import topology
from services.face.avatar.avatar import Avatar
from services.face.avatar.hidden import continue_behind
from services.face.avatar.making.landmarks import Landmarks
from services.face.avatar.making.maker import make_avatar
from services.face.avatar.making.portrait import Portrait
from services.face.avatar.mesh import build_mesh, head_frame
from services.face.avatar.shapes import SHAPES, closed_mouth
from tests.face.portraits import astronaut, rendered


@cache
def made() -> Avatar:
    """The avatar that ships, made again of its own portrait."""
    ships = rendered()
    points = np.column_stack([ships.mesh.source[:468], -ships.mesh.depth[:468]])
    landmarks = Landmarks(points.astype(np.float32), ships.iris.astype(np.float32), 1.0)
    person = (ships.matte / 255).astype(np.float32)
    portrait = Portrait(ships.portrait, landmarks, person)
    return make_avatar(portrait, name="made", licence="", source_note="", created="")


def test_the_avatar_that_ships_is_what_is_made_of_its_portrait() -> None:
    """But for what rounding takes away where it is kept."""
    for name, apart in (
        ("rest", 0.001),
        ("shapes", 0.05),
        ("lids", 1),
        ("upper_teeth", 1),
        ("background", 4),
        ("matte", 8),
    ):
        again, ships = (np.asarray(getattr(each, name), float) for each in (made(), rendered()))
        assert np.abs(again - ships).max() <= apart, name
    assert made().mesh.weight == pytest.approx(rendered().mesh.weight, abs=1e-5)
    one, other = ({*map(frozenset, e.mesh.triangles.tolist())} for e in (made(), rendered()))
    assert len(one & other) > 0.99 * len(other)


def test_mesh_covers_the_picture_and_its_face_follows_the_head_but_shoulders_stay() -> None:
    mesh = made().mesh
    low, high = mesh.source.min(axis=0), mesh.source.max(axis=0)
    assert (low < 0).all() and (high > made().size - 1).all()
    assert mesh.triangles.max() < len(mesh.source)
    assert all(len(set(triangle)) == 3 for triangle in mesh.triangles.tolist())
    assert (mesh.weight[: topology.LANDMARKS] == 1).all()
    assert (mesh.weight[mesh.source[:, 1] > 505] < 0.05).all()
    hair = (mesh.source[:, 1] < 150) & (np.abs(mesh.source[:, 0] - 256) < 120)
    assert (mesh.weight[hair] > 0.95).all()
    assert mesh.depth[topology.NOSE_TIP] > mesh.depth[topology.RIGHT_EAR] > 0


def test_a_mouth_is_shut_and_a_smile_let_go_but_a_calm_mouth_is_left() -> None:
    """Corners lie above the line of the lips, and apart, in eye distances."""
    smiling = astronaut().mesh
    points = np.column_stack([smiling.source[:468], -smiling.depth[:468]])
    mesh, frame = build_mesh(points, 512), head_frame(points)
    rest = mesh.source + closed_mouth(mesh, frame, parted=True)
    upper, lower = rest[list(topology.UPPER_INNER_LIP)], rest[list(topology.LOWER_INNER_LIP)]
    assert np.abs(upper - lower).max() < 0.01
    assert np.abs(rest[mesh.still] - mesh.source[mesh.still]).max() == 0
    corners = [topology.RIGHT_MOUTH_CORNER, topology.LEFT_MOUTH_CORNER]
    before, after = (frame.local(places) for places in (mesh.source, rest))
    assert np.ptp(after[corners, 0]) < 0.9 * np.ptp(before[corners, 0])
    for local in (after, made().frame.local(made().rest)):
        lift = local[list(topology.UPPER_INNER_LIP[4:7]), 1].mean() - local[corners, 1].mean()
        assert lift < 0.01
    assert made().rest[corners] == pytest.approx(made().mesh.source[corners], abs=1)


def test_frame_turns_with_the_face() -> None:
    points = astronaut().mesh.source[:468]
    turn = np.array([[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]])
    upright, turned = head_frame(points), head_frame(points @ turn.T)
    assert turned.local(points @ turn.T) == pytest.approx(upright.local(points), abs=1e-9)
    assert turned.pixels(turned.local(points)) == pytest.approx(points, abs=1e-9)


def _shape(name: str) -> NDArray[np.float32]:
    return np.asarray(made().shapes[SHAPES.index(name)])


def test_shapes_move_what_they_are_named_for_and_nothing_far_from_the_face() -> None:
    jaw, brow = _shape("jaw_open"), _shape("brow_raise")
    assert jaw[topology.CHIN, 1] > 10 and jaw[14, 1] > jaw[13, 1] + 10
    assert np.abs(jaw[[33, 263, topology.NOSE_TIP]]).max() < 1e-2
    for name, sign in (("mouth_wide", 1), ("smile", 1), ("pucker", -1)):
        shape = _shape(name)
        spread = shape[topology.LEFT_MOUTH_CORNER, 0] - shape[topology.RIGHT_MOUTH_CORNER, 0]
        assert sign * spread > 3, name
    assert brow[list(topology.RIGHT_BROW), 1].max() < -2
    assert np.abs(brow[[topology.FOREHEAD, 109, 338, 67, 297]]).max() < 1e-2, "hair stays"
    assert np.abs(made().shapes[:, made().mesh.still]).max() == 0


def test_hair_beside_the_face_rests_while_the_jaw_falls() -> None:
    avatar, mesh = made(), made().mesh
    around = np.arange(topology.LANDMARKS + mesh.lined, len(mesh.source))
    beside = around[avatar.frame.local(avatar.rest[around])[:, 1] < 0]
    assert len(beside) > 60 and np.abs(_shape("jaw_open")[beside]).max() < 0.2
    chin = _shape("jaw_open")[list(topology.JAW_LINE), 1]
    assert (np.diff(chin[:7]) > 0).all() and (np.diff(chin[6:]) < 0).all(), "falls off to the ears"


def test_stripes_go_on_behind_the_person() -> None:
    picture = np.zeros((80, 80, 3), np.uint8)
    picture[np.arange(80) // 4 % 2 == 0] = 255
    hidden = np.zeros((80, 80), bool)
    hidden[20:60, 40:] = True
    picture_with_hole = np.where(hidden[..., None], 99, picture).astype(np.uint8)
    behind = continue_behind(picture_with_hole, hidden, reach=20)
    assert (behind[~hidden] == picture_with_hole[~hidden]).all()
    near = behind[28:52, 42:46, 0].astype(float).mean(axis=1)
    assert near.std() > 40, "texture, not a smear"
