"""Addresses of pages and mailboxes as they are said in English."""

from __future__ import annotations

import re

_ADDRESS = re.compile(
    r"(?:https?://|www\.)[^\s]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|\b(?:[\w-]+\.)+[a-z]{2,}/[^\s]*",
    re.IGNORECASE,
)
_TRAILING = ".,;:!?)]}>\"'”’"
_NAMES = {".": "dot", "/": "slash", "@": "at", "-": "dash", "_": "underscore", "?": "question mark",
          "&": "and", "=": "equals", "#": "hash", "%": "percent", ":": "colon", "+": "plus",
          "~": "tilde"}  # fmt: skip


def say_addresses(text: str) -> str:
    """`text` with "https://example.com/a" as "example dot com slash a"."""
    return _ADDRESS.sub(_say, text)


def _say(match: re.Match[str]) -> str:
    address = match.group()
    bare = address.rstrip(_TRAILING)
    tail = address[len(bare) :]
    bare = re.sub(r"^https?://", "", bare, flags=re.IGNORECASE).rstrip("/")
    bare = re.sub(r"^www\.", "", bare, flags=re.IGNORECASE)
    spoken = "".join(f" {_NAMES[char]} " if char in _NAMES else char for char in bare)
    return " ".join(spoken.split()) + tail
