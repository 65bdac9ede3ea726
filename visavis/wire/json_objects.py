"""Objects that travel as JSON text: what a tool takes, and what it is called with."""

from __future__ import annotations

import json


def is_json_object(text: str) -> bool:
    """Whether it is one, to others than Python as well."""
    try:
        return isinstance(json.loads(text, parse_constant=_no_json), dict)
    except (ValueError, RecursionError):
        return False


def _no_json(constant: str) -> None:
    raise ValueError(f"{constant}, which Python reads, is not JSON")
