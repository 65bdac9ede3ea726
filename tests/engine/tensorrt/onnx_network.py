"""A network for the double of TensorRT that ONNX Runtime computes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache

import numpy as np
import onnx
import onnxruntime

from tests.engine.tensorrt.recorded_trt import DATA_TYPES, DataType, Network
from visavis.bundles.store.recipe import ProfileSpec

Shape = tuple[int, ...]
Ranges = dict[str, tuple[Shape, Shape, Shape]]
# Larger weights shape nothing, and the shapes are asked for in every step of a decoder.
_MOST_ELEMENTS = 1024


def ranges_of(profiles: Iterable[ProfileSpec]) -> list[Ranges]:
    """The profiles of a recipe as the double takes them."""
    return [{name: (r.min, r.opt, r.max) for name, r in p.shapes.items()} for p in profiles]


def network_of(onnx_bytes: bytes, profiles: list[Ranges]) -> Network:
    """What the graph computes, for the shapes of `profiles`."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(onnx_bytes, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def compute(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return dict(zip(names, session.run(names, inputs), strict=True))

    model = onnx.load_from_string(onnx_bytes)
    inputs, outputs = described(model.graph.input), described(model.graph.output)
    inferred = _shape_inference(model)
    return Network(
        compute,
        inputs,
        outputs,
        profiles,
        lambda shapes: inferred(tuple(shapes.items())),
        optional=True,
    )


def described(
    tensors: Iterable[onnx.ValueInfoProto],
) -> dict[str, tuple[DataType, Shape]]:
    """Type and shape by name, with -1 for what varies."""
    told = {}
    for tensor in tensors:
        kind = tensor.type.tensor_type
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type))
        told[tensor.name] = (DATA_TYPES[dtype], tuple(d.dim_value or -1 for d in kind.shape.dim))
    return told


def _shape_inference(lean: onnx.ModelProto) -> Callable[..., dict[str, Shape]]:
    """Shapes of the inputs to shapes of the outputs, as the compiler would know them."""
    names = {o.name: [d.dim_param for d in o.type.tensor_type.shape.dim] for o in lean.graph.output}
    _make_lean(lean.graph)

    @cache
    def output_shapes(named: tuple[tuple[str, Shape], ...]) -> dict[str, Shape]:
        shapes = dict(named)
        asked, sizes = onnx.ModelProto(), dict[str, int]()
        asked.CopyFrom(lean)
        for given in asked.graph.input:
            for dim, size in zip(
                given.type.tensor_type.shape.dim, shapes.get(given.name, ()), strict=False
            ):
                sizes[dim.dim_param] = size
                dim.dim_value = size
        made = onnx.shape_inference.infer_shapes(asked, data_prop=True).graph.output
        return {
            output.name: tuple(
                found.dim_value or _named(name, sizes)
                for found, name in zip(
                    output.type.tensor_type.shape.dim, names[output.name], strict=True
                )
            )
            for output in made
        }

    return output_shapes


def _named(name: str, sizes: Mapping[str, int]) -> int:
    """A dimension by its name in the graph, which may be `past_and_new`."""
    return sum(sizes[part] for part in name.split("_and_"))


def _make_lean(graph: onnx.GraphProto) -> None:
    """Make inputs of the large weights, and claim nothing about the outputs."""
    small = []
    for tensor in graph.initializer:
        if np.prod(tensor.dims) <= _MOST_ELEMENTS:
            small.append(onnx.TensorProto.FromString(tensor.SerializeToString()))
        else:
            graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
    del graph.initializer[:], graph.value_info[:]
    graph.initializer.extend(small)
    for output in graph.output:
        output.type.tensor_type.ClearField("shape")
