"""How pictures and files say of themselves that they are synthetic, to people and to programs."""

from __future__ import annotations

import re
from typing import Final, Literal
from uuid import UUID

SourceType = Literal["trainedAlgorithmicMedia"]
SOURCE_TYPE: Final[SourceType] = "trainedAlgorithmicMedia"
"""IPTC's term (Digital Source Type) for what a trained network has made."""
SYNTHETIC = f"Synthetic: face and voice were made by a computer. {SOURCE_TYPE}"
"""What every file says of itself; the last word is for programs."""

MARK_UUID = UUID("8ca9181e-c327-4f8e-aefe-b6ec1836532e")
"""Ours: whose an unregistered message in an H.264 stream is."""
_MARK_TEXT = f"visavis. {SYNTHETIC}".encode()
_SEI, _USER_DATA_UNREGISTERED, _END = 6, 5, 0x80
# No zeros in it that would have to be kept apart from a start code; one byte holds its length.
_PAYLOAD = MARK_UUID.bytes + _MARK_TEXT
_MARK = bytes([0, 0, 0, 1, _SEI, _USER_DATA_UNREGISTERED, len(_PAYLOAD), *_PAYLOAD, _END])
_START_CODE = re.compile(rb"\x00?\x00\x00\x01")
_SLICES = range(1, 6)


def marked(access_unit: bytes) -> bytes:
    """An H.264 picture with a message that says so: supplemental enhancement information, user data
    unregistered (ITU-T H.264, D.1.7), before its first slice. access_unit: Annex B.

    Decoders pass over it; no viewer sees it, and whatever passes the stream on unchanged keeps it.
    """
    for start in _START_CODE.finditer(access_unit):
        header = access_unit[start.end() : start.end() + 1]
        if header and header[0] & 0x1F in _SLICES:
            return access_unit[: start.start()] + _MARK + access_unit[start.start() :]
    return access_unit
