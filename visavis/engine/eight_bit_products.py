"""Products of unsigned by signed bytes, which not every processor adds up exactly.

ONNX Runtime computes 8-bit networks with them. A processor with VNNI adds them in 32 bits, as Arm's
do. One with AVX2 alone adds pairs of them in 16 bits, and a sum beyond 32767 is clipped. There the
weights are to be shifted to unsigned bytes, whose products are exact and take longer: ONNX Runtime
does that if it is asked to, on processors with VNNI as well, so we ask only where it is needed.
"""

from __future__ import annotations

import base64
from functools import cache
from pathlib import Path

import numpy as np
import onnxruntime as ort

EXACTLY = ("session.x64quantprecision", "1")
"""Key and value of the session's setting that has the weights shifted."""

# A graph of one MatMulInteger, y = x w: x [1, 4] uint8, w [4, 1] int8, y [1, 1] int32. As bytes,
# because nothing else that serves needs the package onnx.
_PRODUCT = base64.b64decode(
    "CAgSADpcChgKAXgKAXcSAXkiDU1hdE11bEludGVnZXISAWdaEwoBeBIOCgwIAhIICgIIAQoCCARaEwoBdxIOCgwIAxII"
    "CgIIBAoCCAFiEwoBeRIOCgwIBhIICgIIAQoCCAFCBAoAEBE="
)
_LARGEST_UNSIGNED, _LARGEST_SIGNED = 255, 127


@cache
def are_clipped() -> bool:
    """Whether this processor clips them, found out by having it compute some."""
    session = ort.InferenceSession(_PRODUCT, providers=["CPUExecutionProvider"])
    x = np.full((1, 4), _LARGEST_UNSIGNED, np.uint8)
    w = np.full((4, 1), _LARGEST_SIGNED, np.int8)
    (y,) = session.run(None, {"x": x, "w": w})
    return int(y[0, 0]) != x.size * _LARGEST_UNSIGNED * _LARGEST_SIGNED


def with_weights_of_their_own(model: Path) -> bytes:
    """The graph with a copy of each 8-bit tensor for every node that reads it.

    ONNX Runtime, asked to shift weights, fails on those that several nodes share, as those of the
    English voice.
    """
    import onnx

    graph = onnx.load(model)
    tensors = {tensor.name: tensor for tensor in graph.graph.initializer}
    read: set[str] = set()
    for number, node in enumerate(graph.graph.node):
        for place, name in enumerate(node.input):
            if name not in tensors or tensors[name].data_type != onnx.TensorProto.INT8:
                continue
            if name in read:
                own = graph.graph.initializer.add()
                own.CopyFrom(tensors[name])
                own.name = node.input[place] = f"{name}/{number}"
            read.add(name)
    return graph.SerializeToString()
