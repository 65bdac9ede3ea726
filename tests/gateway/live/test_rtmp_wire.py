"""RTMP's bytes: values, chunks, and what odd ones lead to."""

from __future__ import annotations

import struct

import pytest

from gateway.live.rtmp.amf import AmfError, decode, ecma_array, encode
from gateway.live.rtmp.chunks import (
    COMMAND,
    PICTURE,
    SET_CHUNK_SIZE,
    SOUND,
    ChunkError,
    ChunkReader,
    Message,
    chunked,
)


def test_values_come_back_as_they_were() -> None:
    values = ["connect", 1.0, {"app": "live", "deep": True, "n": 4.5}, None, "人", "x" * 70_000]
    assert decode(encode(*values)) == values  # type: ignore[arg-type]
    assert decode(ecma_array({"width": 64, "stereo": True})) == [{"width": 64.0, "stereo": True}]


@pytest.mark.parametrize(
    "odd",
    [
        b"\x02\x00\x09abc",
        b"\x00\x01",
        b"\x63",
        b"\x02\x00\x01\xff",
        b"\x03\x00\x01a",
        b"\x0a\xff" * 9,
        b"\x03\x00\x01a" * 20,
    ],
)
def test_what_is_no_amf_is_refused(odd: bytes) -> None:
    with pytest.raises(AmfError):
        decode(odd)


def test_messages_come_back_whole_however_they_are_cut() -> None:
    messages = [
        Message(PICTURE, bytes(range(256)) * 50, 40, 1),
        Message(SOUND, b"sound", 41, 1),
        Message(COMMAND, b"", 0, 0),
        Message(PICTURE, b"late" * 100, 0xFFFFFF + 7, 1),
    ]
    size = Message(SET_CHUNK_SIZE, struct.pack(">I", 4096))
    sent = chunked(size, 2) + b"".join(chunked(m, 6) for m in messages)
    for step in (1, 7, len(sent)):
        reader = ChunkReader()
        found = [m for at in range(0, len(sent), step) for m in reader.feed(sent[at : at + step])]
        assert found == [size, *messages]


def test_chunks_of_two_messages_in_turns_and_short_headers() -> None:
    first = bytes([6]) + (100).to_bytes(3, "big") + (200).to_bytes(3, "big") + bytes([PICTURE])
    other = bytes([4]) + (100).to_bytes(3, "big") + (3).to_bytes(3, "big") + bytes([SOUND])
    stream = struct.pack("<I", 1)
    sent = first + stream + b"p" * 128 + other + stream + b"abc" + b"\xc6" + b"p" * 72
    # The next one of the same kind and length: only its distance in time; then not even that.
    sent += b"\x84" + (20).to_bytes(3, "big") + b"def" + b"\xc4" + b"ghi"
    found = [(m.kind, m.payload, m.time_ms) for m in ChunkReader().feed(sent)]
    assert found == [
        (SOUND, b"abc", 100),
        (PICTURE, b"p" * 200, 100),
        (SOUND, b"def", 120),
        (SOUND, b"ghi", 140),
    ]


@pytest.mark.parametrize(
    "odd",
    [
        b"\xc6",
        b"\x46" + bytes(7),
        bytes([6, 0, 0, 0, 0xFF, 0xFF, 0xFF, 9, 0, 0, 0, 0]),
        chunked(Message(SET_CHUNK_SIZE, bytes(4)), 2),
    ],
)
def test_what_is_no_rtmp_is_refused(odd: bytes) -> None:
    with pytest.raises(ChunkError):
        ChunkReader().feed(odd)
