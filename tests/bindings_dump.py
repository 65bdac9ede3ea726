"""What a TensorRT module really offers, read from the module itself.

Run as a program it prints that of the module named on the command line, as JSON: bindings
whose libraries are stand-ins are better imported in a process of their own.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
from types import ModuleType
from typing import Any

Offer = dict[str, dict[str, Any]]
"""class -> member -> overloads (lists of parameter names), or `property`, `value`."""


def offer_of(module: ModuleType) -> Offer:
    """Every public class of `module` with its members."""
    return {
        name: {
            member: _kind(kind, member)
            for member in dir(kind)
            if not member.startswith("_") or member == "__init__"
        }
        for name, kind in vars(module).items()
        if inspect.isclass(kind) and not name.startswith("_")
    }


def _kind(owner: type, name: str) -> Any:
    if isinstance(inspect.getattr_static(owner, name), property):
        return "property"
    member = getattr(owner, name)
    return overloads(member.__doc__ or "", name) if callable(member) else "value"


def overloads(doc: str, name: str) -> list[list[str]]:
    """Parameter names of each overload, `self` left out, as pybind11 writes them down."""
    found = []
    for line in doc.splitlines():
        if match := re.match(rf"\s*(?:\d+\. )?{re.escape(name)}\((.*)\) -> ", line):
            plain = re.sub(r"\[[^\]]*\]|<[^>]*>", "", match[1])
            found.append([part.split(":")[0].strip() for part in plain.split(",")][1:])
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(offer_of(importlib.import_module(sys.argv[1]))))
