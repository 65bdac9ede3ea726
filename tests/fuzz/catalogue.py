"""Every decoder that reads bytes from outside."""

from __future__ import annotations

from tests.fuzz import doors, files, live, messages, protocols
from tests.fuzz.decoder import Decoder

DECODERS: tuple[Decoder, ...] = (
    *messages.DECODERS,
    *doors.DECODERS,
    *live.DECODERS,
    *files.DECODERS,
    *protocols.DECODERS,
)
