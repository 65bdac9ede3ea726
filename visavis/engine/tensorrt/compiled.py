"""The backends `tensorrt` and `tensorrt_rtx`: a model by its plans, one or several."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visavis.engine.base import Engine, Resident, Tensors
from visavis.engine.options import EngineOptions
from visavis.engine.tensorrt.engine import TensorRTEngine
from visavis.engine.tensorrt.parts import Arrangement, Specs, arrange
from visavis.engine.tensorrt.runner import PlanMemory
from visavis.engine.tensorrt.selection import check_device_name
from visavis.engine.tensorrt.source import sources_of
from visavis.errors import EngineLoadError


class CompiledEngine(Engine):
    """A model of a bundle, or a `.plan` file, on a GPU. Its plans are loaded together."""

    keeps_tensors = True

    def __init__(
        self,
        model: Path,
        *,
        device: str,
        threads: int = 1,
        backend: str = "tensorrt",
        options: EngineOptions | None = None,
    ) -> None:
        super().__init__(model, device=device, threads=threads)
        self.backend = backend
        self._options = options or EngineOptions()
        self._plans: dict[str, TensorRTEngine] = {}
        self._whole: Arrangement | None = None

    @property
    def plans(self) -> dict[str, TensorRTEngine]:
        """By the recipe's name; empty before `load`."""
        return dict(self._plans)

    def memory(self) -> dict[str, PlanMemory]:
        """By the recipe's name, of the plans that are on the GPU now."""
        told = {name: plan.memory() for name, plan in self._plans.items()}
        return {name: memory for name, memory in told.items() if memory is not None}

    def _load(self) -> tuple[Specs, Specs]:
        check_device_name(self.device)
        if self.device == "cpu":
            raise EngineLoadError(f"device: {self.backend} runs on cuda:N, not on cpu")
        sources = sources_of(self.model, self._options)
        with ExitStack() as undo:
            for name, source in sources.items():
                plan = TensorRTEngine(
                    self.model,
                    device=self.device,
                    source=source,
                    backend=self.backend,
                    options=self._options,
                )
                plan.load()
                undo.callback(plan.close)
                self._plans[name] = plan
            self._whole = arrange(self.model.name, self._plans)
            undo.pop_all()
        return self._whole.inputs, self._whole.outputs

    def _infer(self, inputs: Tensors) -> dict[str, NDArray[Any]]:
        outputs = self._infer_resident(inputs, ())
        return {name: out for name, out in outputs.items() if isinstance(out, np.ndarray)}

    def _infer_resident(self, inputs: Tensors, resident: Collection[str]) -> dict[str, Resident]:
        assert self._whole is not None
        return self._whole.run(inputs, resident)

    def _close(self) -> None:
        self._whole = None
        plans, self._plans = self._plans, {}
        for plan in plans.values():
            plan.close()
