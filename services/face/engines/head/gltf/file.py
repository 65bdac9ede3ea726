"""A binary glTF file, opened: its description, and lists of numbers by their index."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from visavis.serving.errors import InvalidInputError

MOST_VERTICES, MOST_TRIANGLES = 80_000, 150_000
MOST_OF_A_NAME = 64
"""Letters of what strangers call something, that are told."""
_MAGIC, _JSON, _BINARY = 0x46546C67, 0x4E4F534A, 0x004E4942
_DTYPES = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
_COMPONENTS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT4": 16}
_SQUEEZED = ("EXT_meshopt_compression", "KHR_meshopt_compression")
DRACO = "KHR_draco_mesh_compression"
_KNOWN = frozenset(
    {
        "KHR_texture_transform", "KHR_mesh_quantization", "KHR_node_visibility",
        # Where something is drawn that needs them, it says so.
        *_SQUEEZED, DRACO, "EXT_texture_webp", "EXT_texture_avif", "KHR_texture_basisu",
        # Nothing of a head at rest hangs on these.
        "KHR_lights_punctual", "KHR_animation_pointer", "KHR_xmp_json_ld",
    }
)  # fmt: skip
_KNOWN_KINDS = ("KHR_materials_", "VRM")
"""How all others begin of which the rest of a file can be read without knowing them."""
# What a file that lies about itself makes of reading it.
DAMAGE = (
    ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError, struct.error,
    RecursionError, MemoryError, cv2.error,
)  # fmt: skip


class GltfFile:
    """What it says of itself is `told`. Reading raises InvalidInputError, or what DAMAGE lists."""

    told: dict[str, Any]

    def __init__(self, content: bytes) -> None:
        if len(content) < 20 or struct.unpack_from("<II", content) != (_MAGIC, 2):
            raise InvalidInputError(
                "not a binary glTF 2.0 file (GLB): save the head as one .glb or .vrm"
            )
        length, kind = struct.unpack_from("<II", content, 12)
        if kind != _JSON:
            raise InvalidInputError("the GLB is damaged: it does not begin with its description")
        if len(content) < 20 + length:
            raise InvalidInputError("the GLB is cut off")
        self.told = json.loads(content[20 : 20 + length])
        self._binary = b""
        at = 20 + length
        if at + 8 <= len(content):
            size, kind = struct.unpack_from("<II", content, at)
            if kind == _BINARY:
                self._binary = content[at + 8 : at + 8 + size]
        self._buffers: dict[int, bytes] = {}
        needed = [
            name[:MOST_OF_A_NAME]
            for name in self.told.get("extensionsRequired", ())
            if name not in _KNOWN and not name.startswith(_KNOWN_KINDS)
        ]
        if needed:
            raise InvalidInputError(
                f"the GLB needs {', '.join(needed[:8])}, which is not read: save it without"
            )

    def floats(self, index: int, components: int) -> NDArray[np.float32]:
        """[count, components] of an accessor, normalised integers as fractions."""
        found, about = self._accessor(index, components), self.told["accessors"][index]
        if about.get("normalized", False) and found.dtype.kind != "f":
            found = np.maximum(found / np.iinfo(found.dtype).max, -1)
        return np.ascontiguousarray(found, np.float32)

    def whole(self, index: int, components: int) -> NDArray[np.int64]:
        """[count, components] of an accessor of unsigned integers."""
        found = self._accessor(index, components)
        if found.dtype.kind != "u":
            raise InvalidInputError("the GLB is damaged: an accessor of another type")
        return found.astype(np.int64)

    def has_data(self, index: int) -> bool:
        """Whether an accessor has numbers of its own, and not zeros alone."""
        return not {"bufferView", "sparse"}.isdisjoint(self.told["accessors"][index])

    def view(self, index: int) -> bytes:
        """The bytes of a buffer view."""
        content, first, size = self._view(index)
        return content[first : first + size]

    def at_uri(self, uri: str) -> bytes:
        """What a `data:` address holds; nothing outside of the file is read."""
        head, comma, packed = uri.partition(",")
        if not (head.startswith("data:") and head.endswith(";base64") and comma):
            raise InvalidInputError(
                f"the GLB refers to another file, {uri[:MOST_OF_A_NAME]!r}: save it as one .glb "
                "with all pictures and buffers inside"
            )
        return base64.b64decode(packed)

    def _accessor(self, index: int, components: int) -> NDArray[Any]:
        about = self.told["accessors"][index]
        count, width = int(about["count"]), _COMPONENTS[about["type"]]
        if not 0 <= count <= 3 * MOST_TRIANGLES:
            raise InvalidInputError(f"the GLB is damaged or too large: {count} entries in a list")
        if width != components:
            raise InvalidInputError("the GLB is damaged: an accessor of another type")
        dtype = np.dtype(_DTYPES[about["componentType"]])
        if "bufferView" in about:
            found = self._read(about["bufferView"], about.get("byteOffset", 0), dtype, count, width)
        else:
            found = np.zeros((count, width), dtype)
        if sparse := about.get("sparse"):
            some, where, what = int(sparse["count"]), sparse["indices"], sparse["values"]
            kind = np.dtype(_DTYPES[where["componentType"]])
            rows = self._read(where["bufferView"], where.get("byteOffset", 0), kind, some, 1)[:, 0]
            if some and int(rows.max()) >= count:
                raise InvalidInputError("the GLB is damaged: a sparse list goes beyond its end")
            values = self._read(what["bufferView"], what.get("byteOffset", 0), dtype, some, width)
            found = found.copy()
            found[rows] = values
        return found

    def _read(
        self, view: int, offset: int, dtype: np.dtype[Any], count: int, width: int
    ) -> NDArray[Any]:
        content, begin, _ = self._view(view)
        row = dtype.itemsize * width
        stride = int(self.told["bufferViews"][view].get("byteStride", row))
        first = begin + int(offset)
        end = first + stride * (count - 1) + row if count else first
        if first < 0 or stride < row or end > len(content):
            raise InvalidInputError("the GLB is cut off")
        return np.ndarray((count, width), dtype, content, first, (stride, dtype.itemsize))

    def _view(self, index: int) -> tuple[bytes, int, int]:
        """The buffer that it lies in, its first byte there, and how many it has."""
        about = self.told["bufferViews"][index]
        squeezed = next((it for it in _SQUEEZED if it in about.get("extensions", {})), "")
        content = self._buffer(int(about.get("buffer", 0)), squeezed)
        return content, int(about.get("byteOffset", 0)), int(about.get("byteLength", 0))

    def _buffer(self, index: int, squeezed: str) -> bytes:
        """squeezed: the extension that may be all that has the bytes."""
        uri = self.told["buffers"][index].get("uri")
        if uri is None and index == 0 and self._binary:
            return self._binary
        if squeezed and not str(uri).startswith("data:"):
            raise compressed(squeezed)
        if uri is None:
            raise InvalidInputError("the GLB is damaged: a buffer without bytes")
        if index not in self._buffers:
            self._buffers[index] = self.at_uri(uri)
        return self._buffers[index]


def rewritten(how: str) -> str:
    """The command that writes a GLB anew, as its maker can type it."""
    return f"`npx @gltf-transform/cli {how} in.glb out.glb`"


def compressed(extension: str) -> InvalidInputError:
    """What is said of a mesh that only a decoder could read."""
    return InvalidInputError(
        f"the GLB is compressed ({extension}), which is not read: save it without compression, "
        f"as {rewritten('copy')} does"
    )
