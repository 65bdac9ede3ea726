"""Every message of a session's events socket, and every field of it, as docs/events.md has them.

`python -m deploy.events_page` writes that page anew from gateway/api/events.py.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel

from gateway.api import events

PAGE = Path(__file__).parents[1] / "docs" / "events.md"

_HEAD = """# The events of a session, one by one

Written by `python -m deploy.events_page` from `gateway/api/events.py`; [apps.md](apps.md) tells how
they follow one another. All of them are JSON objects with a `type`, on the WebSocket
`/v1/sessions/{id}/events`. What has no value is left out. Other kinds and other fields may come:
ignore what you do not know. (What the gateway is sent has to be known to it: a message with an
unknown field is answered with an `error`.) As many clients as `max_viewers` (64) says, and 16 more,
may listen at once; the next one is refused with 503.
"""
_PLAIN = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
}


def page() -> str:
    """The whole page."""
    parts = [_HEAD, "## From the gateway\n"]
    parts += [_message(model) for model in get_args(events.ServerEvent)]
    parts.append("## To the gateway\n")
    parts += [_message(model) for model in get_args(events.Command)]
    parts.append("## Parts of them\n")
    parts += [_table(f"### {model.__name__}", model) for model in _parts()]
    return "\n".join(parts)


def models() -> list[type[BaseModel]]:
    """Everything that the page tells of."""
    return [*get_args(events.ServerEvent), *get_args(events.Command), *_parts()]


def _parts() -> list[type[BaseModel]]:
    """What messages are made of, beside plain values."""
    found: dict[str, type[BaseModel]] = {}
    for model in get_args(events.ServerEvent):
        for name in model.model_json_schema().get("$defs", {}):
            part = getattr(events, name, None)
            if inspect.isclass(part) and issubclass(part, BaseModel):
                found[name] = part
    return list(found.values())


def _message(model: type[BaseModel]) -> str:
    (kind,) = get_args(model.model_fields["type"].annotation)
    return _table(f"### `{kind}`", model)


def _table(heading: str, model: type[BaseModel]) -> str:
    lines = [heading, "", inspect.cleandoc(model.__doc__ or ""), ""]
    rows = list(_rows(model))
    if rows:
        lines += ["| field | what it is | meaning |", "|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _rows(model: type[BaseModel]) -> Iterator[str]:
    schema = model.model_json_schema()
    required = schema.get("required", [])
    for name, told in schema.get("properties", {}).items():
        if name == "type":
            continue
        what, absent = _what(told)
        default = told.get("default")
        if absent:
            what += "; may be absent"
        elif name not in required and default is not None and "const" not in told:
            what += f"; else {json.dumps(default)}"
        yield f"| `{name}` | {what} | {told.get('description', '')} |"


def _what(told: dict[str, Any]) -> tuple[str, bool]:
    """A field's kind in words, and whether it may be absent."""
    if "anyOf" in told:
        options = [option for option in told["anyOf"] if option.get("type") != "null"]
        words = " or ".join(_what(option)[0] for option in options)
        return words, len(options) < len(told["anyOf"])
    if "$ref" in told:
        name = told["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})", False
    if "enum" in told or "const" in told:
        values = told.get("enum", [told.get("const")])
        return " or ".join(f"`{value}`" if value else "empty" for value in values), False
    if told.get("type") == "array":
        return f"list of {_what(told['items'])[0]}", False
    if told.get("type") == "object":
        return "object", False
    return _PLAIN[told["type"]], False


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
