"""H.264 byte streams (ITU-T H.264 Annex B) as mp4 wants them."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

_START_CODE = re.compile(rb"\x00\x00\x00?\x01")

_SPS, _PPS, _DELIMITER = 7, 8, 9


@dataclass(frozen=True, slots=True)
class ParameterSets:
    """What a decoder must know before the first picture."""

    sps: bytes
    pps: bytes


def split_units(payload: bytes) -> list[bytes]:
    """NAL units of an Annex B access unit, without start codes."""
    units = _START_CODE.split(payload)[1:]
    # Zero bytes may pad a unit before the next start code.
    return [unit.rstrip(b"\0") for unit in units if unit]


def parameter_sets(units: list[bytes]) -> ParameterSets | None:
    """Those of a key frame; None where it carries none."""
    sps = next((u for u in units if u[0] & 0x1F == _SPS), None)
    pps = next((u for u in units if u[0] & 0x1F == _PPS), None)
    return ParameterSets(sps, pps) if sps and pps and len(sps) >= 4 else None


def length_prefixed(units: list[bytes], known: ParameterSets | None) -> bytes:
    """The access unit with a length before each NAL unit, as in an mp4 sample.

    Parameter sets that stand in the file's header already are left out.
    """
    out = []
    for unit in units:
        kind = unit[0] & 0x1F
        if kind == _DELIMITER or (known and unit in (known.sps, known.pps)):
            continue
        out.append(struct.pack(">I", len(unit)) + unit)
    return b"".join(out)
