"""Messages within an H.264 stream: supplemental enhancement information (ITU-T H.264, 7.3.2.3 and
annex D), which decoders pass over that do not know it. Pictures are Annex B throughout.
"""

from __future__ import annotations

import re

_SEI, _END = 6, 0x80
_LONGEST = 0xFE
_START_CODE = re.compile(rb"\x00?\x00\x00\x01")
_SLICES = range(1, 6)


def message(kind: int, payload: bytes) -> bytes:
    """A message of a `payloadType`, as a NAL unit of its own behind a start code.

    payload: at most 254 bytes, for one byte holds its length, with no two zeros in a row, which
    would have to be kept apart from a start code.
    """
    assert len(payload) <= _LONGEST and b"\0\0" not in payload
    return bytes([0, 0, 0, 1, _SEI, kind, len(payload), *payload, _END])


def with_message(access_unit: bytes, told: bytes) -> bytes:
    """A picture with a `message` before its first slice, where such belongs."""
    for start in _START_CODE.finditer(access_unit):
        header = access_unit[start.end() : start.end() + 1]
        if header and header[0] & 0x1F in _SLICES:
            return access_unit[: start.start()] + told + access_unit[start.start() :]
    return access_unit
