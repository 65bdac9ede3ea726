"""Good inputs made bad, as strategies of Hypothesis: what fails shrinks to the fewest changes."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Sequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

_MOST_CHANGES = 6
_LONGEST = 1 << 18
"""No input is longer, whatever was repeated in it."""
_NUMBERS = (
    0,
    1,
    7,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    1 << 31,
    (1 << 32) - 1,
    1 << 40,
    (1 << 63) - 1,
)
_WORDS = (
    b"\0", b"\r\n", b"\r\n\r\n", b"\xff\xfe", b"\xed\xa0\x80", b"%00", b"../", b"-1", b"1e999",
    b"NaN",
    b"[" * 20_000, b'{"a":' * 20_000, b"9" * 5000, "\u202e\u0301".encode() * 50,
)  # fmt: skip

Change = tuple[int, int, int]
"""What is done, where, and with which value."""

_CHANGE: SearchStrategy[Change] = st.tuples(
    st.integers(0, 7), st.integers(0, (1 << 16) - 1), st.integers(0, (1 << 16) - 1)
)
_CHANGES = st.lists(_CHANGE, max_size=_MOST_CHANGES)


def broken(seeds: Sequence[bytes], words: Sequence[bytes] = ()) -> SearchStrategy[bytes]:
    """One of `seeds` with a few bytes changed, cut, repeated, or joined with another one's.

    words: what means something in this format; it is put in as it is.
    """
    known = (*words, *_WORDS)

    def make(seed: int, changes: list[Change]) -> bytes:
        content = bytearray(seeds[seed])
        for change in changes:
            _change(content, change, seeds, known)
        return bytes(content[:_LONGEST])

    return st.builds(make, st.integers(0, len(seeds) - 1), _CHANGES)


def _change(
    content: bytearray, change: Change, seeds: Sequence[bytes], words: Sequence[bytes]
) -> None:
    what, place, value = change
    at = place % (len(content) + 1)
    match what:
        case 0:
            if at < len(content):
                content[at] ^= 1 << value % 8
        case 1:
            content[at : at + 1] = bytes([value % 256])
        case 2:
            width = (1, 2, 4, 8)[value % 4]
            order = "big" if value & 4 else "little"
            number = _NUMBERS[(value >> 3) % len(_NUMBERS)] % (1 << 8 * width)
            content[at : at + width] = number.to_bytes(width, order)  # type: ignore[arg-type]
        case 3:
            del content[at : at + 1 + value % 64]
        case 4:
            content[at:at] = words[value % len(words)]
        case 5:
            piece = bytes(content[at : at + 1 + value % 256])
            content[at:at] = piece * (1 + value // 256)
        case 6:
            del content[at:]
        case _:
            other = seeds[value % len(seeds)]
            content[at:] = other[place % (len(other) + 1) :]
    del content[_LONGEST:]


# ------------------------------------------------------------ text and JSON

_DEEP: Any = []
for _ in range(200):
    _DEEP = [_DEEP]
ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**400, 0.5, 1e308, 1e-320,
    float("nan"), float("inf"), -float("inf"), "", " ", "\0", "x" * 70_000, "\ud800", "٣", "²",
    "é" * 300,
    "\u200b", "-" * 40, "../../etc/passwd", "en", "2026-02-30", [], {}, [None], {"": ""}, _DEEP,
)  # fmt: skip
"""What stands where something else was expected."""
_TEXTS = [odd for odd in ODD_VALUES if isinstance(odd, str)]

ODD_TEXTS = st.one_of(
    st.text(max_size=40),
    st.integers(0, len(_TEXTS) - 1).map(lambda index: _TEXTS[index]),
    st.builds(
        lambda piece, count: piece * count,
        st.text(min_size=1, max_size=4),
        st.integers(1, 2000),
    ),
)


def told_wrongly(seeds: Sequence[Any], texts: Sequence[str] = ()) -> SearchStrategy[Any]:
    """One of `seeds`, which JSON could hold, with parts of it replaced, left out or added."""
    odd = (*ODD_VALUES, *texts)
    value = st.integers(0, len(odd) - 1).map(lambda index: odd[index])
    change = st.tuples(st.integers(0, 3), st.integers(0, 255), st.one_of(value, ODD_TEXTS))

    def make(seed: int, changes: list[tuple[int, int, Any]]) -> Any:
        root = [copy.deepcopy(seeds[seed])]
        for what, place, value in changes:
            _replace(root, what, place, value)
        return root[0]

    return st.builds(make, st.integers(0, len(seeds) - 1), st.lists(change, max_size=4))


def _replace(root: list[Any], what: int, place: int, value: Any) -> None:
    holders: list[tuple[Any, Any]] = []
    _collect(root, holders, 0)
    holder, key = holders[place % len(holders)]
    if what == 0 and holder is not root:
        del holder[key]
    elif what == 1 and isinstance(holder, dict):
        holder[value if isinstance(value, str) else "more"] = value
    elif what == 2 and isinstance(holder, list) and holder is not root:
        holder.extend([copy.deepcopy(holder[key])] * 50)
    else:
        holder[key] = copy.deepcopy(value)


def _collect(node: Any, into: list[tuple[Any, Any]], depth: int) -> None:
    if depth > 8 or len(into) > 400:
        return
    for key in list(node) if isinstance(node, dict) else range(len(node)):
        into.append((node, key))
        if isinstance(node[key], dict | list):
            _collect(node[key], into, depth + 1)


def as_json(values: SearchStrategy[Any], more: Sequence[bytes] = ()) -> SearchStrategy[bytes]:
    """The values as JSON, and now and then with its bytes broken. NaN and lone surrogates too."""

    def written(value: Any, ascii_only: bool) -> bytes:
        try:
            return json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
        except RecursionError:  # of our own making
            return b"[" * 5000

    plain = st.builds(written, values, st.booleans())
    seeds = [*more, b'{"a": [1, "\\ud800", null]}']
    return st.one_of(plain, plain, broken(seeds))


# ------------------------------------------------------------ protobuf

_ODD_NUMBERS = (0, 1, 2, 7, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1, -1, -(2**31), -(2**63))
_ODD_FLOATS = (0.0, -0.0, 0.5, 1e308, -1e308, 1e-320, float("nan"), float("inf"), -float("inf"))
_ODD_STRINGS = tuple(
    odd for odd in ODD_VALUES if (isinstance(odd, str) and odd.isascii()) or odd == "é" * 300
)


def wrong_messages(seeds: Sequence[Message]) -> SearchStrategy[bytes]:
    """Messages of the seeds' types whose fields say what cannot be, and their bytes broken."""
    odd_fields = st.lists(st.tuples(st.integers(0, 255), st.integers(0, 255)), max_size=5)

    def make(seed: int, changes: list[tuple[int, int]]) -> bytes:
        message = copy.deepcopy(seeds[seed])
        for place, value in changes:
            _misstate(message, place, value)
        return bytes(message.SerializePartialToString())

    fields = st.builds(make, st.integers(0, len(seeds) - 1), odd_fields)
    whole = [bytes(seed.SerializePartialToString()) for seed in seeds]
    return st.one_of(fields, fields, broken(whole))


