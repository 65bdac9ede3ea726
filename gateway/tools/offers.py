"""What a language model may call, and a call that it has made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Calling: TypeAlias = Literal["auto", "none", "required"]


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """A tool that may be called. parameters: JSON Schema of an object; "": it takes none."""

    name: str
    description: str
    parameters: str


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Whether something is called. named: the one tool that has to be, with "required"."""

    calling: Calling = "auto"
    named: str = ""


FREE = ToolChoice()
"""The model decides."""


@dataclass(frozen=True, slots=True)
class Call:
    """What a model called, or a piece of it. arguments: JSON of an object."""

    id: str
    name: str
    arguments: str
    index: int = 0
