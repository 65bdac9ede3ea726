"""What a TensorRT module really offers, as a stub that the type checker reads.

pybind11 writes every signature into the docstrings. Run as a program it prints the stub of the
module named on the command line. A parameter of the type Dims takes any sequence, as the bindings
do; whatever cannot be read becomes Any.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import keyword
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

_HEADER = """\
# mypy: ignore-errors
import collections.abc, enum, typing, typing_extensions
from typing import Any, overload
"""
_MODULE = re.compile(r"\w+(?:\.\w+)*\.tensorrt(?:_rtx)?\.(\w+)")
_MEMBER = re.compile(r"<\w+\.(\w+): -?\d+>|<[^<>]*>")


def stub_of(module: ModuleType) -> str:
    """The text of a .pyi with every public class of `module`."""
    classes = {
        name: kind
        for name, kind in vars(module).items()
        if inspect.isclass(kind) and not name.startswith("_") and not keyword.iskeyword(name)
    }
    return _HEADER + "".join(
        f"\nclass {name}{_bases(kind, classes)}:\n    "
        + "\n    ".join(line for line in (*_members(kind, classes), "..."))
        + "\n"
        for name, kind in classes.items()
    )


def _bases(kind: type, classes: dict[str, type]) -> str:
    if hasattr(kind, "__members__"):
        return "(enum.Enum)"
    known = [base.__name__ for base in kind.__bases__ if classes.get(base.__name__) is base]
    return f"({', '.join(known)})" if known else ""


def _members(kind: type, classes: dict[str, type]) -> Iterator[str]:
    if hasattr(kind, "__members__"):
        yield from (f"{name} = 0" for name in kind.__members__ if not keyword.iskeyword(name))
        return
    for name, member in vars(kind).items():
        if isinstance(member, property):
            yield from _property(name, member, classes)
        elif callable(member) and (not name.startswith("_") or name == "__init__"):
            yield from _method(name, member.__doc__ or "", classes)
    if {"__getitem__", "__len__"} <= set(vars(kind)):
        yield "def __len__(self) -> int: ..."
        yield "def __iter__(self) -> collections.abc.Iterator[int]: ..."


def _property(name: str, member: Any, classes: dict[str, type]) -> Iterator[str]:
    told = (member.fget.__doc__ or "").partition(" -> ")[2].splitlines()
    made = _type(told[0] if told else "", classes)
    yield "@property"
    yield f"def {name}(self) -> {made}: ..."
    if member.fset is not None:
        yield f"@{name}.setter"
        yield f"def {name}(self, value: {_taken(made)}) -> None: ..."


def _method(name: str, doc: str, classes: dict[str, type]) -> Iterator[str]:
    found = re.findall(rf"^\s*(?:\d+\. )?{re.escape(name)}\((.*)\) -> (.*)$", doc, re.MULTILINE)
    signatures = [_signature(name, given, made, classes) for given, made in found]
    for signature in signatures:
        if len(signatures) > 1:
            yield "@overload"
        yield signature
    if not signatures:
        yield f"def {name}(self, *args: Any, **kwargs: Any) -> Any: ..."


def _signature(name: str, given: str, made: str, classes: dict[str, type]) -> str:
    """One overload; defaults become `...`, and the types of `self` go."""
    try:
        parsed = ast.parse(f"def f({_MEMBER.sub('None', given)}): ...").body[0]
    except SyntaxError:
        return f"def {name}(self, *args: Any, **kwargs: Any) -> Any: ..."
    assert isinstance(parsed, ast.FunctionDef)
    arguments = parsed.args.args
    optional = len(arguments) - len(parsed.args.defaults)
    parts = ["self"]
    for place, argument in enumerate(arguments[1:], start=1):
        written = ast.unparse(argument.annotation) if argument.annotation else ""
        kind = _taken(_type(written, classes))
        parts.append(f"{argument.arg}: {kind}{' = ...' if place >= optional else ''}")
    return f"def {name}({', '.join(parts)}) -> {_type(made, classes)}: ..."


def _type(written: str, classes: dict[str, type]) -> str:
    plain = _MODULE.sub(r"\1", written.strip())
    try:
        names = {node.id for node in ast.walk(ast.parse(plain)) if isinstance(node, ast.Name)}
    except SyntaxError:
        return "Any"
    usual = {"bool", "bytes", "collections", "dict", "float", "int", "list", "str", "tuple"}
    known = usual | {"typing", "typing_extensions"}
    if not plain or not names <= known | set(classes):
        return "Any"
    return plain


def _taken(kind: str) -> str:
    return "Dims | collections.abc.Sequence[int]" if kind == "Dims" else kind


if __name__ == "__main__":
    sys.stdout.write(stub_of(importlib.import_module(sys.argv[1])))
