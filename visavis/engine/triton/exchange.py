"""Arrays as the messages of KServe's open inference protocol, and back. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from visavis.engine.base import TensorSpec
from visavis.serving.errors import EngineError, EngineLoadError
from visavis.v1 import kserve_pb2 as pb

_DTYPES: Mapping[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype("u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}

HIGHEST_PRIORITY, LOWEST_PRIORITY = 1, 4
"""Triton's priorities; models in a repository of ours have so many levels."""


def datatype_of(dtype: np.dtype[Any]) -> str:
    """The protocol's name. Raises EngineLoadError for a dtype that it has none for."""
    try:
        return _NAMES[dtype.newbyteorder("<")]
    except KeyError:
        raise EngineLoadError(f"the protocol has no name for tensors of {dtype}") from None


def specs_of(
    tensors: Iterable[pb.ModelMetadataResponse.TensorMetadata],
) -> dict[str, TensorSpec]:
    """By name. Raises EngineLoadError for a datatype that is not an array's, such as BYTES."""
    specs = {}
    for tensor in tensors:
        if tensor.datatype not in _DTYPES:
            raise EngineLoadError(f"{tensor.name} is of the datatype {tensor.datatype}")
        shape = tuple(size if size >= 0 else None for size in tensor.shape)
        specs[tensor.name] = TensorSpec(tensor.name, _DTYPES[tensor.datatype], shape)
    return specs


def infer_request(
    model: str, inputs: Mapping[str, NDArray[Any]], *, timeout_s: float, priority: int
) -> pb.ModelInferRequest:
    """Ask `model` for all its outputs.

    inputs: by name, as the model describes them; timeout_s: so long the server lets it wait, at
    most; priority: 0 is the most urgent class, as in `Urgency`.
    """
    request = pb.ModelInferRequest(model_name=model)
    for name, array in inputs.items():
        request.inputs.add(name=name, datatype=datatype_of(array.dtype), shape=array.shape)
        request.raw_input_contents.append(_bytes_of(array))
    level = min(max(HIGHEST_PRIORITY + priority, HIGHEST_PRIORITY), LOWEST_PRIORITY)
    request.parameters["priority"].int64_param = level
    request.parameters["timeout"].int64_param = max(1, round(timeout_s * 1e6))
    return request


def outputs_of(response: pb.ModelInferResponse) -> dict[str, NDArray[Any]]:
    """By name, each the caller's own. Raises EngineError for an answer that contradicts itself."""
    if len(response.outputs) != len(response.raw_output_contents):
        raise EngineError("the server's answer has tensors without contents")
    return {
        tensor.name: _array_of(tensor, content)
        for tensor, content in zip(response.outputs, response.raw_output_contents, strict=True)
    }


def _bytes_of(array: NDArray[Any]) -> bytes:
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def _array_of(tensor: pb.ModelInferResponse.InferOutputTensor, content: bytes) -> NDArray[Any]:
    shape = tuple(tensor.shape)
    dtype = _DTYPES.get(tensor.datatype)
    if dtype is None or len(content) != dtype.itemsize * int(np.prod(shape, dtype=np.int64)):
        raise EngineError(
            f"the server's answer has {len(content)} bytes for {tensor.name}, "
            f"{tensor.datatype} {list(shape)}"
        )
    # Bytes are read-only, and the array is the caller's own.
    return np.frombuffer(content, dtype).reshape(shape).copy()
