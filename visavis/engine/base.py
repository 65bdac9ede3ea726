"""What every engine is: named tensors in, named tensors out, on one device."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from visavis.serving.errors import EngineError, InvalidInputError

if TYPE_CHECKING:
    from visavis.engine.tensorrt.source import PlanFinder

T = TypeVar("T")


class DeviceTensor(Protocol):
    """An output that stayed where it was made; see `Engine.infer_resident`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """As of an array."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    @property
    def ndim(self) -> int: ...

    def __getitem__(self, key: slice | tuple[slice, ...]) -> DeviceTensor:
        """A part without gaps, as in `mel[:, 10:20]`. Raises InvalidInputError for others."""
        ...

    def to_host(self) -> NDArray[Any]:
        """A copy of its shape and dtype in host memory, the caller's own. Raises EngineError."""
        ...


Resident = NDArray[Any] | DeviceTensor
Tensors = Mapping[str, Resident]


@dataclass(frozen=True)
class TensorSpec:
    """Name, dtype and shape of one input or output; None is a free dimension."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | None, ...]

    def check(self, array: Resident) -> None:
        """Raises InvalidInputError unless `array` has this dtype and fits this shape."""
        if array.dtype != self.dtype:
            raise InvalidInputError(f"{self.name}: dtype {array.dtype} instead of {self.dtype}")
        fits = array.ndim == len(self.shape) and all(
            want in (None, have) for want, have in zip(self.shape, array.shape, strict=True)
        )
        if not fits:
            want = [d if d is not None else "any" for d in self.shape]
            raise InvalidInputError(f"{self.name}: shape {list(array.shape)} instead of {want}")


@dataclass(frozen=True)
class EngineState:
    """Where an engine really runs."""

    backend: str
    device: str
    detail: str = ""
    """Why that is not what was asked for; empty: it is."""


def joined_state(states: Iterable[EngineState]) -> EngineState:
    """The state of several engines as one: of those that stepped down, if any did, the first.

    ValueError where there are none.
    """
    every = list(states)
    if not every:
        raise ValueError("no engines")
    return next((state for state in every if state.detail), every[0])


class GraphKeeper(Protocol):
    """Keeps what a backend has made of a network, so that the next start need not."""

    def opened(self, load: Callable[[Path], T], make: Callable[[Path | None], T]) -> T:
        """What `load` has of the kept file, or else `make`, which is to write it to the path."""
        ...


class Engine(ABC):
    """One network on one device.

    Public methods check state and inputs once; backends fill the `_` methods.
    Not safe for concurrent `infer`, but for `at_once` calls: put an EngineLane in front of it.
    Output arrays belong to the caller.
    """

    backend: str
    keeps_tensors = False
    """Takes and gives DeviceTensors: `_infer_resident` is there."""
    at_once = 1
    """So many calls of `infer` may be under way at the same time."""

    def __init__(self, model: Path, *, device: str, threads: int) -> None:
        self.model = model
        self.device = device
        self.threads = threads
        self._specs: tuple[dict[str, TensorSpec], dict[str, TensorSpec]] | None = None

    @property
    def inputs(self) -> Mapping[str, TensorSpec]:
        """By name. Raises EngineError before `load`."""
        return self._loaded()[0]

    @property
    def outputs(self) -> Mapping[str, TensorSpec]:
        """By name. Raises EngineError before `load`."""
        return self._loaded()[1]

    @property
    def state(self) -> EngineState:
        """Where it runs now."""
        return EngineState(self.backend, self.device)

    def load(self) -> None:
        """Make the engine ready. Idempotent. Raises EngineLoadError."""
        if self._specs is None:
            self._specs = self._load()

    def infer(self, inputs: Tensors) -> dict[str, NDArray[Any]]:
        """Run once; by name, with the shapes and dtypes of `inputs` and `outputs`.

        Raises InvalidInputError for inputs that do not fit, EngineError else.
        """
        self._check(inputs)
        return self._infer(inputs if self.keeps_tensors else on_host(inputs))

    def infer_resident(self, inputs: Tensors, resident: Collection[str]) -> dict[str, Resident]:
        """Run once and leave the outputs named in `resident` where they were made.

        Shapes and dtypes are those of `inputs` and `outputs`. They can be inputs of another engine
        and cost no way over the bus. Backends that work in host memory return arrays. Raises as
        `infer` does.
        """
        unknown = sorted(set(resident) - self.outputs.keys())
        if unknown:
            raise InvalidInputError(f"outputs: unknown {unknown}")
        self._check(inputs)
        if not self.keeps_tensors:
            return {**self._infer(on_host(inputs))}
        return self._infer_resident(inputs, resident)

    def _check(self, inputs: Tensors) -> None:
        specs = self._loaded()[0]
        if inputs.keys() != specs.keys():
            missing = sorted(specs.keys() - inputs.keys())
            unknown = sorted(inputs.keys() - specs.keys())
            raise InvalidInputError(f"inputs: missing {missing}, unknown {unknown}")
        for name, array in inputs.items():
            specs[name].check(array)

    def close(self) -> None:
        """Free what the engine holds. Idempotent; `load` may follow."""
        if self._specs is not None:
            self._specs = None
            self._close()

    def __enter__(self) -> Self:
        self.load()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _loaded(self) -> tuple[dict[str, TensorSpec], dict[str, TensorSpec]]:
        if self._specs is None:
            raise EngineError(f"{self.model.name}: not loaded; call load() first")
        return self._specs

    @abstractmethod
    def _load(self) -> tuple[dict[str, TensorSpec], dict[str, TensorSpec]]:
        """Load and return (inputs, outputs) by name."""

    @abstractmethod
    def _infer(self, inputs: Tensors) -> dict[str, NDArray[Any]]: ...

    def _infer_resident(self, inputs: Tensors, resident: Collection[str]) -> dict[str, Resident]:
        raise NotImplementedError(f"{self.backend} has no tensors of its own")

    @abstractmethod
    def _close(self) -> None: ...


def contiguous_part(
    shape: tuple[int, ...], key: slice | tuple[slice, ...]
) -> tuple[int, tuple[int, ...]]:
    """The elements in front of the part `key` of a contiguous tensor of `shape`, and its shape.

    Raises InvalidInputError where the part has gaps.
    """
    keys = key if isinstance(key, tuple) else (key,)
    if len(keys) > len(shape) or not all(isinstance(part, slice) for part in keys):
        raise InvalidInputError(f"{keys}: a tensor of {len(shape)} dimensions is cut by slices")
    skipped, sizes, cut = 0, list(shape), False
    for axis, part in enumerate(keys):
        start, stop, step = part.indices(shape[axis])
        sizes[axis] = max(0, stop - start)
        if step == 1 and sizes[axis] == shape[axis]:
            continue
        if step != 1 or any(size != 1 for size in sizes[:axis]) or cut:
            raise InvalidInputError(f"{keys}: that part of {list(shape)} has gaps")
        cut = True
        skipped = start * int(np.prod(shape[axis + 1 :], dtype=np.int64))
    return skipped, tuple(sizes)


def on_host(inputs: Tensors) -> dict[str, NDArray[Any]]:
    """`inputs`, of any shapes and dtypes, with those on a device copied into host memory."""
    return {name: host_array(tensor) for name, tensor in inputs.items()}


def host_array(tensor: Resident) -> NDArray[Any]:
    """`tensor` itself if it is an array, else a copy of its shape and dtype in host memory."""
    return tensor if isinstance(tensor, np.ndarray) else tensor.to_host()


@dataclass(frozen=True)
class TritonOptions:
    """Which model of which Triton server runs a network, and how it is asked."""

    url: str
    """host:port of the server's gRPC."""
    model: str
    """The server's name for it."""
    at_once: int = 16
    """Requests under way at the same time: so many rows of this process can share a batch."""
    timeout_s: float = 1.0
    """How long an answer may come after it was needed."""


@dataclass(frozen=True)
class EngineOptions:
    """How an engine is run, beyond the device."""

    plans: PlanFinder | None = None
    """Where compiled plans of a model come from; None: only `.plan` files run on TensorRT."""
    require_device: bool = False
    """Fail rather than step down from the GPU to the CPU."""
    cuda_graphs: bool = True
    """Replay plans of frequent shapes as CUDA graphs."""
    idle_unload_s: float = 0.0
    """Unused for so long, a plan leaves the GPU until it is needed again; 0: it stays."""
    triton: TritonOptions | None = None
    """Where the backend triton has its network."""
    floats: Callable[[Path], Mapping[str, Callable[[Path], bytes]]] | None = None
    """Who write the graphs that ONNX Runtime loads on a GPU instead of this file, by the names of
    the parts that it is run in; none where the file itself is to be loaded."""
    kept: GraphKeeper | None = None
    """Keeps this network as ONNX Runtime runs it on the CPU; None: it is made at each start."""
    graph: Callable[[Path], bytes] | None = None
    """Writes the graph that ONNX Runtime loads instead of this file, the same with less work: on a
    GPU only where `floats` has none."""
