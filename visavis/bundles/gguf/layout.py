"""Which weights of a language model a CPU reads faster in another type, and a file written so.

Where the columns of a model are no multiple of 256, published files hold Q5_0 or Q4_1, slow types
on a CPU. What follows was measured (docs/language-models.md has the figures): in the two wide
matrices of a layer of Q5_0 sixteen uneven steps lose little and gain most; the rest becomes Q8_0,
which holds every weight of Q5_0 exactly, and those of Q4_1 to a hundredth of their step. Other
types stay: other steps in place of Q4_1's sixteen lose too much, and six bits are fast enough.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from io import BufferedReader
from typing import Protocol

import numpy as np

from visavis.bundles.compile.build_progress import Cancelled, stop_if
from visavis.bundles.gguf import block_types
from visavis.bundles.gguf.block_types import BLOCK_WEIGHTS, Bytes
from visavis.bundles.gguf.header import (
    GgufError,
    GgufHeader,
    TensorInfo,
    header_bytes,
    padding,
    size_of,
)


class GgmlType(IntEnum):
    """Numbers of the types that are read or written, as they stand in a file."""

    Q4_1 = 3
    Q5_0 = 6
    Q8_0 = 8
    IQ4_NL = 20


LAYOUT_REVISION = 2
"""Part of a prepared file's name: raised when the same source would give another file."""
# llama.cpp interleaves the weights of so many rows.
_ROWS_AT_ONCE = 8
# What is multiplied with, in every architecture that names its parts so.
_WIDE = re.compile(r"blk\.\d+\.ffn_(gate|up)\.weight")
_OTHERS = re.compile(r"blk\.\d+\.(attn_(q|k|v|qkv|output)|ffn_down)\.weight|output\.weight")


def to_lay_out(tensors: Sequence[TensorInfo]) -> Mapping[str, GgmlType]:
    """The tensors that change their type, and to which; all others stay as published."""
    types = {tensor.name: _type_of(tensor) for tensor in tensors if _fits(tensor)}
    return {name: kind for name, kind in types.items() if kind is not None}


def _type_of(tensor: TensorInfo) -> GgmlType | None:
    if _WIDE.fullmatch(tensor.name):
        return GgmlType.IQ4_NL if tensor.type == GgmlType.Q5_0 else GgmlType.Q8_0
    return GgmlType.Q8_0 if _OTHERS.fullmatch(tensor.name) else None


def _fits(tensor: TensorInfo) -> bool:
    if tensor.type not in (GgmlType.Q5_0, GgmlType.Q4_1) or len(tensor.shape) != 2:
        return False
    columns, rows = tensor.shape
    return columns % BLOCK_WEIGHTS == 0 and rows % _ROWS_AT_ONCE == 0


# Weights that are worked on at once: with all that is made of them they stay in the processor's
# second cache, and a cancel is seen within some milliseconds.
_CHUNK_WEIGHTS = 32_768
_COPY_BYTES = 1 << 20

OnFraction = Callable[[float], None]


class Sink(Protocol):
    """Where the new file goes."""

    def write(self, content: bytes, /) -> object: ...


@dataclass(frozen=True)
class _Conversion:
    """From blocks of one type to another's, 32 weights each."""

    source_block_bytes: int
    block_bytes: int
    convert: Callable[[Bytes], Bytes]


_CONVERSIONS: Mapping[tuple[int, int], _Conversion] = {
    (GgmlType.Q5_0, GgmlType.IQ4_NL): _Conversion(
        block_types.Q5_0_BYTES,
        block_types.IQ4_NL_BYTES,
        lambda blocks: block_types.quantize_iq4_nl(block_types.dequantize_q5_0(blocks)),
    ),
    (GgmlType.Q5_0, GgmlType.Q8_0): _Conversion(
        block_types.Q5_0_BYTES, block_types.Q8_0_BYTES, block_types.q5_0_as_q8_0
    ),
    (GgmlType.Q4_1, GgmlType.Q8_0): _Conversion(
        block_types.Q4_1_BYTES,
        block_types.Q8_0_BYTES,
        lambda blocks: block_types.quantize_q8_0(block_types.dequantize_q4_1(blocks)),
    ),
}


