"""The backends `tensorrt` and `tensorrt_rtx`: a model by its plans, one or several."""

from __future__ import annotations

from pathlib import Path

from visavis.engine.base import EngineOptions
from visavis.engine.parts import EngineOfParts
from visavis.engine.tensorrt.bindings.selection import check_device_name
from visavis.engine.tensorrt.engine import TensorRTEngine
from visavis.engine.tensorrt.source import sources_of
from visavis.serving.errors import EngineLoadError


class CompiledEngine(EngineOfParts):
    """A model of a bundle, or a `.plan` file, on a GPU."""

    def __init__(
        self,
        model: Path,
        *,
        device: str,
        backend: str = "tensorrt",
        options: EngineOptions | None = None,
    ) -> None:
        super().__init__(model, device=device, threads=1)
        self.backend = backend
        self._options = options or EngineOptions()

    def _open_parts(self) -> dict[str, TensorRTEngine]:
        check_device_name(self.device)
        if self.device == "cpu":
            raise EngineLoadError(f"device: {self.backend} runs on cuda:N, not on cpu")
        sources = sources_of(self.model, self._options.plans)
        return {
            name: TensorRTEngine(
                self.model,
                device=self.device,
                source=source,
                backend=self.backend,
                options=self._options,
            )
            for name, source in sources.items()
        }
