"""Makes the Kokoro voices tell how long each phoneme lasts, and lays their styles out as one file.

The graph rounds the durations inside, right before its length regulator; here that tensor becomes
an output, as in the English voice. The published styles are [510, 1, 256] float32 for each voice,
a row for each length of a text: all in one archive, or a raw file for each voice.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from visavis.bundles.hibari import OUTPUT, durations_tensor
from visavis.serving.errors import ModelStoreError

TARGET, STYLES = "durations.onnx", "styles.npz"
STYLE_ROWS, STYLE_WIDTH = 510, 256
# American English; the others want a front end for their language.
_SPOKEN = ("af_", "am_")


def prepare(bundle_dir: Path, progress: Callable[[str, float], None]) -> list[str]:
    """Write durations.onnx and styles.npz; return their names.

    The graph's new output `durations` is [T] int64, one per token, in frames of 600 samples.
    styles.npz holds [510, 256] float32 by the voice's name. Raises ModelStoreError for files that
    are built otherwise.
    """
    progress("reading the voices", 0.0)
    (source,) = bundle_dir.glob("kokoro-*.onnx")
    styles = {name: rows for name, rows in _styles(bundle_dir) if name.startswith(_SPOKEN)}
    if not styles:
        raise ModelStoreError(f"{bundle_dir.name} has no voice of American English")
    model = onnx.load(source)
    durations = durations_tensor(model.graph, source.name)
    model.graph.node.append(helper.make_node("Identity", [durations], [OUTPUT]))
    model.graph.output.append(helper.make_tensor_value_info(OUTPUT, TensorProto.INT64, None))
    progress("writing the voices", 0.5)
    onnx.save(model, str(bundle_dir / TARGET))
    np.savez(bundle_dir / STYLES, allow_pickle=False, **styles)
    progress("voices are ready", 1.0)
    return [TARGET, STYLES]


def _styles(bundle_dir: Path) -> list[tuple[str, NDArray[np.float32]]]:
    found: list[tuple[str, NDArray[np.float32]]] = []
    for path in bundle_dir.glob("voices-*.bin"):
        with np.load(path, allow_pickle=False) as archive:
            found += [(name, _rows(archive[name], name)) for name in archive.files]
    for path in sorted(bundle_dir.glob("voices/*.bin")):
        found.append((path.stem, _rows(np.fromfile(path, "<f4"), path.stem)))
    return found


def _rows(values: NDArray[np.float32], name: str) -> NDArray[np.float32]:
    if values.size != STYLE_ROWS * STYLE_WIDTH:
        raise ModelStoreError(f"the voice {name} has {values.size} numbers: wrong version?")
    return np.ascontiguousarray(values.reshape(STYLE_ROWS, STYLE_WIDTH), np.float32)
