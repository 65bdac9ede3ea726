"""Reads PyTorch checkpoints (.pt, .pth, .ckpt, .bin) without PyTorch and without running them.

A checkpoint is a pickle, and a pickle may name any function to call. Here no name is ever looked
up: those few that rebuild tensors stand for functions of ours, every other one for an object that
does nothing, so that what trainers also keep (settings, optimisers) is passed over.

Two layouts, after torch/serialization.py: since 1.6 a zip archive with `data.pkl` and a file for
each storage; before, pickles one behind the other, then the storages.
"""

from __future__ import annotations

import collections
import io
import math
import pickle
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from visavis.bundles.formats.safetensors import Array, widened
from visavis.serving.errors import InvalidInputError

_MAGIC = 0x1950A86A20F9469CFC6C
_MOST_REPEATED = 1 << 20
_BFLOAT16 = "BFloat16Storage"
_STORAGES: dict[str, Any] = {
    "DoubleStorage": np.float64, "FloatStorage": np.float32, "HalfStorage": np.float16,
    "LongStorage": np.int64, "IntStorage": np.int32, "ShortStorage": np.int16,
    "CharStorage": np.int8, "ByteStorage": np.uint8, "BoolStorage": np.bool_,
    _BFLOAT16: np.uint16,
}  # fmt: skip


@dataclass(frozen=True)
class _Storage:
    """A block of numbers that several tensors may share."""

    kind: str
    key: str
    size: int
    """Numbers in it."""
    first: int = 0

    @property
    def dtype(self) -> np.dtype[Any]:
        kind: type[np.generic] = _STORAGES[self.kind]
        return np.dtype(kind)


