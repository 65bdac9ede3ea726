"""Boxes of the ISO base media file format (ISO/IEC 14496-12, -14 and -15).

Each function returns the bytes of one box, named after it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

_MATRIX = struct.pack(">9I", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)


def box(kind: str, *content: bytes) -> bytes:
    """A box: size, four-letter type, content."""
    body = b"".join(content)
    return struct.pack(">I4s", 8 + len(body), kind.encode()) + body


def full_box(kind: str, version: int, flags: int, *content: bytes) -> bytes:
    """A box with version and flags."""
    return box(kind, struct.pack(">I", version << 24 | flags), *content)


def ftyp() -> bytes:
    return box("ftyp", b"iso6", struct.pack(">I", 1), b"iso6", b"isom", b"mp41", b"dash")


def mvhd(duration_ms: int) -> bytes:
    """Movie header; time scale 1000."""
    return full_box(
        "mvhd",
        0,
        0,
        struct.pack(">IIII", 0, 0, 1000, duration_ms),
        struct.pack(">IHHII", 0x10000, 0x0100, 0, 0, 0),
        _MATRIX,
        bytes(24),
        struct.pack(">I", 0xFFFFFFFF),
    )


def tkhd(track_id: int, duration_ms: int, *, volume: int, width: int, height: int) -> bytes:
    return full_box(
        "tkhd",
        0,
        0x3,
        struct.pack(">IIIII", 0, 0, track_id, 0, duration_ms),
        struct.pack(">IIHHHH", 0, 0, 0, 0, volume, 0),
        _MATRIX,
        struct.pack(">II", width << 16, height << 16),
    )


def edts(duration_ms: int, media_time: int) -> bytes:
    """Edit list of one entry: presentation starts at `media_time` of the track."""
    entry = struct.pack(">IIiHH", 1, duration_ms, media_time, 1, 0)
    return box("edts", full_box("elst", 0, 0, entry))


def mdhd(time_scale: int) -> bytes:
    # 0x55C4 is the packed language code "und".
    return full_box("mdhd", 0, 0, struct.pack(">IIIIHH", 0, 0, time_scale, 0, 0x55C4, 0))


def hdlr(kind: str, name: str) -> bytes:
    return full_box("hdlr", 0, 0, bytes(4), kind.encode(), bytes(12), name.encode() + b"\0")


def dinf() -> bytes:
    # One data reference, flagged as "in this file".
    return box("dinf", full_box("dref", 0, 0, struct.pack(">I", 1), full_box("url ", 0, 1)))


def stbl(sample_entry: bytes) -> bytes:
    """Sample table with no samples: they stand in the fragments."""
    return box(
        "stbl",
        full_box("stsd", 0, 0, struct.pack(">I", 1), sample_entry),
        full_box("stts", 0, 0, bytes(4)),
        full_box("stsc", 0, 0, bytes(4)),
        full_box("stsz", 0, 0, bytes(8)),
        full_box("stco", 0, 0, bytes(4)),
    )


def avc1(width: int, height: int, sps: bytes, pps: bytes) -> bytes:
    """Sample entry of H.264 with its parameter sets (ISO/IEC 14496-15)."""
    config = struct.pack(">BBBBBB", 1, sps[1], sps[2], sps[3], 0xFF, 0xE1)
    config += struct.pack(">H", len(sps)) + sps + struct.pack(">BH", 1, len(pps)) + pps
    return box(
        "avc1",
        struct.pack(">6xH16xHHIIIH32xHh", 1, width, height, 0x480000, 0x480000, 0, 1, 0x18, -1),
        box("avcC", config),
    )


def mp4a(sample_rate_hz: int, channels: int, audio_specific_config: bytes) -> bytes:
    """Sample entry of AAC (ISO/IEC 14496-14)."""

    def descriptor(tag: int, *content: bytes) -> bytes:
        body = b"".join(content)
        return struct.pack(">BB", tag, len(body)) + body

    specific = descriptor(5, audio_specific_config)
    # 0x40: MPEG-4 audio; 0x15: an audio stream.
    decoder = descriptor(4, struct.pack(">BB3xII", 0x40, 0x15, 0, 0), specific)
    es = descriptor(3, struct.pack(">HB", 0, 0), decoder, descriptor(6, b"\x02"))
    return box(
        "mp4a",
        struct.pack(">6xH8xHHHHI", 1, channels, 16, 0, 0, sample_rate_hz << 16),
        full_box("esds", 0, 0, es),
    )


def trex(track_id: int) -> bytes:
    return full_box("trex", 0, 0, struct.pack(">IIIII", track_id, 1, 0, 0, 0))


@dataclass(frozen=True, slots=True)
class Sample:
    """One access unit. `duration` in the track's time scale."""

    payload: bytes
    duration: int
    keyframe: bool = True


def fragment(sequence: int, track_id: int, decode_time: int, samples: Sequence[Sample]) -> bytes:
    """moof and mdat of one track's consecutive samples."""
    # tfhd flag: default-base-is-moof. trun flags: data offset, and per sample
    # duration, size, flags.
    head = full_box("tfhd", 0, 0x020000, struct.pack(">I", track_id))
    time = full_box("tfdt", 1, 0, struct.pack(">Q", decode_time))
    entries = b"".join(
        struct.pack(">III", s.duration, len(s.payload), 0x02000000 if s.keyframe else 0x01010000)
        for s in samples
    )

    def moof(offset: int) -> bytes:
        run = full_box("trun", 0, 0x000701, struct.pack(">Ii", len(samples), offset), entries)
        return box(
            "moof",
            full_box("mfhd", 0, 0, struct.pack(">I", sequence)),
            box("traf", head, time, run),
        )

    offset = len(moof(0)) + 8
    return moof(offset) + box("mdat", *(s.payload for s in samples))
