"""Writes a model repository: what a Triton server loads to run networks of bundles.

One folder for each network, `NAME/config.pbtxt` and `NAME/1/model.*`. Batches are as large as the
bundle's plans allow, the queue is bounded, and the config carries the digest of the ONNX file,
which the backend `triton` compares with its own.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from visavis.bundles.compile.plans.cache import CachedPlan, PlanCache
from visavis.bundles.compile.plans.record import TensorInfo
from visavis.bundles.store.installed import FileRecord
from visavis.bundles.store.manifest import BundleManifest
from visavis.bundles.store.recipe import Precision
from visavis.bundles.triton.networks import largest_batch, network_name
from visavis.engine import open_engine
from visavis.engine.triton.exchange import HIGHEST_PRIORITY, LOWEST_PRIORITY, datatype_of
from visavis.engine.triton.server import DIGEST_PARAMETER
from visavis.serving.errors import InvalidInputError, PlanError

Platform = Literal["onnxruntime", "python", "tensorrt"]
"""Triton's backend. python: ONNX Runtime in it, where the server has no backend of that name."""

_FILES: Mapping[Platform, str] = {
    "onnxruntime": "model.onnx",
    "python": "model.onnx",
    "tensorrt": "model.plan",
}
_LONGEST_WAIT_S = 10
"""In the server's queue. A request may say less, and only where a limit is set at all."""
_MOST_WAITING = 256
_PLAN_DATATYPES = {"FLOAT": "FP32", "HALF": "FP16", "BF16": "BF16"}
"""TensorRT's names where they are not the protocol's."""


@dataclass(frozen=True)
class ServingChoice:
    """How a server is to run what it is given."""

    platform: Platform = "onnxruntime"
    device: str = "cpu"
    """cpu or cuda:N."""
    instances: int = 1
    """Copies of a network that run side by side."""
    threads: int = 1
    """Of each instance on a CPU."""
    wait_us: int = 1000
    """How long a request may wait for company while an instance is free, microseconds."""
    precision: Precision = "fp16"
    """Of plans."""


@dataclass(frozen=True)
class Written:
    """One network that was put into a repository."""

    name: str
    largest_batch: int
    """0: each request runs alone."""
    size_bytes: int


@dataclass(frozen=True)
class _Tensor:
    name: str
    datatype: str
    shape: tuple[int, ...]
    """-1: free."""


@dataclass(frozen=True)
class _Network:
    name: str
    file: Path
    sha256: str
    """Of the ONNX file, also where `file` is a plan of it."""
    inputs: list[_Tensor]
    outputs: list[_Tensor]
    largest: int

    @property
    def batched(self) -> bool:
        """Triton's batches want every tensor to begin with theirs."""
        tensors = (*self.inputs, *self.outputs)
        return self.largest > 1 and all(t.shape[:1] == (-1,) for t in tensors)


def write_network(
    folder: Path,
    model: Path,
    manifest: BundleManifest,
    choice: ServingChoice,
    plans: PlanCache | None = None,
) -> Written:
    """Put a bundle's ONNX file, or its plan, into the repository `folder`.

    Raises InvalidInputError for a device that is none, EngineLoadError for a file that is no
    network, PlanError where no plan of it is there.
    """
    network = _described(model, manifest, choice, plans)
    place = folder / network.name
    (place / "1").mkdir(parents=True, exist_ok=True)
    shutil.copyfile(network.file, place / "1" / _FILES[choice.platform])
    if choice.platform == "python":
        shutil.copyfile(Path(__file__).with_name("onnx_model.py"), place / "1" / "model.py")
    (place / "config.pbtxt").write_text("\n".join(_config(network, choice)) + "\n", "utf-8")
    largest = network.largest if network.batched else 0
    return Written(network.name, largest, network.file.stat().st_size)


def _described(
    model: Path, manifest: BundleManifest, choice: ServingChoice, plans: PlanCache | None
) -> _Network:
    sha256 = FileRecord.of(model).sha256
    name, largest = network_name(model), largest_batch(manifest, model.name)
    if choice.platform == "tensorrt":
        plan = _plan_of(manifest, model.name, choice.precision, plans or PlanCache())
        inputs, outputs = _told(plan.record.inputs), _told(plan.record.outputs)
        return _Network(name, plan.path, sha256, inputs, outputs, largest)
    with open_engine(model, backend="onnxruntime") as engine:
        inputs, outputs = (
            [
                _Tensor(
                    s.name, datatype_of(s.dtype), tuple(-1 if d is None else d for d in s.shape)
                )
                for s in specs.values()
            ]
            for specs in (engine.inputs, engine.outputs)
        )
    return _Network(name, model, sha256, inputs, outputs, largest)


