"""A TFLite net run through LiteRT."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from numpy.typing import NDArray

from visavis.serving.errors import EngineLoadError


class TfliteModel:
    """A small network of a bundle: one input, outputs in the order of the file.

    One thread at a time.
    """

    def __init__(self, path: Path) -> None:
        """Raises EngineLoadError where the file is no net that LiteRT can run."""
        try:
            self._interpreter = Interpreter(model_path=str(path), num_threads=1)
            self._interpreter.allocate_tensors()
        except (OSError, ValueError, RuntimeError) as error:
            raise EngineLoadError(f"{path} does not load: {error}") from error
        self._input = self._interpreter.get_input_details()[0]["index"]
        self._outputs = [detail["index"] for detail in self._interpreter.get_output_details()]

    def run(self, tensor: NDArray[np.float32]) -> list[NDArray[np.float32]]:
        """Copies of all outputs for one input; all float32, [...] as the net itself has it."""
        self._interpreter.set_tensor(self._input, tensor.astype(np.float32, copy=False))
        self._interpreter.invoke()
        return [self._interpreter.get_tensor(index) for index in self._outputs]
