"""The TensorRT backend: one plan on one GPU, loaded when needed and unloaded when idle."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from visavis.engine.base import Engine, EngineOptions, Resident, Tensors, TensorSpec
from visavis.engine.tensorrt.bindings.device import CudaBinding, CudaDevice, CudaError
from visavis.engine.tensorrt.bindings.selection import open_device
from visavis.engine.tensorrt.bindings.trt_api import import_trt
from visavis.engine.tensorrt.plan import Plan
from visavis.engine.tensorrt.profiling import RunTimes
from visavis.engine.tensorrt.runner import PlanMemory, PlanRunner
from visavis.engine.tensorrt.source import PlanSource
from visavis.serving import metrics
from visavis.serving.errors import EngineError, EngineLoadError, UnfitShapeError
from visavis.wire.clock import Clock, MonotonicClock

log = logging.getLogger(__name__)


class Unloadable(Protocol):
    """What leaves the GPU while nobody uses it."""

    def unload_idle(self, now_s: float) -> float:
        """Unload if idle; seconds until it makes sense to ask again."""
        ...


class IdleUnloader:
    """Unloads the engines that nobody has used for long enough. One thread, while there are any."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or MonotonicClock()
        self._engines: weakref.WeakSet[Unloadable] = weakref.WeakSet()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def watch(self, engine: Unloadable) -> None:
        """Ask `engine` from now on, for as long as it lives or until `forget`."""
        with self._changed:
            self._engines.add(engine)
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="idle-plans", daemon=True)
                self._thread.start()

    def forget(self, engine: Unloadable) -> None:
        """Ask `engine` no more; harmless where it is not watched."""
        with self._changed:
            self._engines.discard(engine)
            self._changed.notify()

    def ask_all(self) -> float | None:
        """Unload what is idle; seconds until the next may be, None where nothing is watched."""
        now_s = self.clock.now()
        return min((engine.unload_idle(now_s) for engine in list(self._engines)), default=None)

    def _loop(self) -> None:
        while True:
            wait_s = self.ask_all()
            with self._changed:
                if not self._engines:
                    self._thread = None
                    return
                self._changed.wait(wait_s)


@cache
def shared_unloader() -> IdleUnloader:
    """The process's own."""
    return IdleUnloader()


