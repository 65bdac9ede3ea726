"""Dataclasses as tables: each field travels as the protobuf message's field of the same name.

What a field's type tells needs no word: messages within messages, tuples of them, enumerations,
and what may be None. The rest is told by an `As` beside the type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import IntEnum
from operator import attrgetter
from types import NoneType
from typing import Annotated, Any, ClassVar, Self, get_args, get_origin, get_type_hints

from visavis.serving.errors import InvalidInputError

Pack = Callable[[Any], Any]
Unpack = Callable[[Any, Any], Any]
"""From the message's field and the whole message. Raises InvalidInputError for what cannot be."""


@dataclass(frozen=True, slots=True)
class As:
    """How a field travels where name or form differ, or not every value can be."""

    name: str = ""
    """Of the message's field; "": the same."""
    pack: Pack | None = None
    unpack: Unpack | None = None


class OnTheWire:
    """A dataclass with a message of its own: turned into it, and made of it, field by field."""

    __slots__ = ()
    MESSAGE: ClassVar[Any]
    DERIVED: ClassVar[tuple[str, ...]] = ()
    """Properties that the message carries as well."""

    def to_message(self) -> Any:
        """The protobuf message."""
        table = _table(type(self))
        carried = dict(zip(table.carried, table.take(self), strict=True))
        for name, pack in table.packs:
            carried[name] = pack(carried[name])
        return self.MESSAGE(**carried)

    @classmethod
    def of(cls, message: Any) -> Self:
        """What `message` says. Raises InvalidInputError, which names the field."""
        table = _table(cls)
        values = list(table.read(message))
        for index, unpack in table.unpacks:
            values[index] = unpack(values[index], message)
        return cls(*values)


@dataclass(frozen=True, slots=True)
class _Table:
    """The fields of one class, worked out once."""

    carried: tuple[str, ...]
    """The message's fields, each with what `take` gives of the dataclass."""
    take: Callable[[Any], tuple[Any, ...]]
    packs: tuple[tuple[str, Pack], ...]
    read: Callable[[Any], tuple[Any, ...]]
    """Of the message, the dataclass's fields in their order."""
    unpacks: tuple[tuple[int, Unpack], ...]


def _table_of(kind: type[Any]) -> _Table:
    hints = get_type_hints(kind, include_extras=True)
    own = [field.name for field in fields(kind)]
    rules = [_rule(name, hints[name]) for name in own]
    names = [rule.name for rule in rules]
    return _Table(
        (*names, *kind.DERIVED),
        attrgetter(*own, *kind.DERIVED),
        tuple((rule.name, rule.pack) for rule in rules if rule.pack),
        attrgetter(*names),
        tuple((index, rule.unpack) for index, rule in enumerate(rules) if rule.unpack),
    )


def _table(kind: type[Any]) -> _Table:
    if kind not in _TABLES:
        _TABLES[kind] = _table_of(kind)
    return _TABLES[kind]


_TABLES: dict[type[Any], _Table] = {}


def _rule(own: str, hint: Any) -> As:
    told = As()
    if get_origin(hint) is Annotated:
        hint, told = get_args(hint)
    name = told.name or own
    pack, unpack = _by_type(hint, name)
    return As(name, told.pack or pack, told.unpack or unpack)


def _by_type(hint: Any, name: str) -> tuple[Pack | None, Unpack | None]:
    if isinstance(hint, type) and issubclass(hint, OnTheWire):
        return hint.to_message, lambda message, _: hint.of(message)
    if isinstance(hint, type) and issubclass(hint, IntEnum):
        return int, lambda value, _: _member(hint, value, name)
    if NoneType in get_args(hint):
        return None, lambda value, message: value if message.HasField(name) else None
    if get_origin(hint) is tuple:
        (each, _) = get_args(hint)
        return (
            lambda values: [value.to_message() for value in values],
            lambda messages, _: tuple([each.of(message) for message in messages]),
        )
    return None, None


def _member(enum: type[IntEnum], value: int, name: str) -> IntEnum:
    try:
        return enum(value)
    except ValueError:
        allowed = ", ".join(f"{e.name} ({e.value})" for e in enum)
        raise InvalidInputError(f"{name}: {value} is none of {allowed}") from None
