"""Graph surgery: small named passes that make a published graph one that TensorRT compiles.

Each turns one model into another and computes the same; each raises PlanError where the graph is
not the one that it was written for. A pass may use up the model that it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import onnx

from visavis.bundles.compile.build_progress import Cancelled, stop_if
from visavis.bundles.compile.surgery.quantization import (
    fold_constant_weights,
    fold_dynamic_quantization,
    fold_static_quantization,
)
from visavis.bundles.hibari import hibari_text, hibari_voice
from visavis.bundles.kokoro import kokoro_voice
from visavis.bundles.moonshine import (
    moonshine_first_step,
    moonshine_masks,
    moonshine_next_step,
)
from visavis.bundles.piper.splines import vits_splines
from visavis.bundles.piper.vits import vits_text, vits_voice
from visavis.bundles.whisper.graph import drop_empty_cache
from visavis.serving.errors import PlanError

Pass = Callable[[onnx.ModelProto], onnx.ModelProto]

PASSES: dict[str, Pass] = {
    "drop_empty_cache": drop_empty_cache,
    "fold_constant_weights": fold_constant_weights,
    "fold_dynamic_quantization": fold_dynamic_quantization,
    "fold_static_quantization": fold_static_quantization,
    "hibari_text": hibari_text,
    "hibari_voice": hibari_voice,
    "kokoro_voice": kokoro_voice,
    "moonshine_first_step": moonshine_first_step,
    "moonshine_masks": moonshine_masks,
    "moonshine_next_step": moonshine_next_step,
    "vits_splines": vits_splines,
    "vits_text": vits_text,
    "vits_voice": vits_voice,
}


def apply_passes(
    model: onnx.ModelProto, names: Iterable[str], cancelled: Cancelled | None = None
) -> onnx.ModelProto:
    """The passes `names` one after the other; `model` itself stays as it is, and comes back
    where there are none.

    Raises PlanError for a name that is no pass, and where a pass does not fit the graph;
    PlanCancelledError between two passes.
    """
    wanted = list(names)
    if not wanted:
        return model
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for name in wanted:
        if name not in PASSES:
            raise PlanError(f"there is no graph pass {name!r}; there are {', '.join(PASSES)}")
        try:
            result = PASSES[name](result)
        except PlanError as error:
            raise PlanError(f"the graph pass {name} does not fit: {error}") from error
        stop_if(cancelled)
    try:
        onnx.checker.check_model(result)
    except onnx.checker.ValidationError as error:
        raise PlanError(f"no valid graph after {', '.join(wanted)}: {error}") from error
    return result