class TensorRTEngine(Engine):
    """One plan on one GPU, with its own context, stream and buffers.

    A failed run leaves it broken: it answers with an error until loaded anew.
    `trt`: the module tensorrt or tensorrt_rtx, None to import what `backend` names;
    `binding`: None for the first that is installed; `unloader`: None for the process's own.
    """

    keeps_tensors = True

    def __init__(
        self,
        model: Path,
        *,
        device: str,
        source: PlanSource,
        backend: str = "tensorrt",
        trt: Any = None,
        binding: CudaBinding | None = None,
        options: EngineOptions | None = None,
        unloader: IdleUnloader | None = None,
    ) -> None:
        super().__init__(model, device=device, threads=1)
        self.backend = backend
        self._trt = trt
        self._binding = binding
        self._source = source
        self._options = options or EngineOptions()
        self._unloader = unloader or shared_unloader()
        self._cuda: CudaDevice | None = None
        self._runner: PlanRunner | None = None
        self._broken = ""
        self._lock = threading.Lock()
        self._used_s = 0.0

    @property
    def broken(self) -> str:
        """Why the engine must be loaded anew; empty: it need not."""
        return self._broken

    @property
    def times(self) -> RunTimes | None:
        """Where the last run's time went on the device."""
        return self._runner.times if self._runner else None

    @property
    def graphs(self) -> int:
        """CUDA graphs that were captured."""
        return self._runner.graphs if self._runner else 0

    def memory(self) -> PlanMemory | None:
        """What the plan takes now; None while it is not on the GPU."""
        with self._lock:
            return self._runner.memory() if self._runner else None

    def unload_idle(self, now_s: float) -> float:
        """Leave the GPU if unused for long enough; else the seconds until that may be."""
        if not self._lock.acquire(blocking=False):
            return self._options.idle_unload_s  # at work
        try:
            left_s = self._used_s + self._options.idle_unload_s - now_s
            if left_s > 0 or self._runner is None:
                return max(left_s, 0.0) or self._options.idle_unload_s
            log.info("%s: unused, and so unloaded", self._source.name)
            self._stop()
            return self._options.idle_unload_s
        finally:
            self._lock.release()

    def _load(self) -> tuple[dict[str, TensorSpec], dict[str, TensorSpec]]:
        with self._lock:
            plan = self._start()
        if self._options.idle_unload_s > 0:
            self._unloader.watch(self)
        return plan.inputs, plan.outputs

    def _infer(self, inputs: Tensors) -> dict[str, NDArray[Any]]:
        outputs = self._run(inputs, ())
        return {name: out for name, out in outputs.items() if isinstance(out, np.ndarray)}

    def _infer_resident(self, inputs: Tensors, resident: Collection[str]) -> dict[str, Resident]:
        return self._run(inputs, resident)

    def _close(self) -> None:
        self._unloader.forget(self)
        with self._lock:
            self._stop()
            self._broken = ""

    def _run(self, inputs: Tensors, resident: Collection[str]) -> dict[str, Resident]:
        with self._lock:
            if self._broken:
                raise EngineError(f"{self._source.name} is broken, load it anew: {self._broken}")
            try:
                if self._runner is None:
                    self._start()
                assert self._runner is not None and self._cuda is not None
                with self._cuda.current():
                    outputs = self._runner.run(inputs, resident)
            except UnfitShapeError as error:
                raise UnfitShapeError(f"{self._source.name}: {error}") from error
            except (EngineError, RuntimeError, TypeError, MemoryError) as error:
                # The bindings turn C++ exceptions into RuntimeError and MemoryError.
                self._broken = f"{type(error).__name__}: {error}"
                raise EngineError(f"{self._source.name}: {error}") from error
            self._used_s = self._unloader.clock.now()
            self._observe(self._runner.times)
            return outputs

    def _start(self) -> Plan:
        """Put the plan on the device and run it once with each profile."""
        trt = self._trt if self._trt is not None else import_trt(self.backend)
        cuda = open_device(self.device, self._binding)
        runner = None
        try:
            serialized = self._source.read(trt, cuda.info)
            with cuda.current():
                plan = Plan(trt, serialized, self._source.name)
                runner = PlanRunner(plan, cuda, graphs=self._options.cuda_graphs)
                runner.warm_up()
        except (EngineError, RuntimeError, TypeError, MemoryError) as error:
            if runner is not None:
                self._runner, self._cuda = runner, cuda
                self._stop()
            if isinstance(error, EngineLoadError):
                raise
            raise EngineLoadError(f"{self._source.name}: {error}") from error
        self._trt, self._cuda, self._runner, self._broken = trt, cuda, runner, ""
        self._used_s = self._unloader.clock.now()
        self._report(runner.memory())
        return plan

    def _stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is None or self._cuda is None:
            return
        try:
            with self._cuda.current():
                runner.close()
        except CudaError as error:
            log.warning("%s: the device is lost, its memory with it: %s", self._source.name, error)
        self._report(PlanMemory(0, 0, 0, 0))

    def _report(self, memory: PlanMemory) -> None:
        gauge = metrics.engine_memory_bytes
        for kind in ("weights", "scratch", "buffer", "pinned"):
            gauge.labels(self._source.name, kind).set(getattr(memory, f"{kind}_bytes"))

    def _observe(self, times: RunTimes) -> None:
        seconds = metrics.engine_run_seconds
        for stage in ("copy_in", "infer", "copy_out"):
            seconds.labels(self._source.name, stage).observe(getattr(times, f"{stage}_s"))
