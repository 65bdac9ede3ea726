"""Makes the English voice tell how long each phoneme lasts.

hibari.onnx rounds the durations inside, right before its length regulator; here that tensor
becomes an output. Nothing else of the graph changes.
"""

from collections.abc import Callable
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from visavis.errors import ModelStoreError

SOURCE = "hibari.onnx"
TARGET = "hibari-durations.onnx"
OUTPUT = "durations"


def prepare(bundle_dir: Path, progress: Callable[[str, float], None]) -> list[str]:
    """Write hibari-durations.onnx next to hibari.onnx; return its name.

    The new output `durations` is [L] int64, one per input id, at least 1; the voice has a fixed
    number of frames per unit. Raises ModelStoreError where the graph has no such place.
    """
    progress("reading the English voice", 0.0)
    model = onnx.load(bundle_dir / SOURCE)
    durations = _durations_tensor(model.graph)
    model.graph.node.append(helper.make_node("Identity", [durations], [OUTPUT]))
    model.graph.output.append(helper.make_tensor_value_info(OUTPUT, TensorProto.INT64, ["L"]))
    onnx.checker.check_model(model)
    target = bundle_dir / TARGET
    partial = target.with_name(TARGET + ".part")
    onnx.save(model, str(partial))
    partial.replace(target)
    progress("voice is ready", 1.0)
    return [TARGET]


def _durations_tensor(graph: onnx.GraphProto) -> str:
    """The integer durations: what follows the graph's only Round, up to the cumulated sum."""
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    rounds = [node for node in graph.node if node.op_type == "Round"]
    if len(rounds) == 1:
        tensor = rounds[0].output[0]
        for _ in range(3):
            following = readers.get(tensor, [])
            if any(node.op_type == "CumSum" for node in following):
                return str(tensor)
            if not following or following[0].op_type not in ("Clip", "Cast"):
                break
            tensor = following[0].output[0]
    raise ModelStoreError(f"{SOURCE} has no length regulator where one is expected: wrong version?")
