"""How pictures and files say of themselves that they are synthetic, to people and to programs."""

from __future__ import annotations

from typing import Final, Literal
from uuid import UUID

from visavis.h264 import message, with_message

SourceType = Literal["trainedAlgorithmicMedia"]
SOURCE_TYPE: Final[SourceType] = "trainedAlgorithmicMedia"
"""IPTC's term (Digital Source Type) for what a trained network has made."""
SYNTHETIC = f"Synthetic: face and voice were made by a computer. {SOURCE_TYPE}"
"""What every file says of itself; the last word is for programs."""

MARK_UUID = UUID("8ca9181e-c327-4f8e-aefe-b6ec1836532e")
"""Ours: whose an unregistered message in an H.264 stream is."""
_MARK_TEXT = f"visavis. {SYNTHETIC}".encode()
_USER_DATA_UNREGISTERED = 5
_MARK = message(_USER_DATA_UNREGISTERED, MARK_UUID.bytes + _MARK_TEXT)


def marked(access_unit: bytes) -> bytes:
    """An H.264 picture with a message that says so: supplemental enhancement information, user data
    unregistered (ITU-T H.264, D.1.7), before its first slice. access_unit: Annex B.

    Decoders pass over it; no viewer sees it, and whatever passes the stream on unchanged keeps it.
    """
    return with_message(access_unit, _MARK)
