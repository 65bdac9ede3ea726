"""INT8 as pairs of QuantizeLinear and DequantizeLinear around what is computed in 8 bits.

The ranges of the activations are percentiles over real inputs (Wu et al. 2020, arXiv:2004.09602,
section 3.2), the weights' are per channel. All of it is symmetric and biases stay in floats:
TensorRT parses neither zero points nor 32-bit DequantizeLinear.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import onnx
from numpy.typing import NDArray

from visavis.bundles.compile.build_progress import Cancelled, stop_if
from visavis.serving.errors import PlanError

PERCENTILE = 99.99
"""Of the absolute values of an activation: what is larger is clipped."""
OPERATORS = ("Conv", "ConvTranspose", "Gemm", "MatMul")

Tensors = dict[str, NDArray[Any]]


def to_int8(
    model: onnx.ModelProto,
    calibration: Iterable[Tensors],
    keep_float: Iterable[str] = (),
    cancelled: Cancelled | None = None,
) -> onnx.ModelProto:
    """`model` with its convolutions and products of matrices in 8 bits; the rest stays in 32.

    `calibration`: real inputs, name -> array of the shape and dtype of the graph's. `keep_float`:
    globs of node names that are not quantised. Inputs and outputs keep their types. Raises
    PlanError where there is no input, and where onnxruntime's quantiser fails; PlanCancelledError
    between two of the inputs.
    """
    from onnxruntime.quantization import (
        CalibrationMethod,
        QuantFormat,
        QuantType,
        quantize_static,
    )
    from onnxruntime.quantization.shape_inference import quant_pre_process

    samples = _Samples(calibration, cancelled)
    globs = tuple(keep_float)
    with tempfile.TemporaryDirectory(prefix="visavis-int8-") as folder, _quiet():
        source, ready, made = (Path(folder) / f"{n}.onnx" for n in ("float", "ready", "int8"))
        onnx.save(_named(model), source)
        try:
            # Types and shapes only: onnxruntime's optimiser renames and fuses nodes.
            quant_pre_process(
                str(source), str(ready), skip_optimization=True, skip_symbolic_shape=True
            )
            quantize_static(
                str(ready),
                str(made),
                samples,
                quant_format=QuantFormat.QDQ,
                op_types_to_quantize=list(OPERATORS),
                per_channel=True,
                activation_type=QuantType.QInt8,
                weight_type=QuantType.QInt8,
                nodes_to_exclude=_excluded(onnx.load(ready), globs),
                calibrate_method=CalibrationMethod.Percentile,
                extra_options={
                    "ActivationSymmetric": True,
                    "WeightSymmetric": True,
                    "AddQDQPairToWeight": True,
                    "QuantizeBias": False,
                    "CalibPercentile": PERCENTILE,
                    # Whatever its name says: take in one sample at a time. Else all of them
                    # would have to be of one length, and lie in memory with every activation.
                    "CalibStridedMinMax": 1,
                },
            )
        except Exception as error:  # numpy's, protobuf's and onnxruntime's own
            if isinstance(error, PlanError):
                raise
            raise PlanError(f"the graph was not quantised: {error}") from error
        return onnx.load(made)


class _Samples:
    """What onnxruntime's quantiser draws its inputs from (its CalibrationDataReader).

    It asks for one range after the other (see CalibStridedMinMax above); a range is one sample.
    """

    def __init__(self, samples: Iterable[Tensors], cancelled: Cancelled | None = None) -> None:
        self._cancelled = cancelled
        self._samples: list[Tensors] = []
        for sample in samples:
            stop_if(cancelled)
            self._samples.append(sample)
        self._range = iter(self._samples)
        if not self._samples:
            raise PlanError("INT8 needs real inputs to be calibrated on, and there are none")

    def __len__(self) -> int:
        return len(self._samples)

    def set_range(self, start_index: int, end_index: int) -> None:
        self._range = iter(self._samples[start_index:end_index])

    def get_next(self) -> Tensors | None:
        stop_if(self._cancelled)
        return next(self._range, None)


def _named(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy in which every node has a name: the quantiser knows them by nothing else."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for number, node in enumerate(copy.graph.node):
        node.name = node.name or f"{node.op_type.lower()}_{number}"
    return copy


def _excluded(model: onnx.ModelProto, globs: tuple[str, ...]) -> list[str]:
    names = [node.name for node in model.graph.node]
    for glob in globs:
        if not any(fnmatchcase(name, glob) for name in names):
            raise PlanError(f"{glob!r} is the name of no node in the graph")
    return [name for name in names if any(fnmatchcase(name, glob) for glob in globs)]


@contextmanager
def _quiet() -> Iterator[None]:
    """The quantiser prints its progress, and warns of what we have seen to."""
    from onnxruntime.quantization import calibrate

    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)
    vars(calibrate)["print"] = lambda *_, **__: None
    try:
        yield
    finally:
        del vars(calibrate)["print"]
        root.setLevel(level)
