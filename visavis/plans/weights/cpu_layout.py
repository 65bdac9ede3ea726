"""Which weights of a language model a CPU reads faster in another type: pure, by the header.

Where the columns of a model are no multiple of 256, published files hold Q5_0 or Q4_1, slow types
on a CPU. What follows was measured (docs/language-models.md has the figures): in the two wide
matrices of a layer of Q5_0 sixteen uneven steps lose little and gain most; the rest becomes Q8_0,
which holds every weight of Q5_0 exactly, and those of Q4_1 to a hundredth of their step. Other
types stay: other steps in place of Q4_1's sixteen lose too much, and six bits are fast enough.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import IntEnum

from visavis.plans.weights.gguf_header import TensorInfo


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
_BLOCK_WEIGHTS = 32
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
    return columns % _BLOCK_WEIGHTS == 0 and rows % _ROWS_AT_ONCE == 0