@dataclass(frozen=True)
class _Job:
    """One tensor: where it lies in the source, and what it becomes."""

    source: TensorInfo
    source_bytes: int
    target: TensorInfo
    target_bytes: int


def rewrite(
    source: BufferedReader,
    header: GgufHeader,
    target: Sink,
    types: Mapping[str, GgmlType],
    *,
    on_fraction: OnFraction,
    cancelled: Cancelled,
) -> None:
    """Write to `target` what `source` holds, the tensors of `types` as what it says.

    Takes a few megabytes of memory. Raises GgufError if the source is shorter than its header
    says, PlanCancelledError once `cancelled` says so, OSError from either file.
    """
    jobs = list(_jobs(header, types, os.fstat(source.fileno()).st_size))
    target.write(header_bytes(header, [job.target for job in jobs]))
    whole = sum(job.source_bytes for job in jobs)
    done = 0
    for job in jobs:
        source.seek(header.weights_offset + job.source.offset)
        moved = _laid_out(source, job) if job.source.name in types else _copied(source, job)
        for read_bytes, block in moved:
            stop_if(cancelled)
            target.write(block)
            done += read_bytes
            on_fraction(done / whole)
        target.write(bytes(padding(job.target_bytes, header.alignment)))


def written_bytes(header: GgufHeader, types: Mapping[str, GgmlType], source_bytes: int) -> int:
    """Size of the weights that `rewrite` would write."""
    return sum(
        job.target_bytes + padding(job.target_bytes, header.alignment)
        for job in _jobs(header, types, source_bytes)
    )


def _jobs(header: GgufHeader, types: Mapping[str, GgmlType], file_bytes: int) -> Iterator[_Job]:
    """A tensor ends where the next one begins, whatever its type: unknown types are copied."""
    if not header.tensors:
        return
    ends = sorted({tensor.offset for tensor in header.tensors})
    end_of = dict(zip(ends, [*ends[1:], file_bytes - header.weights_offset], strict=True))
    offset = 0
    for tensor in header.tensors:
        size = end_of[tensor.offset] - tensor.offset
        becomes, becomes_bytes = tensor.type, size
        if tensor.name in types:
            blocks = size_of(tensor.shape) // BLOCK_WEIGHTS
            becomes = types[tensor.name]
            conversion = _CONVERSIONS[tensor.type, becomes]
            size = blocks * conversion.source_block_bytes
            becomes_bytes = blocks * conversion.block_bytes
        if size < 0 or header.weights_offset + tensor.offset + size > file_bytes:
            raise GgufError(f"the file ends before the weights of {tensor.name} do")
        yield _Job(tensor, size, replace(tensor, type=becomes, offset=offset), becomes_bytes)
        offset += becomes_bytes + padding(becomes_bytes, header.alignment)


def _laid_out(source: BufferedReader, job: _Job) -> Iterator[tuple[int, bytes]]:
    conversion = _CONVERSIONS[job.source.type, job.target.type]
    block_bytes = conversion.source_block_bytes
    left = job.source_bytes
    while left:
        content = _read(source, min(_CHUNK_WEIGHTS // BLOCK_WEIGHTS * block_bytes, left))
        left -= len(content)
        blocks = np.frombuffer(content, np.uint8).reshape(-1, block_bytes)
        yield len(content), conversion.convert(blocks).tobytes()


def _copied(source: BufferedReader, job: _Job) -> Iterator[tuple[int, bytes]]:
    left = job.source_bytes
    while left:
        content = _read(source, min(_COPY_BYTES, left))
        left -= len(content)
        yield len(content), content


def _read(source: BufferedReader, count: int) -> bytes:
    content = source.read(count)
    if len(content) != count:
        raise GgufError("the file became shorter while it was read")
    return content
