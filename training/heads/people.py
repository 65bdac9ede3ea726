"""Who is built: the parameters of people, read from a TOML file."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

Colour = tuple[float, float, float]
"""Linear RGB."""


class UnknownPersonError(Exception):
    """The file of people lacks the name, or an entry says what cannot be read."""


@dataclass(frozen=True)
class Hair:
    """How somebody wears their hair. Lengths in metres."""

    colour: Colour
    top: float
    side: float
    back: float
    part: float | None = None
    """Where it is parted, metres to the person's left of the middle; none: combed as `sweep`."""
    lift: float = 0.3
    """How much strands stand up at the root: 0 lie flat, 1 stand."""
    gravity: float = 0.3
    sweep: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Where it is combed to, besides what the parting does."""
    volume: float = 0.006
    """How far above the scalp the outer strands lie."""
    hem: float | None = None
    """Height over the eyes where it is cut off straight; none: not."""
    curl: float = 0.0
    """Radius of curls."""
    pitch: float = 0.02
    """Length of one turn of a curl."""
    receding: float = 0.0
    grey: float = 0.0


@dataclass(frozen=True)
class Person:
    """One person's looks: a dozen numbers and some names of MakeHuman's targets."""

    name: str
    title: str
    seed: int
    gender: float
    """0 is female, 1 male."""
    age: float
    ancestry: dict[str, float]
    skin: Colour
    lips: Colour
    iris: tuple[Colour, Colour]
    """Outer and inner."""
    hair: Hair
    cloth: Colour
    muscle: float = 0.5
    weight: float = 0.5
    targets: dict[str, float] = field(default_factory=dict)
    """MakeHuman's targets by `folder/name`, "*" for both sides, with their weights."""
    mien: dict[str, float] = field(default_factory=dict)
    """What of the 52 shapes the face wears at rest."""
    asymmetry: float = 0.12
    freckles: float = 0.0
    beard: float = 0.0
    wrinkles: float = 0.0
    brow: float = 1.0
    lashes: float = 1.0

    @property
    def male(self) -> bool:
        return self.gender > 0.5

    @property
    def dark(self) -> bool:
        """Whether the skin is dark, which scatters light less visibly."""
        return sum(self.skin) / 3 < 0.2


def read_person(path: Path, name: str) -> Person:
    """Raises UnknownPersonError where the file has no such entry, or it names what is unknown."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))
    if name not in entries:
        raise UnknownPersonError(f"{path} has no {name!r}; it has: {', '.join(entries)}")
    entry = dict(entries[name])
    _check(entry, Person, f"{path}: {name}")
    _check(entry.get("hair", {}), Hair, f"{path}: {name}.hair")
    entry["hair"] = Hair(**_tuples(entry["hair"]))
    return Person(name=name, **_tuples(entry))


def _check(entry: dict[str, Any], kind: type, where: str) -> None:
    unknown = set(entry) - {known.name for known in fields(kind)}
    if unknown:
        raise UnknownPersonError(f"{where} has unknown keys: {', '.join(sorted(unknown))}")


def _tuples(entry: dict[str, Any]) -> dict[str, Any]:
    def fixed(value: Any) -> Any:
        return tuple(fixed(v) for v in value) if isinstance(value, list) else value

    return {key: fixed(value) for key, value in entry.items()}
