"""What a bundle says about its plans: graph, passes, precisions and the shapes that are served."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from visavis.serving.errors import InvalidInputError

Precision = Literal["fp32", "fp16", "int8"]
Shape = tuple[int, ...]
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]

_CHOICE = re.compile(r"\{([^{}]+)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ShapeRange(_Strict):
    """Shapes of one input: smallest, the one to be fastest at, largest; all of one rank."""

    min: Shape
    opt: Shape
    max: Shape

    @model_validator(mode="after")
    def _ordered(self) -> ShapeRange:
        if not len(self.min) == len(self.opt) == len(self.max):
            raise ValueError("min, opt and max need the same number of dimensions")
        for low, usual, high in zip(self.min, self.opt, self.max, strict=True):
            if not 1 <= low <= usual <= high:
                raise ValueError(
                    f"every dimension needs 1 <= min <= opt <= max, not {low}, {usual}, {high}: "
                    "TensorRT builds nothing for tensors of length 0"
                )
        return self

    def covers(self, shape: Sequence[int]) -> bool:
        """Is every dimension of `shape` within min and max?"""
        return len(shape) == len(self.min) and all(
            low <= size <= high for low, size, high in zip(self.min, shape, self.max, strict=True)
        )

    def __str__(self) -> str:
        return f"{list(self.min)} to {list(self.max)}"


class ProfileSpec(_Strict):
    """One optimisation profile: a range for each input of which a dimension varies.

    A key may stand for several inputs: `{a,b}` for each of the words, `{0..5}` for each number,
    so `past_{key,value}_{0..5}` names twelve. After reading, `shapes` holds plain names only.
    """

    name: Name
    shapes: Annotated[dict[str, ShapeRange], Field(min_length=1)]

    @field_validator("shapes")
    @classmethod
    def _expand(cls, shapes: dict[str, ShapeRange]) -> dict[str, ShapeRange]:
        named: dict[str, ShapeRange] = {}
        for pattern, allowed in shapes.items():
            for tensor in _expanded(pattern):
                if tensor in named:
                    raise ValueError(f"{tensor} has two ranges")
                named[tensor] = allowed
        return named

    def problem(self, inputs: Mapping[str, Sequence[int]]) -> str:
        """What of `inputs` this profile does not take, with the range it takes; "" where all."""
        for tensor, allowed in self.shapes.items():
            if tensor not in inputs:
                return f"{tensor} is missing; it takes {allowed}"
            if not allowed.covers(inputs[tensor]):
                return f"{tensor} has the shape {list(inputs[tensor])}; it takes {allowed}"
        return ""


class PlanRecipe(_Strict):
    """How one plan is made from a file of the bundle."""

    name: Name
    graph: str
    """The ONNX file in the bundle's folder."""
    rebuild: str = ""
    """A builder of visavis.bundles.compile.float_graphs that makes the float graph from the
    bundle's weights, where `graph` is a quantised copy of them."""
    passes: tuple[str, ...] = ()
    """Names of visavis.bundles.compile.surgery.passes.PASSES, in order."""
    precisions: Annotated[tuple[Precision, ...], Field(min_length=1)] = ("fp32", "fp16")
    keep_fp32: tuple[str, ...] = ()
    """Globs of node names that stay in 32 bits, because their numbers are too large or too fine
    for 16."""
    calibration: str = ""
    """Which set of real inputs tells the ranges of its activations; INT8 needs one."""
    profiles: Annotated[tuple[ProfileSpec, ...], Field(min_length=1)]

    @field_validator("graph")
    @classmethod
    def _inside(cls, graph: str) -> str:
        parts = PurePosixPath(graph).parts
        if not parts or graph.startswith("/") or ".." in parts or "\\" in graph:
            raise ValueError(f"{graph!r} must be a relative path with forward slashes and no '..'")
        return graph

    @model_validator(mode="after")
    def _agree(self) -> PlanRecipe:
        if len(set(self.precisions)) != len(self.precisions):
            raise ValueError("a precision is named twice")
        if ("int8" in self.precisions) != bool(self.calibration):
            raise ValueError("calibration: INT8 needs a set to be named, and nothing else does")
        if len({profile.name for profile in self.profiles}) != len(self.profiles):
            raise ValueError("two profiles have one name")
        if len({frozenset(profile.shapes) for profile in self.profiles}) != 1:
            raise ValueError("every profile must give ranges for the same inputs")
        return self

    def check(self, inputs: Mapping[str, Sequence[int]]) -> int:
        """Index of the first profile that takes `inputs` (name -> shape).

        Inputs of which no dimension varies are in no profile and are not looked at. Raises
        InvalidInputError that names the tensor, its shape and the range that is allowed.
        """
        problems = [profile.problem(inputs) for profile in self.profiles]
        for index, problem in enumerate(problems):
            if not problem:
                return index
        if len(problems) == 1:
            raise InvalidInputError(f"plan {self.name}: {problems[0]}")
        told = "; ".join(
            f"profile {profile.name}: {problem}"
            for profile, problem in zip(self.profiles, problems, strict=True)
        )
        raise InvalidInputError(f"plan {self.name}: no profile takes this request ({told})")


def _expanded(pattern: str) -> Iterator[str]:
    pieces = _CHOICE.split(pattern)
    if any("{" in piece or "}" in piece for piece in pieces):
        raise ValueError(f"{pattern!r} has a brace without its partner")
    choices = [_choices(piece) if odd else [piece] for piece, odd in _alternating(pieces)]
    for combination in itertools.product(*choices):
        yield "".join(combination)


def _alternating(pieces: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """re.split with a group gives text and braces in turn."""
    return zip(pieces, itertools.cycle((False, True)))


def _choices(inside: str) -> list[str]:
    if (match := _RANGE.fullmatch(inside)) is not None:
        return [str(number) for number in range(int(match[1]), int(match[2]) + 1)]
    return inside.split(",")
