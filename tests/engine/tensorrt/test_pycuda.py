"""Our calls of PyCUDA held against what the real one offers.

It has no wheels, and building it takes minutes: `pycuda_check/build.py` does that without a GPU,
runs our binding through it and leaves `offer.json`, which is read here.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.tensorrt.pycuda_check.build import OFFER
from visavis.engine.tensorrt import bindings

_SOURCE = Path(bindings.__file__).parent / "pycuda.py"
_DRIVER: dict[str, Any] = json.loads(OFFER.read_text())["driver"]
_TREE = ast.parse(_SOURCE.read_text())


def chain(node: ast.expr) -> tuple[str, ...]:
    """("Context", "pop") of `driver.Context.pop`; empty for what does not begin so."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    begins = isinstance(node, ast.Name) and node.id == "driver"
    return tuple(reversed(names)) if begins else ()


def calls() -> Iterator[Any]:
    for node in ast.walk(_TREE):
        if isinstance(node, ast.Call) and (names := chain(node.func)):
            yield pytest.param(names, node, id=f"{'.'.join(names)}-{node.lineno}")


def offer_of(names: tuple[str, ...]) -> Any:
    found: Any = _DRIVER
    for name in names:
        found = found[name]
    return found


def test_every_name_that_we_take_out_of_the_driver_is_in_it() -> None:
    inner = {id(n.value) for n in ast.walk(_TREE) if isinstance(n, ast.Attribute)}
    used = {
        names
        for node in ast.walk(_TREE)
        if isinstance(node, ast.Attribute) and id(node) not in inner and (names := chain(node))
    }
    assert {("Device", "count"), ("mem_alloc",), ("Error",)} <= used
    missing = []
    for names in sorted(used):
        try:
            offer_of(names)
        except KeyError:
            missing.append(".".join(names))
    assert missing == []


@pytest.mark.parametrize(("names", "call"), list(calls()))
def test_our_arguments_are_those_that_it_takes(names: tuple[str, ...], call: ast.Call) -> None:
    offer = offer_of(names)
    overloads = offer["__init__"] if isinstance(offer, dict) else offer
    # A method of a class in Boost.Python is written with its object in front.
    own = [each[1:] for each in overloads] if isinstance(offer, dict) else overloads
    given = len(call.args)
    named = {keyword.arg for keyword in call.keywords}

    def takes(parameters: list[str]) -> bool:
        needed = [p for p in parameters[given:] if not p.endswith("=")]
        left = {p.split()[1].rstrip("=") for p in parameters[given:]}
        needs = {p.split()[1] for p in needed}
        return given <= len(parameters) and needs <= named <= left

    assert overloads == "value" or any(takes(parameters) for parameters in own), overloads


def test_what_we_ask_of_its_objects_they_have() -> None:
    for kind, members in {
        "Context": ("push", "detach"),
        "Device": ("name", "compute_capability", "total_memory", "retain_primary_context"),
        "DeviceAllocation": ("free",),
        "Event": ("record", "time_till"),
        "PagelockedHostAllocation": ("free",),
        "Stream": ("synchronize", "handle"),
    }.items():
        assert set(members) <= set(_DRIVER[kind])
