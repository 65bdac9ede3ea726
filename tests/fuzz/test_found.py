"""What was found once, kept: each of these crashed its decoder, hung it, or made it swallow."""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.fuzz.catalogue import DECODERS
from tests.fuzz.decoder import attempt
from tests.fuzz.doors import OFFER
from tests.fuzz.files import SHIPPED_AVATAR, small_gguf

_DEEP = b"[" * 20_000


def _learned(**told: Any) -> bytes:
    answer = {
        "persona_digest": "x", "language": "en", "question": "Who?", "answer": "Ada.",
        "learned_at_s": 1.0,
    }  # fmt: skip
    return json.dumps({"version": 1, "answers": [answer | told]}).encode()


def _tensor(**told: Any) -> bytes:
    header = json.dumps({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]} | told})
    return struct.pack("<Q", len(header)) + header.encode() + bytes(8)


def _zip(name: str, *, flags: int = 0, packed: int = 0) -> bytes:
    """An archive of one file that says that it is encrypted, or packed in a strange way."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, b"x" * 100)
    content = bytearray(file.getvalue())
    for head, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = content.index(head) + at
        content[place] |= flags
        content[place + 2] = packed
    return bytes(content)


def _doubled(levels: int) -> Any:
    """A list of one list twice, and so on: short to write, long to walk through."""
    found: Any = []
    for _ in range(levels):
        found = [found, found]
    return found


def _checkpoint(content: Any) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(content))
    return file.getvalue()


def _aligned(alignment: int) -> bytes:
    """A GGUF file whose weights lie that far apart."""
    content = small_gguf()
    key = b"general.alignment"
    pair = struct.pack("<Q", len(key)) + key + struct.pack("<II", 4, alignment)
    magic, version, tensors, pairs = struct.unpack_from("<4sIQQ", content)
    return struct.pack("<4sIQQ", magic, version, tensors, pairs + 1) + pair + content[24:]


def _mesh(name: str, change: Callable[[Any], Any]) -> tuple[str, bytes]:
    with np.load(SHIPPED_AVATAR / "mesh.npz") as stored:
        arrays = dict(stored)
    arrays[name] = change(arrays[name])
    file = io.BytesIO()
    np.savez(file, **arrays)
    return "mesh.npz", file.getvalue()


def _boxes(depth: int) -> bytes:
    content = b""
    for _ in range(depth):
        content = struct.pack(">I4s", len(content) + 8, b"moov") + content
    return content


def _offer(line: str, count: int) -> bytes:
    head = "v=0\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111\r\nm=video 9 UDP/TLS/RTP/SAVPF 96\r\n"
    return (head + line * count).encode()


def _array_of(header: bytes) -> bytes:
    """An archive of one array whose description this is."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("source.npy", b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header)
    return file.getvalue()


FOUND: list[tuple[str, Any]] = [
    ("sdp-offer", OFFER.replace(b"BUNDLE 0 1", b"BUNDLE x 0 1")),
    ("package-archive", b"\x1f\x8b\x08"),
    ("gguf", struct.pack("<4sIQQ", b"GGUF", 3, 0, 0)),
    ("avatar-folder", ("mesh.npz", _array_of(b"{'a': ("))),
    ("npz", _array_of(b"{'a': (")),
    ("discovery-answer", _DEEP),
    ("starting-note", _DEEP),
    ("learned-answers", _DEEP),
    ("learned-answers", _learned(hits=None)),
    ("learned-answers", _learned(question="\ud800")),
    ("heard-words", ("one two three " * 500, "one three " * 700)),
    ("face-pictures", [b"\0\0\0\1\0\0\0\0\1\x65x"]),
    ("sdp-offer", _offer("a=candidate:1 1 udp 1 192.0.2.1 9 typ host\r\n", 3000)),
    ("sdp-offer", _offer("m=audio 9 UDP/TLS/RTP/SAVPF 111\r\n", 3000)),
    ("packed-avatar", _zip("avatar.toml", flags=1)),
    ("packed-avatar", _zip("avatar.toml", packed=99)),
    ("avatar-folder", ("mesh.npz", b"PK\x05\x06")),
    ("avatar-folder", ("avatar.toml", b"a = " + _DEEP)),
    ("avatar-folder", ("avatar.toml", b'version = 1\nname = ""\nsize = inf')),
    ("avatar-folder", _mesh("triangles", lambda corners: corners.astype(np.int32) + 100_000)),
    ("avatar-folder", _mesh("rest", lambda points: points * np.nan)),
    ("answers-json", _DEEP),
    ("answers-toml", b"a = " + _DEEP),
    ("settings-toml", b"a = " + _DEEP),
    ("bundle-manifest", b"a = " + _DEEP),
    ("weights-json", _DEEP),
    ("safetensors", _tensor(shape=[float("inf")])),
    ("safetensors", _tensor(shape=[-1, -2])),
    ("safetensors", _tensor(shape=[1] * 70 + [2])),
    ("npz", b"PK\x03\x04"),
    ("npz", _zip("a.npy", flags=1)),
    ("npz", _zip("a.npy", packed=99)),
    ("torch-checkpoint", _checkpoint({"a": _doubled(60)})),
    ("gguf", _aligned((1 << 32) - 1)),
    ("tflite", b"\xff\0\0\0TFL3" + bytes(64)),
    ("live-film", [_boxes(2000)]),
]


@pytest.mark.parametrize(
    ("name", "given"), FOUND, ids=[f"{index}-{name}" for index, (name, _) in enumerate(FOUND)]
)
def test_it_is_not_found_again(name: str, given: Any) -> None:
    (decoder,) = [one for one in DECODERS if one.name == name]
    attempt(decoder, given)
