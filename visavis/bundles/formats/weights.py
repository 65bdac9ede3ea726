"""Weights out of whatever file they came in: .safetensors, .npz, or a PyTorch checkpoint."""

from __future__ import annotations

import json
import lzma
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from visavis.bundles.formats.safetensors import Array, read_safetensors
from visavis.bundles.formats.torch_checkpoint import read_checkpoint
from visavis.serving.errors import InvalidInputError, ModelStoreError

# Of the zip archive. RuntimeError: it is encrypted, packed in an unknown way, or nested too deep.
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError, SyntaxError,
    tokenize.TokenError,
)  # fmt: skip
_CHECKPOINTS = (".pt", ".pth", ".ckpt", ".bin", ".tar")


def read_weights(path: Path) -> dict[str, Any]:
    """Tensors by name, nested as the file nests them; a checkpoint may hold plain values too.

    Raises InvalidInputError that says what was expected.
    """
    try:
        if path.suffix == ".safetensors":
            return dict(read_safetensors(path))
        if path.suffix == ".npz":
            with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
    except ModelStoreError as error:
        raise InvalidInputError(str(error)) from error
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be read: {error}") from error
    except (*_DAMAGE, MemoryError, ValueError, KeyError) as error:
        raise InvalidInputError(f"{path} is no NumPy archive of plain arrays: {error}") from error
    if path.suffix in _CHECKPOINTS or not path.suffix:
        return read_checkpoint(path)
    raise InvalidInputError(
        f"{path}: weights are read from .safetensors, .npz and PyTorch's "
        f"{', '.join(_CHECKPOINTS)}, not from {path.suffix}"
    )


def state_dict(weights: Mapping[str, Any], *keys: str) -> dict[str, Array]:
    """The tensors under the first of `keys` that is there; those of the outermost level if none.

    A prefix that every name has ("module." of data-parallel training) is taken off.
    """
    inner: Any = next((weights[k] for k in keys if isinstance(weights.get(k), Mapping)), weights)
    tensors = {name: value for name, value in inner.items() if isinstance(value, np.ndarray)}
    if tensors and all(name.startswith("module.") for name in tensors):
        return {name.removeprefix("module."): value for name, value in tensors.items()}
    return tensors


def must_exist(path: Path) -> None:
    """Raises InvalidInputError where there is no such file."""
    if not path.is_file():
        raise InvalidInputError(f"{path}: there is no such file")


class Checked:
    """Tensors of a model that is being read: every name and shape is checked when it is taken."""

    def __init__(self, tensors: Mapping[str, Array], origin: str) -> None:
        self.tensors = tensors
        self._origin = origin

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def take(self, name: str, *shape: int | None) -> Array:
        """The tensor `name`; None in `shape` allows any size there.

        Raises InvalidInputError that names the tensor, its shape and the one that is needed.
        """
        if name not in self.tensors:
            near = [other for other in self.tensors if other.endswith(name.rsplit(".", 1)[-1])]
            raise InvalidInputError(
                f"{self._origin} has no tensor {name}: it is another kind of model, or a part of "
                f"one ({len(self.tensors)} tensors, for example {', '.join(near[:2])})"
            )
        tensor = self.tensors[name]
        fits = not shape or (
            len(shape) == tensor.ndim
            and all(n in (None, m) for n, m in zip(shape, tensor.shape, strict=True))
        )
        if not fits:
            wanted = ", ".join("any" if n is None else str(n) for n in shape)
            raise InvalidInputError(
                f"{self._origin}: {name} has the shape {list(tensor.shape)}; [{wanted}] is needed"
            )
        return tensor


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file that holds an object. Raises InvalidInputError."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{path} is not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise InvalidInputError(f"{path} holds a {type(found).__name__} where an object is needed")
    return found
