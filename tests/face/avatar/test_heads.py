"""The heads that ship: what the contract of their README promises of each."""

from __future__ import annotations

import json
import struct
import tomllib
from pathlib import Path
from typing import Any

import pytest

import services.face
from services.face.draw.blendshapes import ARKIT_NAMES

HEADS = Path(services.face.__file__).parent / "heads"
NAMES = sorted(path.parent.name for path in HEADS.glob("*/head.toml"))
PARTS = ["head", "eyes", "teeth", "tongue", "clothes", "brows", "lashes", "hair"]
LARGEST_BYTES = 3_000_000


def described(glb: bytes) -> dict[str, Any]:
    """The JSON of a binary glTF."""
    magic, version, length, size, kind = struct.unpack_from("<5I", glb)
    assert (magic, version, length, kind) == (0x46546C67, 2, len(glb), 0x4E4F534A)
    found: dict[str, Any] = json.loads(glb[20 : 20 + size])
    return found


def test_the_default_ships_among_at_least_four() -> None:
    assert "ada" in NAMES and len(NAMES) >= 4


@pytest.mark.parametrize("name", NAMES)
def test_a_head_is_whole_small_and_moves(name: str) -> None:
    glb = (HEADS / name / "head.glb").read_bytes()
    assert len(glb) <= LARGEST_BYTES
    file = described(glb)
    (mesh,) = file["meshes"]
    materials = [file["materials"][p["material"]]["name"] for p in mesh["primitives"]]
    assert materials == PARTS
    assert set(mesh["extras"]["targetNames"]) == set(ARKIT_NAMES)
    for primitive in mesh["primitives"]:
        assert len(primitive["targets"]) == len(ARKIT_NAMES)
    skin = mesh["primitives"][0]
    for name_, target in zip(mesh["extras"]["targetNames"], skin["targets"], strict=True):
        still = "sparse" not in file["accessors"][target["POSITION"]]
        assert still == (name_ == "tongueOut"), name_


@pytest.mark.parametrize("name", NAMES)
def test_a_head_says_who_and_under_which_licence(name: str) -> None:
    about = tomllib.loads((HEADS / name / "head.toml").read_text(encoding="utf-8"))
    assert about["name"] == name and about["licence"] == "CC0-1.0"
    assert {part["licence"] for part in about["made_of"]} == {"CC0-1.0"}
    assert about["framing"]["position"][2] > about["framing"]["target"][2]
    for file in ("background.png", "portrait.png"):
        assert (HEADS / name / file).read_bytes()[:4] == b"\x89PNG"
