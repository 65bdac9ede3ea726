"""Size of a picture read from its first bytes, so that nothing huge is ever decoded."""

from __future__ import annotations

import struct

_JPEG_START_OF_FRAME = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_STANDALONE = frozenset(range(0xD0, 0xDA)) | {0x01}


def image_size(content: bytes) -> tuple[int, int] | None:
    """(width, height) in pixels that a JPEG, PNG or WebP declares; None for anything else or a cut
    header.
    """
    try:
        if content.startswith(b"\x89PNG\r\n\x1a\n") and content[12:16] == b"IHDR":
            width, height = struct.unpack_from(">II", content, 16)
            return width, height
        if content.startswith(b"\xff\xd8"):
            return _jpeg_size(content)
        if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
            return _webp_size(content)
    except (struct.error, IndexError):
        return None
    return None


def _jpeg_size(content: bytes) -> tuple[int, int] | None:
    """Walks the marker segments up to the start of frame (ITU-T T.81, annex B)."""
    at = 2
    while True:
        if content[at] != 0xFF:
            return None
        marker = content[at + 1]
        if marker == 0xFF:
            at += 1
        elif marker in _JPEG_STANDALONE:
            at += 2
        elif marker in _JPEG_START_OF_FRAME:
            height, width = struct.unpack_from(">HH", content, at + 5)
            return width, height
        else:
            at += 2 + max(2, struct.unpack_from(">H", content, at + 2)[0])


def _webp_size(content: bytes) -> tuple[int, int] | None:
    """The three chunk kinds of the WebP container: lossy, lossless, extended."""
    kind = content[12:16]
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", content, 26)
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L":
        bits = struct.unpack_from("<I", content, 21)[0]
        return (bits & 0x3FFF) + 1, ((bits >> 14) & 0x3FFF) + 1
    if kind == b"VP8X":
        width = int.from_bytes(content[24:27], "little") + 1
        height = int.from_bytes(content[27:30], "little") + 1
        return width, height
    return None
