"""Reads a Dockerfile: its stages and instructions, with arguments filled in as a builder does."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


@dataclass(frozen=True)
class Instruction:
    """One instruction. flags: those before its text, such as --from=build."""

    name: str
    text: str
    flags: Mapping[str, str]

    def words(self) -> list[str]:
        """The text as the words of a command, be it written as JSON or as in a shell."""
        if self.text.startswith("["):
            return [str(word) for word in json.loads(self.text)]
        return shlex.split(self.text)


@dataclass(frozen=True)
class Stage:
    """What begins with one FROM."""

    base: str
    name: str
    instructions: list[Instruction] = field(default_factory=list)

    def of(self, name: str) -> list[Instruction]:
        """Its instructions of one kind."""
        return [one for one in self.instructions if one.name == name]


def filled_in(text: str, values: Mapping[str, str]) -> str:
    """`text` with $NAME and ${NAME} replaced; what has no value becomes nothing."""
    return _VARIABLE.sub(lambda found: values.get(found[1] or found[2], ""), text)


def read_stages(file: Path, arguments: Mapping[str, str]) -> tuple[dict[str, str], list[Stage]]:
    """The arguments of before the first FROM, as given or by default, and the stages."""
    known: dict[str, str] = {}
    stages: list[Stage] = []
    for one in _instructions(file.read_text(encoding="utf-8")):
        if one.name == "FROM":
            base, *name = one.text.split()
            stages.append(Stage(filled_in(base, known), name[-1] if name else ""))
        elif stages:
            stages[-1].instructions.append(one)
        else:
            name_, _, default = one.text.partition("=")
            known[name_] = arguments.get(name_, default)
    return known, stages


def lineage(stages: list[Stage], target: Stage) -> list[Stage]:
    """`target` and the stages that it is built on, the first one first."""
    by_name = {stage.name: stage for stage in stages}
    found = [target]
    while (base := by_name.get(found[0].base)) is not None:
        found.insert(0, base)
    return found


def _instructions(text: str) -> Iterator[Instruction]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    for line in re.sub(r"\\\n", " ", "\n".join(lines)).splitlines():
        name, _, rest = line.strip().partition(" ")
        flags: dict[str, str] = {}
        rest = rest.strip()
        while found := re.match(r"--([a-z-]+)=(\S+)\s+", rest):
            flags[found[1]] = found[2]
            rest = rest[found.end() :]
        if name:
            yield Instruction(name, rest, flags)
