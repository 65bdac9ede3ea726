"""An engine that steps down when its place is lost: compiled plan, ONNX Runtime on the GPU, CPU.

Every step is told three times: in the log, in the metrics, and in `state`, which GetStatus
shows. A wrong device is not a reason to step down but an error: where there are GPUs, one
of them must be the one that was asked for.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

from visavis.bundles.store.lookup import kept_on_cpu
from visavis.engine.base import Engine, EngineOptions, EngineState, Resident, Tensors, TensorSpec
from visavis.serving import metrics
from visavis.serving.errors import EngineError, EngineLoadError, UnfitShapeError

log = logging.getLogger(__name__)

FORGIVEN_AFTER_RUNS = 1000
"""So many good runs after a restart, and the next failure may have one again."""

T = TypeVar("T")
Specs = tuple[dict[str, TensorSpec], dict[str, TensorSpec]]


@dataclass(frozen=True)
class Rung:
    """One place where the model could run."""

    backend: str
    device: str
    open: Callable[[], Engine]

    def __str__(self) -> str:
        return f"{self.backend} on {self.device}"


class LadderEngine(Engine):
    """The first of `rungs` that works, restarted once when it breaks, then the next one."""

    keeps_tensors = True  # handed to the rung, which takes them or has them copied

    def __init__(
        self, model: Path, rungs: Sequence[Rung], *, name: str = "", wanted: str = ""
    ) -> None:
        """rungs: best first. wanted: the device that was asked for, for messages."""
        super().__init__(model, device=wanted or rungs[0].device, threads=1)
        self.backend = rungs[0].backend
        self._name = name or f"{model.parent.name}/{model.stem}"
        self._rungs = tuple(rungs)
        self._at = 0
        self._engine: Engine | None = None
        self._detail = ""
        self._good_runs = 0
        self._restarted = False

    @property
    def state(self) -> EngineState:
        rung = self._rungs[self._at]
        return EngineState(rung.backend, rung.device, self._detail)

    @property
    def current(self) -> Engine | None:
        """The engine that works now."""
        return self._engine

    def _load(self) -> Specs:
        self._at, self._detail, self._restarted = 0, "", False
        engine = self._climb_down(None)
        return dict(engine.inputs), dict(engine.outputs)

    def _infer(self, inputs: Tensors) -> dict[str, NDArray[Any]]:
        return self._run(lambda engine: engine.infer(inputs))

    def _infer_resident(self, inputs: Tensors, resident: Collection[str]) -> dict[str, Resident]:
        return self._run(lambda engine: engine.infer_resident(inputs, resident))

    def _close(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()
        self._tell_metrics(0)

    def _run(self, work: Callable[[Engine], T]) -> T:
        engine = self._engine or self._come_back()
        try:
            result = work(engine)
        except UnfitShapeError as error:
            result = self._step_past(engine, error, work)
        except EngineError as error:
            if self._rungs[self._at].device == "cpu":
                raise  # a CPU does not break: it is this request
            outcome = self._recover(engine, error)
            raise EngineError(f"{self._name}: {error}; {outcome}") from error
        self._good_runs += 1
        if self._restarted and self._good_runs >= FORGIVEN_AFTER_RUNS:
            self._restarted = False
        return result

    def _step_past(self, engine: Engine, error: UnfitShapeError, work: Callable[[Engine], T]) -> T:
        """The result of the next rung, for shapes that this one was not compiled for.

        It is our profiles' fault and not the visitor's, and the request itself is sound: it is
        answered where any shape runs. Where there is no such place the engine stays, for it
        still runs all that it was compiled for. Raises EngineError then.
        """
        at, detail = self._at, self._detail
        log.error("%s: %s was not compiled for this: %s", self._name, self._rungs[at], error)
        try:
            below = self._climb_down(str(error))
        except EngineLoadError as last:
            self._at, self._detail = at, detail
            self._tell_metrics(1)
            raise EngineError(str(last)) from error
        engine.close()
        return work(below)

    def _recover(self, engine: Engine, error: EngineError) -> str:
        """Restart the engine, or step down; what came of it, for who asked."""
        rung = self._rungs[self._at]
        reason = str(error)
        engine.close()
        if not self._restarted:
            self._restarted, self._good_runs = True, 0
            log.error("%s: %s broke and is loaded anew: %s", self._name, rung, reason)
            metrics.engine_restarts.labels(self._name, rung.backend).inc()
            try:
                engine.load()
            except EngineError as again:
                reason = f"{reason}; and it cannot be loaded anew: {again}"
            else:
                return f"{rung} was loaded anew, send the request again"
        self._engine = None
        try:
            self._climb_down(reason)
        except EngineLoadError as last:
            return str(last)
        return f"now on {self._rungs[self._at]}, send the request again"

    def _come_back(self) -> Engine:
        """Nothing was left at the last failure: perhaps it works again."""
        self._at = 0
        return self._climb_down(None)

    def _climb_down(self, lost: str | None) -> Engine:
        """Load the first rung that works, from the present one; `lost`: why not that one.

        Raises EngineLoadError with every rung's reason.
        """
        reasons = []
        if lost is not None:
            reasons.append(f"{self._rungs[self._at]}: {lost}")
        first = self._at + (lost is not None)
        for index in range(first, len(self._rungs)):
            if index > 0:
                self._step_to(index, reasons[-1])
            rung = self._rungs[index]
            try:
                engine = rung.open()
                engine.load()
                self._check_same(engine)
            except EngineError as error:
                reasons.append(f"{rung}: {error}")
                continue
            self._engine, self._at = engine, index
            self.backend = rung.backend
            self._detail = "stepped down: " + "; ".join(reasons) if reasons else ""
            self._tell_metrics(1)
            log.log(logging.WARNING if reasons else logging.INFO, "%s runs by %s", self._name, rung)
            return engine
        self._detail = "; ".join(reasons)
        raise EngineLoadError(f"{self._name}: nothing is left to run it: {self._detail}")

    def _step_to(self, index: int, reason: str) -> None:
        above, below = self._rungs[index - 1], self._rungs[index]
        log.warning("%s steps down to %s; %s", self._name, below, reason)
        metrics.engine_degraded.labels(self._name, above.backend, below.backend).inc()
        metrics.engine_backend_info.labels(self._name, above.backend, above.device).set(0)

    def _check_same(self, engine: Engine) -> None:
        """A rung with other tensors would fail its callers later and less clearly."""
        if self._specs is None:
            return
        for specs, others in zip(self._specs, (engine.inputs, engine.outputs), strict=True):
            if {(s.name, s.dtype) for s in specs.values()} != {
                (s.name, s.dtype) for s in others.values()
            }:
                engine.close()
                raise EngineLoadError(
                    f"it has the tensors {', '.join(sorted(others))} "
                    f"instead of {', '.join(sorted(specs))}"
                )

    def _tell_metrics(self, value: int) -> None:
        rung = self._rungs[self._at]
        metrics.engine_backend_info.labels(self._name, rung.backend, rung.device).set(value)


def open_ladder(
    model: Path, *, device: str, threads: int = 1, options: EngineOptions | None = None
) -> Engine:
    """Engine for `model` on `device`: cpu, cuda:N or cuda:GPU-uuid. Call `load()`.

    Raises EngineLoadError for a device that is not there, listing those that are.
    """
    options = options or EngineOptions()
    return LadderEngine(model, rungs_for(model, device, threads, options), wanted=device)


def rungs_for(model: Path, device: str, threads: int, options: EngineOptions) -> list[Rung]:
    """Where `model` could run, best first."""
    from visavis.engine.tensorrt.bindings.selection import check_device_name

    check_device_name(device)
    cpu = Rung("onnxruntime", "cpu", lambda: _onnxruntime(model, "cpu", threads, options))
    if device == "cpu":
        return [cpu]
    if reason := kept_on_cpu(model):
        log.info("%s stays on the CPU: %s", model.name, reason)
        return [cpu]
    found = _existing(device)
    backend = next((name for name in _TENSORRT if find_spec(name) is not None), _TENSORRT[0])
    rungs = [
        Rung(backend, found, lambda: _compiled(model, found, backend, options)),
        Rung("onnxruntime", found, lambda: _onnxruntime(model, found, threads, options)),
    ]
    return rungs if options.require_device else [*rungs, cpu]


_TENSORRT = ("tensorrt", "tensorrt_rtx")


def _existing(device: str) -> str:
    """`device` as cuda:N if that can be found out. Raises UnknownDeviceError for a wrong one."""
    from visavis.engine.tensorrt.bindings.selection import (
        NoDeviceError,
        find_device,
        list_devices,
        open_binding,
    )

    try:
        return f"cuda:{find_device(device, list_devices(open_binding())).index}"
    except NoDeviceError:
        return device  # each rung will say so


def _onnxruntime(model: Path, device: str, threads: int, options: EngineOptions) -> Engine:
    from visavis.engine.onnxruntime import open_onnxruntime

    return open_onnxruntime(model, device=device, threads=threads, options=options)


def _compiled(model: Path, device: str, backend: str, options: EngineOptions) -> Engine:
    from visavis.engine.tensorrt.compiled import CompiledEngine

    return CompiledEngine(model, device=device, backend=backend, options=options)
