"""Reads the weights of a TFLite file by the layer they belong to.

Only the flatbuffer is read; nothing is run, so files whose operators no runtime supports can be
read too. The converter merges equal tensors, so the name of a tensor does not always tell its
layer: a weight is found through the operator that uses it, by the name of what that computes.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visavis.serving.errors import ModelStoreError

_DTYPES = {0: np.float32, 2: np.int32, 9: np.int8}
_KERNEL_OPERATORS = frozenset({"CONV_2D", "FULLY_CONNECTED", "TRANSPOSE_CONV"})


class TfliteWeights:
    """Weights of the main graph of a TFLite file, dequantised to float32."""

    def __init__(self, path: Path) -> None:
        """Parse `path`. Raises ModelStoreError if it is not TFLite or the reader is missing."""
        try:
            from ai_edge_litert import schema_py_generated as schema
        except ImportError as error:
            raise ModelStoreError(
                "preparing this bundle needs the package ai-edge-litert: pip install ai-edge-litert"
            ) from error
        content = path.read_bytes()
        if content[4:8] != b"TFL3":
            raise ModelStoreError(f"{path} is not a TFLite file: pull the bundle again")
        self._path = path
        try:
            self._read(schema, schema.ModelT.InitFromPackedBuf(content, 0))
        # What a damaged flatbuffer may do to its reader has no end; none of it gets past here.
        except Exception as error:
            raise ModelStoreError(f"{path} is damaged: pull the bundle again ({error})") from error

    def _read(self, schema: Any, model: Any) -> None:
        self._buffers: list[Any] = model.buffers
        graph = model.subgraphs[0]
        self._tensors: list[Any] = graph.tensors
        names = {
            code: name
            for name, code in vars(schema.BuiltinOperator).items()
            if isinstance(code, int)
        }
        codes = [max(code.builtinCode, code.deprecatedBuiltinCode) for code in model.operatorCodes]
        self._operators = [
            (names.get(codes[operator.opcodeIndex], ""), operator) for operator in graph.operators
        ]
        self._by_name = {tensor.name.decode(): index for index, tensor in enumerate(self._tensors)}
        for operator in graph.operators:
            for index in (operator.outputs[0], *operator.inputs):
                if not -1 <= index < len(self._tensors):
                    raise IndexError(f"an operator names tensor {index}")
        for tensor in self._tensors:
            if not 0 <= tensor.buffer < len(self._buffers):
                raise IndexError(f"{tensor.name.decode()} lies in buffer {tensor.buffer}")

    def kernel(self, scope: str) -> NDArray[np.float32]:
        """Kernel of the convolution or dense layer `scope`, in TFLite's order (output first).

        float32. Convolution: [out, 1, width, in]; dense: [out, in]; transposed convolution:
        [out, height, width, in]. Raises ModelStoreError where there is no such layer.
        """
        for kind, operator in self._operators:
            if kind in _KERNEL_OPERATORS and self._computes(operator, scope):
                if len(operator.inputs) > 1:
                    return self._constant(operator.inputs[1])
        raise self._missing(f"layer {scope}")

    def operand(self, result: str) -> NDArray[np.float32]:
        """The constant that goes into the computation of `result`: a bias, a scale, a shift.

        [...] float32, of its own shape. Raises ModelStoreError where there is none.
        """
        for _, operator in self._operators:
            parts = self._tensors[operator.outputs[0]].name.decode().split(";")
            if result in parts:
                for index in operator.inputs:
                    if self._is_constant(index):
                        return self._constant(index)
        raise self._missing(f"operand of {result}")

    def bias(self, scope: str) -> NDArray[np.float32]:
        """Bias [out] float32 added behind the layer `scope`. Raises ModelStoreError without one."""
        return self.operand(f"{scope}/BiasAdd")

    def tensor(self, name: str) -> NDArray[np.float32]:
        """The constant called `name`, [...] float32. Raises ModelStoreError where there is none."""
        if name not in self._by_name:
            raise self._missing(f"tensor {name}")
        return self._constant(self._by_name[name])

    def _computes(self, operator: Any, scope: str) -> bool:
        return any(name.startswith(f"{scope}/") or name == scope for name in self._names(operator))

    def _names(self, operator: Any) -> Iterator[str]:
        for part in self._tensors[operator.outputs[0]].name.decode().split(";"):
            yield part
            # The converter tells tensors of one name apart by a digit at the end.
            yield part.rstrip("0123456789")

    def _is_constant(self, index: int) -> bool:
        return index >= 0 and self._buffers[self._tensors[index].buffer].data is not None

    def _constant(self, index: int) -> NDArray[np.float32]:
        tensor = self._tensors[index]
        stored = self._buffers[tensor.buffer].data
        if stored is None or tensor.type not in _DTYPES:
            raise self._missing(f"constant {tensor.name.decode()} of a known type")
        try:
            values = np.frombuffer(bytes(stored), _DTYPES[tensor.type]).reshape(tensor.shape)
            return values.astype(np.float32) if tensor.type != 9 else _dequantised(tensor, values)
        except (ValueError, IndexError, TypeError, AttributeError) as error:
            raise self._missing(f"constant {tensor.name.decode()} of its shape") from error

    def _missing(self, what: str) -> ModelStoreError:
        return ModelStoreError(
            f"{self._path} has no {what}: it is not the file that this bundle expects"
        )


def _dequantised(tensor: Any, values: NDArray[Any]) -> NDArray[np.float32]:
    """Eight-bit `values` of the tensor's shape, by its scales of one axis or its single one."""
    scales = np.asarray(tensor.quantization.scale, np.float32)
    if scales.size > 1:
        extent = [1] * values.ndim
        extent[tensor.quantization.quantizedDimension] = scales.size
        scales = scales.reshape(extent)
    zero = np.asarray(tensor.quantization.zeroPoint, np.float32).reshape(scales.shape)
    return ((values.astype(np.float32) - zero) * scales).astype(np.float32)
