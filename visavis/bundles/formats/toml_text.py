"""Plain tables as TOML text, in the order given: what tomllib reads back as the same tables."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")
# Below a profile everything is one range to a line.
_INLINE = frozenset({"min", "opt", "max"})


def to_toml(table: Mapping[str, Any]) -> str:
    """`table` as TOML. Values are text, numbers, booleans, lists and tables of these.

    Raises TypeError for anything else.
    """
    return "\n".join(_lines(table, ())).lstrip("\n") + "\n"


def _lines(table: Mapping[str, Any], place: tuple[str, ...]) -> list[str]:
    """Plain values first: what follows a [table] line would belong to that table."""
    plain = [f"{_key(k)} = {_value(v)}" for k, v in table.items() if not _is_section(v)]
    for key, value in table.items():
        if not _is_section(value):
            continue
        path = (*place, key)
        if isinstance(value, Mapping):
            inner = _lines(value, path)
            # A table that only holds tables needs no line of its own.
            only_tables = value and all(_is_section(v) for v in value.values())
            plain += inner if only_tables else ["", f"[{_path(path)}]", *inner]
        else:
            for item in value:
                plain += ["", f"[[{_path(path)}]]", *_lines(item, path)]
    return plain


def _is_section(value: Any) -> bool:
    if isinstance(value, Mapping):
        return not set(value) <= _INLINE or not value
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and bool(value)
        and all(isinstance(item, Mapping) for item in value)
    )


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON's strings are TOML's basic strings, but for DEL.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_key(k)} = {_value(v)}" for k, v in value.items()) + " }"
    if isinstance(value, Sequence):
        return "[" + ", ".join(_value(item) for item in value) + "]"
    raise TypeError(f"TOML has nothing for {type(value).__name__}")


def _path(keys: Sequence[str]) -> str:
    return ".".join(_key(key) for key in keys)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else json.dumps(key, ensure_ascii=False)
