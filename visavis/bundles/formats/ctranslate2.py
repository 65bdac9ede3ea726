"""Reads the variables of a CTranslate2 `model.bin`.

Layout (little-endian), after the serialisation in CTranslate2's Python model
specification: version u32, specification name, revision u32, number of
variables u32; per variable its name, rank u8, dimensions u32 each, type u8,
length u32 and the bytes; then number of aliases u32 and pairs of names. A
name is its length u16, then UTF-8 with a closing zero byte.
"""

import math
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from visavis.bundles.formats.safetensors import widened
from visavis.serving.errors import ModelStoreError

_BFLOAT16 = 5
_DTYPES = {
    0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16, _BFLOAT16: np.uint16
}  # fmt: skip
_OLDEST_VERSION = 4
_MOST_DIMENSIONS = 32


class _Cursor:
    """Walks through the file; running off its end is an error that says so."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._bytes = memoryview(path.read_bytes())
        self._at = 0

    def take(self, n_bytes: int) -> memoryview:
        piece = self._bytes[self._at : self._at + n_bytes]
        if len(piece) != n_bytes:
            raise ModelStoreError(f"{self._path} is cut short: pull the bundle again")
        self._at += n_bytes
        return piece

    def number(self, code: str) -> int:
        (value,) = struct.unpack(f"<{code}", self.take(struct.calcsize(code)))
        return int(value)

    def name(self) -> str:
        try:
            return bytes(self.take(self.number("H"))).rstrip(b"\0").decode()
        except UnicodeDecodeError as error:
            raise ModelStoreError(f"{self._path} is not a CTranslate2 model: {error}") from error


def read_variables(path: Path, specification: str) -> dict[str, NDArray[np.generic]]:
    """Every tensor by its full name, with its own shape and dtype, but bfloat16 as float32; aliases
    appear as the same array.

    Raises ModelStoreError if the file is damaged or holds another model than
    `specification` (for example "WhisperSpec").
    """
    cursor = _Cursor(path)
    version = cursor.number("I")
    if not _OLDEST_VERSION <= version < 100:
        raise ModelStoreError(f"{path} is not a CTranslate2 model of a known version")
    found = cursor.name()
    if found != specification:
        raise ModelStoreError(f"{path} holds a {found}, not a {specification}")
    cursor.number("I")
    variables: dict[str, NDArray[np.generic]] = {}
    for _ in range(cursor.number("I")):
        name = cursor.name()
        variables[name] = _tensor(cursor, path, name)
    for _ in range(cursor.number("I")):
        alias, target = cursor.name(), cursor.name()
        if target not in variables:
            raise ModelStoreError(f"{path} is damaged: {alias} stands for what is not in it")
        variables[alias] = variables[target]
    return variables


def _tensor(cursor: _Cursor, path: Path, name: str) -> NDArray[np.generic]:
    shape = [cursor.number("I") for _ in range(cursor.number("B"))]
    type_code = cursor.number("B")
    if type_code not in _DTYPES:
        raise ModelStoreError(f"{path}: {name} has unknown type {type_code}")
    raw = cursor.take(cursor.number("I"))
    dtype = np.dtype(_DTYPES[type_code])
    if len(raw) != math.prod(shape) * dtype.itemsize or len(shape) > _MOST_DIMENSIONS:
        raise ModelStoreError(f"{path}: {name} does not fill its shape {shape}")
    tensor = np.frombuffer(raw, dtype)
    shaped = tensor.reshape(shape)
    return widened(shaped) if type_code == _BFLOAT16 else shaped
