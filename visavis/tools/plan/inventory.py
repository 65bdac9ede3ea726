"""What there is to place a fleet on: machines, their cores, memory, cards and prices.

Pure: `inventory_of` reads what a YAML file came to, and refuses what is wrong in it by its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from visavis.serving.errors import InvalidInputError

GB = 1e9
_MOST_NODES = 64
_MOST_GPUS = 16


@dataclass(frozen=True, slots=True)
class Gpu:
    """One card. speed: against the card that the profile's figures are for."""

    model: str
    memory_bytes: float
    device_id: str
    """What NVIDIA's container runtime calls it: its number on the machine, or its UUID."""
    speed: float = 1.0


@dataclass(frozen=True, slots=True)
class Node:
    """One machine. price: of an hour, in the inventory's currency; it is hired as a whole."""

    name: str
    cores: float
    memory_bytes: float
    price: float
    gpus: tuple[Gpu, ...] = ()


@dataclass(frozen=True, slots=True)
class Inventory:
    """All machines that a plan may use."""

    nodes: tuple[Node, ...]
    currency: str = "USD"


@dataclass(frozen=True, slots=True)
class Addition:
    """What would have to be added to an inventory: to the machine `node`, or `machines` like it."""

    node: str
    cores: float = 0.0
    memory_bytes: float = 0.0
    gpus: tuple[Gpu, ...] = ()
    machines: int = 0

    def __str__(self) -> str:
        if self.machines:
            return f"{self.machines} machine{'s' * (self.machines != 1)} like {self.node}"
        parts = []
        if self.gpus:
            one = self.gpus[0]
            cards = f"card{'s' * (len(self.gpus) != 1)}"
            parts.append(f"{len(self.gpus)} {cards} of {one.memory_bytes / GB:g} GB ({one.model})")
        if self.cores:
            parts.append(f"{self.cores:g} cores")
        if self.memory_bytes:
            parts.append(f"{self.memory_bytes / GB:g} GB of memory")
        return f"{' and '.join(parts)} in {self.node}"


def with_addition(inventory: Inventory, addition: Addition) -> Inventory:
    """The inventory once `addition` is in it."""

    def grown(node: Node) -> Node:
        if node.name != addition.node:
            return node
        start = len(node.gpus)
        new = (replace(g, device_id=str(start + i)) for i, g in enumerate(addition.gpus))
        return replace(
            node,
            cores=node.cores + addition.cores,
            memory_bytes=node.memory_bytes + addition.memory_bytes,
            gpus=(*node.gpus, *new),
        )

    like = next(node for node in inventory.nodes if node.name == addition.node)
    names = (f"{like.name}-more-{number}" for number in range(1, addition.machines + 1))
    more = (replace(like, name=name) for name in names)
    return replace(inventory, nodes=(*(grown(node) for node in inventory.nodes), *more))


# ------------------------------------------------------------ reading


def inventory_of(told: Any, where: str) -> Inventory:
    """The inventory that a YAML file holds. where: its name, for errors.

    Raises InvalidInputError that says which entry is wrong and what it should be."""
    table = _table(told, where)
    _only(table, ("currency", "nodes"), where)
    entries = table.get("nodes")
    if not isinstance(entries, list) or not entries:
        raise InvalidInputError(f"{where}: `nodes` must be a list of machines, one at least")
    nodes: list[Node] = []
    for number, entry in enumerate(entries, 1):
        nodes += _nodes_of(entry, f"{where}: node {number}")
    if len(nodes) > _MOST_NODES:
        raise InvalidInputError(f"{where}: {len(nodes)} machines; at most {_MOST_NODES} are placed")
    names = [node.name for node in nodes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"{where}: two machines are called {twice!r}; give each a name")
    return Inventory(tuple(nodes), str(table.get("currency", "USD")))


def _nodes_of(told: Any, where: str) -> list[Node]:
    """One entry, which may stand for several machines that are alike."""
    table = _table(told, where)
    _only(table, ("name", "count", "cores", "memory_gb", "price_per_hour", "gpus"), where)
    name = table.get("name")
    if not isinstance(name, str) or not name.replace("-", "").replace("_", "").isalnum():
        raise InvalidInputError(
            f"{where}: `name` is {name!r}; letters, digits, - and _ are allowed"
        )
    where = f"{where} ({name})"
    count = _count_in(table, where, _MOST_NODES)
    node = Node(
        name,
        _number(table, "cores", where, least=1, most=4096),
        _number(table, "memory_gb", where, least=0.5, most=65_536) * GB,
        _number(table, "price_per_hour", where, least=0, most=1e6, default=0),
        _gpus_of(table.get("gpus", []), where),
    )
    if count == 1:
        return [node]
    return [replace(node, name=f"{name}-{number}") for number in range(1, count + 1)]


def _gpus_of(told: Any, where: str) -> tuple[Gpu, ...]:
    if not isinstance(told, list):
        raise InvalidInputError(f"{where}: `gpus` must be a list of cards")
    found: list[Gpu] = []
    for number, entry in enumerate(told, 1):
        here = f"{where}, card {number}"
        table = _table(entry, here)
        _only(table, ("model", "memory_gb", "count", "uuid", "speed"), here)
        count = _count_in(table, here, _MOST_GPUS)
        uuid = table.get("uuid")
        if uuid is not None and (count > 1 or not str(uuid).startswith("GPU-")):
            raise InvalidInputError(
                f"{here}: `uuid` is that of one card, as `nvidia-smi -L` prints it (GPU-…)"
            )
        for _ in range(count):
            found.append(
                Gpu(
                    str(table.get("model", "GPU")),
                    _number(table, "memory_gb", here, least=1, most=1024) * GB,
                    str(len(found) if uuid is None else uuid),
                    _number(table, "speed", here, least=0.05, most=20, default=1),
                )
            )
    if len(found) > _MOST_GPUS:
        raise InvalidInputError(f"{where}: {len(found)} cards; at most {_MOST_GPUS} a machine")
    return tuple(found)


def _count_in(table: Mapping[str, Any], where: str, most: int) -> int:
    count = _number(table, "count", where, least=1, most=most, default=1)
    if count != int(count):
        raise InvalidInputError(f"{where}: `count` is {count:g}; a whole number is wanted")
    return int(count)


def _table(told: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(told, Mapping):
        raise InvalidInputError(f"{where}: names with values are wanted, not {told!r}")
    return told


def _only(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    strange = sorted(str(key) for key in table if key not in known)
    if strange:
        raise InvalidInputError(
            f"{where}: unknown: {', '.join(strange)}; known: {', '.join(known)}"
        )


def _number(
    table: Mapping[str, Any],
    key: str,
    where: str,
    *,
    least: float,
    most: float,
    default: float | None = None,
) -> float:
    value = table.get(key, default)
    if value is None:
        raise InvalidInputError(f"{where}: `{key}` is missing")
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise InvalidInputError(f"{where}: `{key}` is {value!r}; {least:g} to {most:g} is allowed")
    return float(value)