def _misstate(message: Message, place: int, value: int) -> None:
    """One field of it, or of a message within it."""
    fields = message.DESCRIPTOR.fields
    if not fields:
        return
    field = fields[place % len(fields)]
    is_list = field.is_repeated
    if field.message_type is not None:
        if field.message_type.GetOptions().map_entry:
            return
        inner = getattr(message, field.name)
        _misstate(inner.add() if is_list else inner, value, place ^ value)
        if not is_list:
            inner.SetInParent()
        return
    odd = _odd_value(field, value)
    if is_list:
        getattr(message, field.name).extend([odd] * (1, 2, 60)[value % 3])
    else:
        setattr(message, field.name, odd)


def _odd_value(field: FieldDescriptor, value: int) -> Any:
    choices: dict[int, Callable[[], Any]] = {
        FieldDescriptor.CPPTYPE_BOOL: lambda: bool(value & 1),
        FieldDescriptor.CPPTYPE_DOUBLE: lambda: _ODD_FLOATS[value % len(_ODD_FLOATS)],
        FieldDescriptor.CPPTYPE_FLOAT: lambda: _ODD_FLOATS[value % len(_ODD_FLOATS)],
        FieldDescriptor.CPPTYPE_INT32: lambda: _within(value, 32, True),
        FieldDescriptor.CPPTYPE_INT64: lambda: _within(value, 64, True),
        FieldDescriptor.CPPTYPE_UINT32: lambda: _within(value, 32, False),
        FieldDescriptor.CPPTYPE_UINT64: lambda: _within(value, 64, False),
        FieldDescriptor.CPPTYPE_ENUM: lambda: _within(value, 32, True),
    }
    if field.cpp_type in choices:
        return choices[field.cpp_type]()
    if field.type == FieldDescriptor.TYPE_BYTES:
        return bytes(value % 7) * (1, 100, 9001)[value % 3]
    return _ODD_STRINGS[value % len(_ODD_STRINGS)]


def _within(value: int, bits: int, signed: bool) -> int:
    number = _ODD_NUMBERS[value % len(_ODD_NUMBERS)] % (1 << bits)
    return number - (1 << bits) if signed and number >= 1 << bits - 1 else number