def _told(tensors: Iterable[TensorInfo]) -> list[_Tensor]:
    return [_Tensor(t.name, _PLAN_DATATYPES.get(t.dtype, t.dtype), t.shape) for t in tensors]


def _plan_of(
    manifest: BundleManifest, graph: str, precision: Precision, cache: PlanCache
) -> CachedPlan:
    """The one plan of TensorRT, which is not TensorRT-RTX, that is in the cache."""
    names = {plan.name for plan in manifest.plans if plan.graph == graph}
    found = [
        CachedPlan(entry.path, entry.record)
        for entry in cache.entries()
        if not entry.problem
        and entry.record is not None
        and entry.record.bundle == manifest.name
        and entry.record.plan in names
        and entry.record.precision == precision
        and entry.record.key.compiler.startswith("tensorrt ")
    ]
    if len(found) == 1:
        return found[0]
    what = f"plans of {manifest.name} {graph} in {precision} by TensorRT"
    if found:
        targets = ", ".join(plan.record.key.target for plan in found)
        raise PlanError(f"there are {len(found)} {what}, for {targets}: keep one in the folder")
    raise PlanError(
        f"there are no {what}: `visavis engine build {manifest.name} --flavour tensorrt` makes "
        "them, with the version of TensorRT that the server has"
    )


def _config(network: _Network, choice: ServingChoice) -> Iterator[str]:
    """Lines of config.pbtxt."""
    yield f"name: {_quoted(network.name)}"
    yield f"backend: {_quoted(choice.platform)}"
    yield f"max_batch_size: {network.largest if network.batched else 0}"
    for kind, tensors in (("input", network.inputs), ("output", network.outputs)):
        for tensor in tensors:
            dims = tensor.shape[1:] if network.batched else tensor.shape
            yield (
                f"{kind} {{ name: {_quoted(tensor.name)} data_type: TYPE_{tensor.datatype} "
                f"dims: {list(dims)} }}"
            )
    yield f"instance_group {{ count: {choice.instances} {_place(choice.device)} }}"
    if network.batched:
        yield from _batching(choice)
    parameters = {DIGEST_PARAMETER: network.sha256, **_run_by(choice)}
    for key, value in parameters.items():
        yield (
            f"parameters {{ key: {_quoted(key)} value {{ string_value: {_quoted(str(value))} }} }}"
        )


def _batching(choice: ServingChoice) -> Iterator[str]:
    yield "dynamic_batching {"
    yield f"  max_queue_delay_microseconds: {choice.wait_us}"
    yield f"  priority_levels: {LOWEST_PRIORITY - HIGHEST_PRIORITY + 1}"
    yield f"  default_priority_level: {HIGHEST_PRIORITY}"
    yield "  default_queue_policy {"
    yield f"    max_queue_size: {_MOST_WAITING}"
    yield "    timeout_action: REJECT"
    # The server takes a request's own limit only where it is the stricter one of two.
    yield f"    default_timeout_microseconds: {_LONGEST_WAIT_S * 1_000_000}"
    yield "    allow_timeout_override: true"
    yield "  }"
    yield "}"


def _run_by(choice: ServingChoice) -> dict[str, object]:
    """Parameters that the backend reads."""
    match choice.platform:
        case "onnxruntime":
            return {"intra_op_thread_count": choice.threads}
        case "python":
            from visavis.engine import eight_bit_products  # slow to import

            exactly = choice.device == "cpu" and eight_bit_products.are_clipped()
            entries = "=".join(eight_bit_products.EXACTLY) if exactly else ""
            return {"threads": choice.threads, "session_entries": entries}
        case "tensorrt":
            return {}


def _place(device: str) -> str:
    kind, _, index = device.partition(":")
    if device == "cpu":
        return "kind: KIND_CPU"
    if kind == "cuda" and index.isdigit():
        return f"kind: KIND_GPU gpus: [{index}]"
    raise InvalidInputError(f"device: {device!r} is neither cpu nor cuda:N")


def _quoted(text: str) -> str:
    return json.dumps(text)
