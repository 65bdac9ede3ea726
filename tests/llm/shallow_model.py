"""A model of which only the first layers are left: it reads and writes in a fraction of the time.

What it writes has no sense, so it is for tests of what goes on around a model: slots, caches,
cancels, grammars. Its words and template are the real one's.
"""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from pathlib import Path

from visavis.bundles.gguf.header import TensorInfo, header_bytes, padding, read_header

_LAYERS = 2
_UINT32 = 4


def write_shallow(source: Path, target: Path) -> Path:
    """`target`, written with the first layers of `source`, both GGUF files."""
    with source.open("rb") as file:
        header = read_header(file)
        count = re.search(rb"\.block_count" + struct.pack("<I", _UINT32), header.metadata)
        assert count is not None, f"{source} does not tell how many layers it has"
        before, behind = header.metadata[: count.end()], header.metadata[count.end() + 4 :]
        metadata = before + struct.pack("<I", _LAYERS) + behind
        ends = [*sorted(tensor.offset for tensor in header.tensors), source.stat().st_size]
        kept: list[TensorInfo] = []
        weights = bytearray()
        for tensor in header.tensors:
            if (layer := re.match(r"blk\.(\d+)\.", tensor.name)) and int(layer[1]) >= _LAYERS:
                continue
            kept.append(replace(tensor, offset=len(weights)))
            file.seek(header.weights_offset + tensor.offset)
            weights += file.read(ends[ends.index(tensor.offset) + 1] - tensor.offset)
            weights += bytes(padding(len(weights), header.alignment))
    target.write_bytes(header_bytes(replace(header, metadata=metadata), kept) + weights)
    return target