@dataclass(frozen=True)
class _Tensor:
    """A view of a storage, made before the storage's bytes are known."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def array(self, block: bytes) -> Array:
        """The numbers; ValueError where the view reaches beyond the block."""
        numbers = np.frombuffer(block, self.storage.dtype)
        start = self.storage.first + self.offset
        last = start + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))
        if 0 in self.shape:
            return np.zeros(self.shape, numbers.dtype)
        if start < 0 or min(self.strides, default=0) < 0 or last >= len(numbers):
            raise ValueError("a tensor reaches beyond its storage")
        # Steps of 0 repeat a number without end.
        if min(self.shape, default=0) < 0 or math.prod(self.shape) > len(numbers) + _MOST_REPEATED:
            raise ValueError("a tensor is much larger than its storage")
        steps = [step * numbers.itemsize for step in self.strides]
        view: NDArray[Any] = np.lib.stride_tricks.as_strided(
            numbers[start:], self.shape, steps, writeable=False
        )
        return widened(view) if self.storage.kind == _BFLOAT16 else view


class _Ignored:
    """Stands for every object that is no tensor."""

    def __init__(self, *args: object, **named: object) -> None: ...

    def __setstate__(self, state: object) -> None: ...

    def __setitem__(self, key: object, value: object) -> None: ...

    def __call__(self, *args: object, **named: object) -> _Ignored:
        return self

    def append(self, item: object) -> None: ...

    def extend(self, items: object) -> None: ...


@dataclass(frozen=True)
class _StorageKind:
    name: str


def _rebuild_tensor(
    storage: Any, offset: Any, shape: Any, strides: Any, *rest: object
) -> _Tensor | _Ignored:
    if not isinstance(storage, _Storage):
        return _Ignored()
    return _Tensor(storage, int(offset), tuple(map(int, shape)), tuple(map(int, strides)))


def _rebuild_parameter(tensor: Any, *rest: object) -> Any:
    return tensor


_FUNCTIONS: dict[tuple[str, str], Callable[..., Any]] = {
    ("torch._utils", "_rebuild_tensor"): _rebuild_tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): _rebuild_parameter,
    ("collections", "OrderedDict"): collections.OrderedDict,
}


class _Unpickler(pickle.Unpickler):
    """Builds dicts, lists, numbers, text and our own inert objects; imports nothing."""

    def find_class(self, module: str, name: str) -> Any:
        if module in ("torch", "torch.storage") and name in _STORAGES:
            return _StorageKind(name)
        return _FUNCTIONS.get((module, name), _Ignored)

    def persistent_load(self, pid: Any) -> Any:
        if not isinstance(pid, tuple) or len(pid) < 5 or not isinstance(pid[1], _StorageKind):
            return _Ignored()
        view = pid[5] if len(pid) > 5 and isinstance(pid[5], tuple) else (None, 0, pid[4])
        return _Storage(pid[1].name, str(pid[2]), int(view[2]), int(view[1]))


def read_checkpoint(path: Path) -> dict[str, Any]:
    """The checkpoint's dict; tensors are numpy arrays (bfloat16 as float32), at any depth.

    Objects that are neither tensors nor plain values are left out. Raises InvalidInputError if
    the file is no checkpoint, is damaged, or holds something else than a dict.
    """
    try:
        with path.open("rb") as file:
            if zipfile.is_zipfile(file):
                found, blocks = _read_zip(path)
            else:
                file.seek(0)
                found, blocks = _read_old(path, file)
        plain = _plain(found, blocks, {})
    except InvalidInputError:
        raise
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be read: {error.strerror}") from error
    # What a damaged pickle may do to the unpickler has no end; none of it gets past here.
    except Exception as error:
        raise InvalidInputError(f"{path} is no PyTorch checkpoint, or damaged: {error}") from error
    if not isinstance(plain, dict):
        raise InvalidInputError(f"{path} holds no weights by name, but a {type(found).__name__}")
    return plain


def _read_zip(path: Path) -> tuple[Any, Callable[[_Storage], bytes]]:
    archive = zipfile.ZipFile(path)
    names = archive.namelist()
    pickles = [name for name in names if name.endswith("/data.pkl") or name == "data.pkl"]
    if len(pickles) != 1:
        raise InvalidInputError(f"{path} is a zip archive, but no PyTorch checkpoint")
    root = pickles[0].removesuffix("data.pkl")
    if any(name.startswith(f"{root}code/") for name in names):
        raise InvalidInputError(
            f"{path} is a TorchScript program, not a checkpoint: save its state_dict() instead"
        )
    if f"{root}byteorder" in names and archive.read(f"{root}byteorder") != b"little":
        raise InvalidInputError(f"{path} was written on a big-endian machine; save it again")
    found = _Unpickler(io.BytesIO(archive.read(pickles[0]))).load()
    return found, lambda storage: archive.read(f"{root}data/{storage.key}")


def _read_old(path: Path, file: BinaryIO) -> tuple[Any, Callable[[_Storage], bytes]]:
    try:
        magic = _Unpickler(file).load()
    except Exception as error:
        raise InvalidInputError(f"{path} is no PyTorch checkpoint: {error}") from error
    if magic != _MAGIC:
        raise InvalidInputError(f"{path} is no PyTorch checkpoint")
    _Unpickler(file).load()  # version of the layout
    _Unpickler(file).load()  # sizes of the machine's integers
    unpickler = _KindsNoting(file)
    found = unpickler.load()
    blocks: dict[str, bytes] = {}
    for key in _Unpickler(file).load():
        (size,) = struct.unpack("<q", file.read(8))
        wanted = size * unpickler.kinds[str(key)].itemsize
        blocks[str(key)] = file.read(wanted)
        if size < 0 or len(blocks[str(key)]) != wanted:
            raise InvalidInputError(f"{path} is cut short")
    return found, lambda storage: blocks[storage.key]


class _KindsNoting(_Unpickler):
    """Remembers of what type each storage is, which the storages themselves do not say."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file)
        self.kinds: dict[str, np.dtype[Any]] = {}

    def persistent_load(self, pid: Any) -> Any:
        storage = super().persistent_load(pid)
        if isinstance(storage, _Storage):
            self.kinds[storage.key] = storage.dtype
        return storage


def _plain(found: Any, blocks: Callable[[_Storage], bytes], done: dict[int, Any]) -> Any:
    """done: by id, so that lists of one list a few times over, level by level, end some day."""
    if id(found) in done:
        return done[id(found)]
    plain = found
    if isinstance(found, _Tensor):
        plain = found.array(blocks(found.storage))
    elif isinstance(found, dict):
        items = ((str(key), _plain(value, blocks, done)) for key, value in found.items())
        plain = {key: value for key, value in items if not isinstance(value, _Ignored)}
    elif isinstance(found, list | tuple):
        plain = [_plain(item, blocks, done) for item in found if not isinstance(item, _Ignored)]
    done[id(found)] = plain
    return plain
