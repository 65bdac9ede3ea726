"""Reads and writes `.safetensors`: little-endian length u64, a JSON header of that length, bytes.

The header gives for each tensor its dtype, shape and the two offsets between which it lies,
counted from the end of the header (https://github.com/huggingface/safetensors#format).
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visavis.serving.errors import ModelStoreError

Array = NDArray[np.generic]

_DTYPES: dict[str, type[np.generic]] = {
    "F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32,
    "I16": np.int16, "I8": np.int8, "U8": np.uint8, "BOOL": np.bool_,
}  # fmt: skip
_BFLOAT16 = "BF16"
_LONGEST_HEADER_BYTES = 100 << 20
_MOST_DIMENSIONS = 32


def read_safetensors(path: Path) -> dict[str, Array]:
    """Every tensor by name, with its own shape and dtype, but bfloat16 as float32: mapped rather
    than read into memory.

    Raises ModelStoreError if the file is damaged or no safetensors file, OSError if it
    cannot be read.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        start = 8 + _number(path, file.read(8))
        if not 8 < start <= min(size, _LONGEST_HEADER_BYTES):
            raise ModelStoreError(f"{path} is no safetensors file, or it is cut short")
        header = _header(path, file.read(start - 8))
    content: NDArray[np.uint8] = (
        np.memmap(path, np.uint8, "r", offset=start) if size > start else np.zeros(0, np.uint8)
    )
    return {name: _tensor(path, name, entry, content) for name, entry in header.items()}


def write_safetensors(path: Path, tensors: Mapping[str, Array]) -> None:
    """Write `tensors` of any shape and of a dtype that the format knows; `read_safetensors` gives
    their equals back.
    """
    codes: dict[np.dtype[Any], str] = {np.dtype(dtype): code for code, dtype in _DTYPES.items()}
    header: dict[str, Any] = {}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.nbytes
        header[name] = {
            "dtype": codes[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(np.ascontiguousarray(tensor).tobytes())


def _number(path: Path, raw: bytes) -> int:
    if len(raw) != 8:
        raise ModelStoreError(f"{path} is no safetensors file, or it is cut short")
    (value,) = struct.unpack("<Q", raw)
    return int(value)


def _header(path: Path, raw: bytes) -> dict[str, Any]:
    try:
        header = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ModelStoreError(f"{path} is no safetensors file: {error}") from error
    if not isinstance(header, dict):
        raise ModelStoreError(f"{path} is no safetensors file: it has no table of tensors")
    header.pop("__metadata__", None)
    return header


def _tensor(path: Path, name: str, entry: Any, content: NDArray[np.uint8]) -> Array:
    try:
        code, shape = str(entry["dtype"]), [int(n) for n in entry["shape"]]
        start, end = (int(n) for n in entry["data_offsets"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ModelStoreError(f"{path}: {name} is not described as it should be") from error
    if len(shape) > _MOST_DIMENSIONS or min(shape, default=0) < 0:
        raise ModelStoreError(f"{path}: {name} has an impossible shape")
    if code != _BFLOAT16 and code not in _DTYPES:
        raise ModelStoreError(f"{path}: {name} is of the type {code}, which is not read here")
    dtype = np.dtype(np.uint16 if code == _BFLOAT16 else _DTYPES[code])
    if not 0 <= start <= end <= len(content):
        raise ModelStoreError(f"{path} is cut short: {name} lies beyond its end")
    if end - start != math.prod(shape) * dtype.itemsize:
        raise ModelStoreError(f"{path}: {name} does not fill its shape {shape}")
    values = content[start:end].view(dtype).reshape(shape)
    return widened(values) if code == _BFLOAT16 else values


def widened(halves: NDArray[Any]) -> NDArray[np.float32]:
    """bfloat16, given as [...] uint16: the upper half of a float32, which this is then."""
    return (halves.astype(np.uint32) << np.uint32(16)).view(np.float32)
