"""Runs `model.onnx`, which lies beside it, in Triton's Python backend.

For servers without the backend `onnxruntime`, such as the one that `nvidia-pytriton` carries. It is
copied into the model repository as `model.py` and stands alone: it finds numpy and onnxruntime in
the server's Python, and nothing of visavis. Requests that Triton's batcher hands over together are
one run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import triton_python_backend_utils as pb_utils  # Triton's, there at run time
from numpy.typing import NDArray


class TritonPythonModel:
    """What the Python backend looks for: one network, in one instance."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load the network, as the model's config says."""
        config = json.loads(args["model_config"])
        told = {name: value["string_value"] for name, value in config["parameters"].items()}
        options = ort.SessionOptions()
        options.intra_op_num_threads = int(told["threads"])
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        for entry in filter(None, told["session_entries"].split(",")):
            options.add_session_config_entry(*entry.split("="))
        provider: str | tuple[str, dict[str, str]] = "CPUExecutionProvider"
        if args["model_instance_kind"] == "GPU":
            device = args["model_instance_device_id"]
            provider = ("CUDAExecutionProvider", {"device_id": device})
        model = Path(args["model_repository"], args["model_version"], "model.onnx")
        self._session = ort.InferenceSession(model, options, providers=[provider])
        active = self._session.get_providers()[0]
        if active != (provider if isinstance(provider, str) else provider[0]):
            raise RuntimeError(f"onnxruntime fell back to {active}")
        self._batched = config["max_batch_size"] > 0
        self._inputs = [tensor.name for tensor in self._session.get_inputs()]
        self._outputs = [tensor.name for tensor in self._session.get_outputs()]

    def execute(self, requests: Sequence[Any]) -> list[Any]:
        """The answers to the requests of one batch, in their order."""
        if not self._batched:
            return [self._response(self._run([request]), slice(None)) for request in requests]
        rows = [len(self._array(request, self._inputs[0])) for request in requests]
        ends = np.cumsum(rows)
        outputs = self._run(requests)
        return [
            self._response(outputs, slice(end - count, end))
            for count, end in zip(rows, ends, strict=True)
        ]

    def _run(self, requests: Sequence[Any]) -> list[NDArray[Any]]:
        together = {
            name: np.concatenate([self._array(request, name) for request in requests])
            if len(requests) > 1
            else self._array(requests[0], name)
            for name in self._inputs
        }
        outputs: list[NDArray[Any]] = self._session.run(None, together)
        return outputs

    def _response(self, outputs: Sequence[NDArray[Any]], rows: slice) -> Any:
        tensors = [
            pb_utils.Tensor(name, np.ascontiguousarray(array[rows] if self._batched else array))
            for name, array in zip(self._outputs, outputs, strict=True)
        ]
        return pb_utils.InferenceResponse(output_tensors=tensors)

    @staticmethod
    def _array(request: Any, name: str) -> NDArray[Any]:
        array: NDArray[Any] = pb_utils.get_input_tensor_by_name(request, name).as_numpy()
        return array
