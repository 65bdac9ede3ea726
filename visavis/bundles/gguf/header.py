"""The beginning of a GGUF file: read as far as rewriting the weights needs, and written.

Keys and values are passed on byte for byte: a tokenizer of 150,000 words is walked over, not
made into objects. Format: github.com/ggml-org/ggml, docs/gguf.md, versions 2 and 3.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from io import BufferedReader

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_DEFAULT_ALIGNMENT, _LARGEST_ALIGNMENT = 32, 1 << 16
_STRING, _ARRAY, _UINT32 = 8, 9, 4
_SCALAR_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_MOST_DIMENSIONS = 4
_PREFIX = struct.Struct("<4sIQQ")


class GgufError(ValueError):
    """The file is not one that can be read; the message says why."""


@dataclass(frozen=True)
class TensorInfo:
    """One tensor as the header tells it."""

    name: str
    shape: tuple[int, ...]
    """Innermost first: a matrix is (columns, rows)."""
    type: int
    offset: int
    """From the beginning of the weights, bytes."""


@dataclass(frozen=True)
class GgufHeader:
    """What stands before the weights."""

    version: int
    pairs: int
    """How many keys with values `metadata` holds."""
    metadata: bytes
    alignment: int
    tensors: tuple[TensorInfo, ...]
    weights_offset: int
    """Where in the file the weights begin."""


def read_header(file: BufferedReader) -> GgufHeader:
    """The header of an open file. Raises GgufError for what is no GGUF, or cut off."""
    try:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _Cursor(content).header()
    except (ValueError, struct.error, IndexError, OverflowError) as error:
        raise GgufError(f"not a GGUF file that can be read: {error}") from error


def header_bytes(source: GgufHeader, tensors: Sequence[TensorInfo]) -> bytes:
    """The header of a file with the metadata of `source` and these tensors, padded."""
    parts = [_PREFIX.pack(MAGIC, source.version, len(tensors), source.pairs), source.metadata]
    for tensor in tensors:
        name = tensor.name.encode()
        parts.append(struct.pack("<Q", len(name)) + name)
        parts.append(struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape))
        parts.append(struct.pack("<IQ", tensor.type, tensor.offset))
    written = b"".join(parts)
    return written + bytes(padding(len(written), source.alignment))


def padding(size_bytes: int, alignment: int) -> int:
    """Bytes to add so that the next thing is aligned."""
    return -size_bytes % alignment


class _Cursor:
    """Reads forward through the header."""

    def __init__(self, content: mmap.mmap) -> None:
        self._content = content
        self._at = 0

    def header(self) -> GgufHeader:
        magic, version, tensor_count, pairs = _PREFIX.unpack_from(self._content, 0)
        if magic != MAGIC or version not in _VERSIONS:
            raise GgufError(f"it begins with {magic!r}, version {version}")
        self._at = _PREFIX.size
        alignment = _DEFAULT_ALIGNMENT
        for _ in range(pairs):
            key, kind = self._string(), self._number("<I")
            if key == b"general.alignment" and kind == _UINT32:
                alignment = self._number("<I")
            else:
                self._skip(kind)
        metadata = self._content[_PREFIX.size : self._at]
        tensors = tuple(self._tensor() for _ in range(tensor_count))
        if self._at > len(self._content):
            raise GgufError("it is cut off")
        if not 1 <= alignment <= _LARGEST_ALIGNMENT:
            raise GgufError(f"its alignment of {alignment} is not one to {_LARGEST_ALIGNMENT}")
        weights_offset = self._at + padding(self._at, alignment)
        return GgufHeader(version, pairs, metadata, alignment, tensors, weights_offset)

    def _tensor(self) -> TensorInfo:
        name, dimensions = self._string().decode(), self._number("<I")
        if not 1 <= dimensions <= _MOST_DIMENSIONS:
            raise GgufError(f"tensor {name} has {dimensions} dimensions")
        shape = tuple(self._number("<Q") for _ in range(dimensions))
        return TensorInfo(name, shape, self._number("<I"), self._number("<Q"))

    def _skip(self, kind: int) -> None:
        if kind == _STRING:
            self._string()
        elif kind == _ARRAY:
            self._skip_array()
        elif kind in _SCALAR_BYTES:
            self._at += _SCALAR_BYTES[kind]
        else:
            raise GgufError(f"a value has the unknown type {kind}")

    def _skip_array(self) -> None:
        kind, count = self._number("<I"), self._number("<Q")
        if kind in _SCALAR_BYTES:
            self._at += _SCALAR_BYTES[kind] * count
        elif kind == _STRING:
            self._skip_strings(count)
        else:
            raise GgufError(f"an array holds values of the type {kind}")

    def _skip_strings(self, count: int) -> None:
        """Tight: a vocabulary and its merges are 300,000 of them."""
        at, content, length = self._at, self._content, struct.Struct("<Q").unpack_from
        for _ in range(count):
            at += 8 + length(content, at)[0]
        self._at = at

    def _string(self) -> bytes:
        length = self._number("<Q")
        if length > len(self._content) - self._at:
            raise GgufError("a text is longer than the file")
        self._at += length
        return self._content[self._at - length : self._at]

    def _number(self, layout: str) -> int:
        (number,) = struct.unpack_from(layout, self._content, self._at)
        self._at += struct.calcsize(layout)
        return int(number)


def size_of(shape: Sequence[int]) -> int:
    """How many weights a tensor holds."""
    return math.prod(shape)
