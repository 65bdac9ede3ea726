"""Compile an ONNX graph into a TensorRT plan.

`tensorrt` 11 and `tensorrt_rtx` have one API: the module is an argument. Failures come
back from it as None, False or -1 and a line in the log; here every one of them becomes a
PlanError that carries those lines. Networks are strongly typed, so the precision is the
graph's own and no builder flag changes it.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from visavis.bundles.compile.build_progress import BuildWatch, Cancelled, OnProgress, make_monitor
from visavis.bundles.compile.builder_api import (
    Builder,
    BuilderConfig,
    HostMemory,
    RtxBuilderConfig,
    TimingCache,
)
from visavis.bundles.compile.network import (
    check_profile,
    inputs_of,
    layers_of,
    outputs_of,
    parse_network,
    told,
)
from visavis.bundles.compile.plans.record import LayerInfo, PlanMemory, TensorInfo
from visavis.bundles.compile.targets import PORTABLE, Target, is_rtx
from visavis.bundles.store.recipe import ProfileSpec
from visavis.engine.tensorrt.bindings.messages import Messages, collecting, shared_logger
from visavis.serving.errors import PlanCancelledError, PlanError

_MEMORY = re.compile(r"(Max Scratch|Total Activation|Total Weights) Memory: (\d+) bytes")
# The compiler is not asked to build two networks at once: its log could not be told apart.
_one_at_a_time = threading.Lock()


@dataclass(frozen=True)
class Plan:
    """A compiled network, and what is known of it without loading it."""

    content: bytes = field(repr=False)
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    layers: tuple[LayerInfo, ...] = field(repr=False)
    """Before fusion; what is left of them only a GPU can tell."""
    memory: PlanMemory
    build_s: float
    warnings: tuple[str, ...]
    timing_cache: bytes | None = field(repr=False)
    """To be given to the next build for the same target; None where there is no such thing."""


def compile_plan(
    trt: Any,
    onnx_bytes: bytes,
    profiles: Sequence[ProfileSpec],
    *,
    workspace_bytes: int | None = None,
    timing_cache: bytes | None = None,
    on_progress: OnProgress | None = None,
    cancelled: Cancelled | None = None,
    target: Target = PORTABLE,
) -> Plan:
    """Compile `onnx_bytes` with one optimisation profile for each of `profiles`.

    `trt` is the module tensorrt or tensorrt_rtx. `on_progress` and `cancelled` are called from
    this thread and the compiler's own. Call it where no signal handler raises (any thread but
    the main one): an exception cannot travel through the compiler.

    Raises PlanError with the compiler's own messages, PlanCancelledError when `cancelled`
    said so, and whatever the callbacks raised.
    """
    watch = BuildWatch(on_progress, cancelled)
    started = time.monotonic()
    with _one_at_a_time, collecting(trt) as said:
        if cancelled is not None and cancelled():
            raise PlanCancelledError("the build was cancelled before it began")
        try:
            with target.current():
                return _Build(trt, said, watch, target).run(
                    onnx_bytes, profiles, workspace_bytes, timing_cache, started
                )
        except (RuntimeError, MemoryError, TypeError, ValueError) as error:
            if error is watch.error:
                raise
            # The bindings turn C++ exceptions and unfit arguments into these.
            raise PlanError(told("the compiler failed", [str(error), *said.errors])) from error


class _Build:
    """One run of the compiler. Parser, network and logger must outlive the build."""

    def __init__(self, trt: Any, said: Messages, watch: BuildWatch, target: Target) -> None:
        self._trt = trt
        self._said = said
        self._watch = watch
        self._target = target
        self._logger = shared_logger(trt)
        self._builder: Builder = trt.Builder(self._logger)

    def run(
        self,
        onnx_bytes: bytes,
        profiles: Sequence[ProfileSpec],
        workspace_bytes: int | None,
        timing_cache: bytes | None,
        started: float,
    ) -> Plan:
        network, _parser = parse_network(
            self._trt, self._builder, self._logger, onnx_bytes, self._said
        )
        inputs = inputs_of(network)
        config = self._config(workspace_bytes)
        for profile in profiles:
            self._add_profile(config, inputs, profile)
        timings = self._use_timings(config, timing_cache)
        monitor = make_monitor(self._trt, self._watch)
        config.progress_monitor = monitor
        serialized = self._builder.build_serialized_network(network, config)
        self._raise_if_stopped()
        if serialized is None or serialized.nbytes == 0:
            raise PlanError(told("the network was not compiled", self._said.errors))
        kept = timings.serialize() if timings is not None else None
        return Plan(
            content=_bytes_of(serialized),
            inputs=tuple(inputs),
            outputs=tuple(outputs_of(network)),
            layers=tuple(layers_of(network)),
            memory=memory_in(self._said.texts),
            build_s=time.monotonic() - started,
            warnings=tuple(self._said.warnings),
            timing_cache=None if kept is None else _bytes_of(kept),
        )

    def _config(self, workspace_bytes: int | None) -> RtxBuilderConfig:
        trt, config = self._trt, self._builder.create_builder_config()
        if config is None:
            raise PlanError(told("the compiler made no configuration", self._said.errors))
        if workspace_bytes is not None:
            config.set_memory_pool_limit(trt.MemoryPoolType.WORKSPACE, workspace_bytes)
        config.profiling_verbosity = trt.ProfilingVerbosity.DETAILED
        names = self._target.capabilities
        if names:
            config.num_compute_capabilities = len(names)
        for index, name in enumerate(names):
            if not config.set_compute_capability(getattr(trt.ComputeCapability, name), index):
                raise PlanError(told(f"the compiler refuses target {name}", self._said.errors))
        return config

    def _add_profile(self, config: Any, inputs: Sequence[TensorInfo], profile: ProfileSpec) -> None:
        check_profile(inputs, profile)
        made = self._builder.create_optimization_profile()
        if made is None:
            raise PlanError(told("the compiler made no profile", self._said.errors))
        for tensor in inputs:
            if (allowed := profile.shapes.get(tensor.name)) is None:
                continue
            ranges = (allowed.min, allowed.opt, allowed.max)
            if tensor.holds_shape:
                made.set_shape_input(tensor.name, *ranges)
            else:
                made.set_shape(tensor.name, *ranges)
        if config.add_optimization_profile(made) < 0:
            raise PlanError(told(f"profile {profile.name} is refused", self._said.errors))

    def _use_timings(self, config: BuilderConfig, timing_cache: bytes | None) -> TimingCache | None:
        """A timing cache holding `timing_cache`; None for TensorRT-RTX, which times nothing."""
        if is_rtx(self._trt):
            return None
        timings = config.create_timing_cache(timing_cache or b"")
        if timings is None and timing_cache:
            # A damaged one only costs time: begin anew.
            timings = config.create_timing_cache(b"")
        if timings is None or not config.set_timing_cache(timings, False):
            raise PlanError(told("the timing cache is refused", self._said.errors))
        return timings

    def _raise_if_stopped(self) -> None:
        if self._watch.error is not None:
            raise self._watch.error
        if self._watch.stopped:
            raise PlanCancelledError("the build was cancelled")


def read_layers(trt: Any, onnx_bytes: bytes) -> tuple[LayerInfo, ...]:
    """The layers of `onnx_bytes`, parsed and not compiled. Raises PlanError like compile_plan."""
    with _one_at_a_time, collecting(trt) as said:
        logger = shared_logger(trt)
        builder: Builder = trt.Builder(logger)
        network, _parser = parse_network(trt, builder, logger, onnx_bytes, said)
        return tuple(layers_of(network))


def _bytes_of(memory: HostMemory) -> bytes:
    buffer: Any = memory
    return bytes(memoryview(buffer))


def memory_in(texts: Sequence[str]) -> PlanMemory:
    """Figures that the compiler's log gives; 0 where it gives none."""
    found: dict[str, int] = {}
    for text in texts:
        for what, size in _MEMORY.findall(text):
            found[what] = max(found.get(what, 0), int(size))
    return PlanMemory(
        weights_bytes=found.get("Total Weights", 0),
        activation_bytes=found.get("Total Activation", 0),
        scratch_bytes=found.get("Max Scratch", 0),
    )
