"""ONNX Runtime backend: the embedded default on a CPU, the second best on a GPU."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from visavis.engine import eight_bit_products
from visavis.engine.base import (
    Engine,
    EngineOptions,
    GraphKeeper,
    Resident,
    Tensors,
    TensorSpec,
    contiguous_part,
    host_array,
    on_host,
)
from visavis.engine.parts import EngineOfParts
from visavis.serving.errors import EngineError, EngineLoadError

_DTYPES = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(int8)": np.int8,
    "tensor(uint8)": np.uint8,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
    "tensor(bool)": np.bool_,
}

# Left to itself, cuDNN tries all its algorithms for each new shape, and each phrase has a length of
# its own: 533 ms for the first run of the Mandarin vocoder at a new length, on an H100, where its
# default takes 34. But that leaves convolutions in groups to a loop of 4 ms each: with 14 of them
# the English voice takes 62 ms, and 2 by heuristic, 22 for the first run at a length.
_CUDNN, _CUDNN_DEFAULT, _CUDNN_OF_GROUPS = "cudnn_conv_algo_search", "DEFAULT", "HEURISTIC"

Provider: TypeAlias = str | tuple[str, dict[str, str]]
"""As onnxruntime takes it: by name, or with its options."""

_CPU = "CPUExecutionProvider"
_FATAL = 4  # of onnxruntime's levels of logging


def open_onnxruntime(
    model: Path, *, device: str, threads: int = 1, options: EngineOptions | None = None
) -> Engine:
    """Engine for `model`, not yet loaded; on a GPU in floats, where its bundle says how."""
    options = options or EngineOptions()
    if device != "cpu" and options.floats is not None:
        return FloatsEngine(model, device=device, threads=threads, options=options)
    return OnnxRuntimeEngine(
        model, device=device, threads=threads, graph=options.graph, kept=options.kept
    )


class OnnxRuntimeEngine(Engine):
    """A network in ONNX Runtime, on the CPU or, by its CUDA provider, on a GPU."""

    backend = "onnxruntime"

    def __init__(
        self,
        model: Path,
        *,
        device: str,
        threads: int,
        graph: Callable[[Path], bytes] | None = None,
        kept: GraphKeeper | None = None,
        keeps_tensors: bool = False,
    ) -> None:
        """graph: writes what is loaded instead of the file itself. kept: see EngineOptions."""
        super().__init__(model, device=device, threads=threads)
        self.keeps_tensors = keeps_tensors
        self._graph = graph
        self._kept = kept
        self._session: ort.InferenceSession | None = None

    def _load(self) -> tuple[dict[str, TensorSpec], dict[str, TensorSpec]]:
        if not self.model.is_file():
            raise EngineLoadError(f"{self.model}: no such model; run `visavis models pull`")
        provider = _provider(self.device)
        try:
            session = self._open(provider)
        except Exception as error:  # onnxruntime raises a type of its own per status code
            where = "" if self.device == "cpu" else f"on device {self.device}: "
            raise EngineLoadError(f"{self.model}: {where}{error}") from error
        active = session.get_providers()[0]
        wanted = provider if isinstance(provider, str) else provider[0]
        if active != wanted:
            raise EngineLoadError(
                f"{self.model.name}: onnxruntime fell back from {wanted} to {active}"
            )
        self._session = session
        return _specs(session.get_inputs()), _specs(session.get_outputs())

    def _open(self, provider: Provider) -> ort.InferenceSession:
        if isinstance(provider, str):
            if self._kept is None:
                return self._made_on_cpu(None)
            return self._kept.opened(self._kept_on_cpu, self._made_on_cpu)
        graph = self._graph(self.model) if self._graph else None
        name, told = provider
        grouped = in_groups(graph or self.model.read_bytes())
        told = {**told, _CUDNN: _CUDNN_OF_GROUPS if grouped else _CUDNN_DEFAULT}
        # A file by its path: its weights may be in another one beside it.
        return _session(graph or self.model, _options(self.threads), (name, told))

    def _made_on_cpu(self, optimised: Path | None) -> ort.InferenceSession:
        """optimised: where to write what the session runs."""
        options = _options(self.threads)
        if optimised is not None:
            options.optimized_model_filepath = str(optimised)
            options.add_session_config_entry("session.save_model_format", "ORT")
        if self._graph is not None:
            return _session(self._graph(self.model), options, _CPU)
        if not eight_bit_products.are_clipped():
            return _session(self.model, options, _CPU)
        options.add_session_config_entry(*eight_bit_products.EXACTLY)
        level, options.log_severity_level = options.log_severity_level, _FATAL
        try:
            return _session(self.model, options, _CPU)
        except Exception:  # as above; a graph that is at fault itself fails again, and says so
            options.log_severity_level = level
            graph = eight_bit_products.with_weights_of_their_own(self.model)
            return _session(graph, options, _CPU)

    def _kept_on_cpu(self, optimised: Path) -> ort.InferenceSession:
        options = _options(self.threads)
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        return _session(optimised, options, _CPU)

    def _infer(self, inputs: Tensors) -> dict[str, NDArray[Any]]:
        if self.keeps_tensors:
            return on_host(self._infer_resident(inputs, ()))
        assert self._session is not None
        try:
            results = self._session.run(None, dict(inputs))
        except Exception as error:  # as above
            raise EngineError(f"{self.model.name}: {error}") from error
        return dict(zip(self.outputs, results, strict=True))

    def _infer_resident(self, inputs: Tensors, resident: Collection[str]) -> dict[str, Resident]:
        assert self._session is not None
        try:
            binding = self._session.io_binding()
            for name, tensor in inputs.items():
                if isinstance(tensor, OrtTensor):
                    tensor.bind(binding, name)
                else:
                    binding.bind_cpu_input(name, np.asarray(host_array(tensor), order="C"))
            kind, _, index = self.device.partition(":")
            place = kind, int(index or 0)
            for name in self.outputs:
                if name in resident:
                    binding.bind_output(name, *place)
                else:
                    binding.bind_output(name)
            self._session.run_with_iobinding(binding)
            made = dict(zip(self.outputs, binding.get_outputs(), strict=True))
            return {
                name: OrtTensor(value, place, self.outputs[name].dtype)
                if name in resident
                else value.numpy()
                for name, value in made.items()
            }
        except Exception as error:  # as above
            raise EngineError(f"{self.model.name}: {error}") from error

    def _close(self) -> None:
        self._session = None


class FloatsEngine(EngineOfParts):
    """A bundle's network on a GPU as its plans would be, in 32 bits (TF32 in products, where
    CUDA's libraries take it): in parts, rows together.

    In the published file products are in 8 bits, which the CUDA provider leaves to the CPU. That
    one is run where no recipe says how the network is compiled.
    """

    backend = "onnxruntime"

    def __init__(self, model: Path, *, device: str, threads: int, options: EngineOptions) -> None:
        super().__init__(model, device=device, threads=threads)
        self._options = options

    def _open_parts(self) -> Mapping[str, Engine]:
        assert self._options.floats is not None
        _provider(self.device)  # Before graphs are rebuilt, which may take seconds.
        graphs = self._options.floats(self.model)
        if not graphs:
            return {"": self._part(self._options.graph)}
        return {name: self._part(graph) for name, graph in graphs.items()}

    def _part(self, graph: Callable[[Path], bytes] | None) -> Engine:
        return OnnxRuntimeEngine(
            self.model,
            device=self.device,
            threads=self.threads,
            graph=graph,
            keeps_tensors=True,
        )


class OrtTensor:
    """A contiguous tensor that ONNX Runtime left on its device; its memory lives as long.

    Slices, as in `mel[:, 10:20]`, share the memory; only those that are contiguous themselves
    exist.
    """

    def __init__(
        self,
        value: ort.OrtValue,
        place: tuple[str, int],
        dtype: np.dtype[Any],
        shape: tuple[int, ...] | None = None,
        first: int = 0,
    ) -> None:
        """place: kind of device and which one. shape, first: of a part, and the number of its
        first element; else all of `value`."""
        self.dtype = dtype
        self.shape = tuple(value.shape()) if shape is None else shape
        self._value = value
        self._place = place
        self._first = first

    @property
    def ndim(self) -> int:
        """As of an array."""
        return len(self.shape)

    def __getitem__(self, key: slice | tuple[slice, ...]) -> OrtTensor:
        """A contiguous part. Raises InvalidInputError where it would not be contiguous."""
        skipped, shape = contiguous_part(self.shape, key)
        return OrtTensor(self._value, self._place, self.dtype, shape, self._first + skipped)

    def to_host(self) -> NDArray[Any]:
        """A copy of its shape and dtype in host memory. Raises EngineError."""
        try:
            every: NDArray[Any] = self._value.numpy().reshape(-1)
        except Exception as error:  # as in OnnxRuntimeEngine
            raise EngineError(f"a tensor on {self._place[0]}:{self._place[1]}: {error}") from error
        count = int(np.prod(self.shape, dtype=np.int64))
        return every[self._first : self._first + count].reshape(self.shape).copy()

    def bind(self, binding: ort.IOBinding, name: str) -> None:
        """Make it the input `name` of a run."""
        binding.bind_input(
            name,
            *self._place,
            self.dtype.type,
            list(self.shape),
            self._value.data_ptr() + self._first * self.dtype.itemsize,
        )


def _session(
    model: Path | bytes, options: ort.SessionOptions, provider: Provider
) -> ort.InferenceSession:
    # Where a GPU's provider refuses, onnxruntime would try again on the CPU and keep the reason.
    return ort.InferenceSession(model, options, providers=[provider], enable_fallback=False)


def _options(threads: int) -> ort.SessionOptions:
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # Spinning threads steal the cores of the other services on a small machine.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    return options


def in_groups(graph: bytes) -> bool:
    """Whether an ONNX graph has convolutions in groups, as those of single channels."""
    import onnx

    return any(
        attribute.name == "group" and attribute.i > 1
        for node in onnx.load_model_from_string(graph).graph.node
        if node.op_type == "Conv"
        for attribute in node.attribute
    )


def _provider(device: str) -> Provider:
    kind, _, index = device.partition(":")
    if kind == "cpu":
        return _CPU
    if kind == "cuda" and (index or "0").isdigit():
        if "CUDAExecutionProvider" not in ort.get_available_providers():
            raise EngineLoadError(
                f"device: {device!r} needs onnxruntime-gpu; "
                f"this onnxruntime offers {', '.join(ort.get_available_providers())}"
            )
        return "CUDAExecutionProvider", {"device_id": index or "0"}
    raise EngineLoadError(f"device: {device!r} is neither cpu nor cuda:N")


def _specs(tensors: list[ort.NodeArg]) -> dict[str, TensorSpec]:
    return {
        t.name: TensorSpec(
            t.name,
            np.dtype(_DTYPES[t.type]),
            tuple(d if isinstance(d, int) and d > 0 else None for d in t.shape),
        )
        for t in tensors
    }
