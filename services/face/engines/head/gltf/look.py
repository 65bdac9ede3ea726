"""What a material shows: one picture, its colour before any light falls on it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.avatar.making.decoding import image_size
from services.face.engines.head.gltf.file import MOST_OF_A_NAME, GltfFile, rewritten
from visavis.serving.errors import InvalidInputError

LARGEST_TEXTURE = 2048
_UNLIT, _GLASS = "KHR_materials_unlit", "KHR_materials_transmission"
_TOON, _GLOSSY = "VRMC_materials_mtoon", "KHR_materials_pbrSpecularGlossiness"
_STRONG = "KHR_materials_emissive_strength"
_DRAWN = (_UNLIT, _GLASS, _GLOSSY, _STRONG)
_WEBP = "EXT_texture_webp"
_NO_PICTURE = {"KHR_texture_basisu": "KTX2", "EXT_texture_avif": "AVIF"}
"""What is not read, by the extension that a texture has it through."""
_REWRITTEN = {"KTX2": f", as {rewritten('ktxdecompress')} does"}
_SMALLER = f"resize --width {LARGEST_TEXTURE} --height {LARGEST_TEXTURE}"
SCREEN = 1 / 2.2
"""Power of light that a screen wants to be told: so colours multiply there, too."""
_ALIKE = 1 / 255
"""What colours of vertices differ by less, nobody sees."""
_BLACK = 3
"""Of 255: what is no brighter shows nothing."""
_NEAREST, _CLAMPED, _MIRRORED = 9728, 33071, 33648
_GREY = 0
"""As a PNG's header says it."""
_EARLY = 4096
"""Bytes in which a PNG says what is clear."""
_FINE = 512
"""Pixels a side to which texels are repeated that are to be seen as squares."""


@dataclass(frozen=True)
class Look:
    """What is drawn of a material."""

    name: str
    texture: NDArray[np.uint8]
    """[h, w, 4] RGBA, sRGB."""
    coordinates: int | None
    """Which of a vertex's places in textures are those in this one; None: it is all the same."""
    moved: NDArray[np.float64]
    """[2, 3] what those are multiplied by."""
    clamped: tuple[bool, bool]
    """Whether the texture's edge goes on beyond it, along and down; else it begins anew."""
    blends: bool
    cut: float | None
    two_sided: bool
    unlit: bool
    colours: NDArray[np.float32] | None
    """[N, 3] linear light of each vertex that the texture is multiplied by."""
    left_out: tuple[str, ...]
    """What is not drawn of it, each as a whole sentence."""


@dataclass(frozen=True)
class _Picture:
    """A texture, as a material has it."""

    pixels: NDArray[np.uint8]
    coordinates: int | None
    moved: NDArray[np.float64]
    clamped: tuple[bool, bool] = (False, False)


class Looks:
    """The materials of a file."""

    def __init__(self, file: GltfFile) -> None:
        self._file = file
        self._pictures: dict[int, NDArray[np.uint8]] = {}

    def look(self, index: int | None, colours: NDArray[np.float32] | None) -> Look:
        """colours: [N, 4] linear RGBA of the vertices. Raises InvalidInputError."""
        about: dict[str, Any] = {} if index is None else self._file.told["materials"][index]
        name, extensions = str(about.get("name", ""))[:MOST_OF_A_NAME], about.get("extensions", {})
        left_out = [it[:MOST_OF_A_NAME] for it in extensions if it not in _DRAWN]
        if self._is_toon(index):
            colours = None
            if _TOON not in extensions:
                left_out.append("its toon shading (MToon)")
        mode, tint = about.get("alphaMode", "OPAQUE"), np.ones(4)
        if colours is not None:
            tint, colours, fades = _told_apart(colours)
            if fades and mode != "OPAQUE":
                left_out.append("how clear its vertices are (COLOR_0)")
        picture, unlit = self._surface(name, about, tint), _UNLIT in extensions
        if not unlit and (glow := self._glow(name, about)) is not None:
            if picture.pixels[..., :3].max(initial=0) <= _BLACK:
                # Nothing but light of its own.
                picture, unlit, colours = _seen_as(glow, picture), True, None
            else:
                left_out.append("its own light (emissiveFactor)")
        if "transmissionTexture" in extensions.get(_GLASS, {}):
            left_out.append("the texture of its transmission")
        pixels, blends, cut = _seen_through(about, picture.pixels)
        return Look(
            name=name,
            texture=pixels,
            coordinates=picture.coordinates,
            moved=picture.moved,
            clamped=picture.clamped,
            blends=blends,
            cut=cut,
            two_sided=bool(about.get("doubleSided", False)),
            unlit=unlit,
            colours=colours,
            left_out=tuple(f"material {name!r}: {what} is not drawn" for what in left_out),
        )

    def _surface(self, name: str, about: dict[str, Any], tint: NDArray[np.float64]) -> _Picture:
        """The base colour of a material."""
        surface, glossy = about.get("pbrMetallicRoughness", {}), about.get("extensions", {})
        factor, texture = surface.get("baseColorFactor"), surface.get("baseColorTexture")
        if _GLOSSY in glossy:
            surface = glossy[_GLOSSY]
            factor, texture = surface.get("diffuseFactor"), surface.get("diffuseTexture")
        return self._picture(name, texture, _numbers(factor, 4) * tint)

    def _glow(self, name: str, about: dict[str, Any]) -> _Picture | None:
        """The light of its own that a material has."""
        strong = about.get("extensions", {}).get(_STRONG, {}).get("emissiveStrength", 1.0)
        factor = _numbers(about.get("emissiveFactor", (0.0, 0.0, 0.0)), 3) * float(strong)
        if not factor.any():
            return None
        found = self._picture(name, about.get("emissiveTexture"), np.append(factor, 1.0))
        return found if found.pixels[..., :3].max(initial=0) > _BLACK else None

    def _is_toon(self, index: int | None) -> bool:
        """Whether it is one of VRM's cartoons, to which colours of vertices say nothing."""
        if index is None:
            return False
        old = self._file.told.get("extensions", {}).get("VRM", {}).get("materialProperties", ())
        if index < len(old) and old[index].get("shader") == "VRM/MToon":
            return True
        return _TOON in self._file.told["materials"][index].get("extensions", {})

    def _picture(
        self, name: str, about: dict[str, Any] | None, factor: NDArray[np.float64]
    ) -> _Picture:
        """What a material names as a texture; None: it names none. factor: [4] linear RGBA."""
        if about is None:
            white = np.full((4, 4, 4), 255, np.uint8)
            return _Picture(_times(white, factor), None, _matrix({}))
        texture = self._file.told["textures"][about["index"]]
        pixels = self._pixels(name, texture)
        sampler: dict[str, Any] = {}
        if "sampler" in texture:
            sampler = self._file.told["samplers"][texture["sampler"]]
        if sampler.get("magFilter") == _NEAREST:
            times = max(1, _FINE // max(pixels.shape[:2]))
            pixels = pixels.repeat(times, axis=0).repeat(times, axis=1)
        moved = about.get("extensions", {}).get("KHR_texture_transform", {})
        matrix = _matrix(moved)
        wraps = sampler.get("wrapS"), sampler.get("wrapT")
        for axis, wrap in enumerate(wraps):
            if wrap == _MIRRORED:
                # It and its mirror image, one after the other, are one texture that begins anew.
                pixels = np.concatenate([pixels, np.flip(pixels, 1 - axis)], axis=1 - axis)
                matrix[axis] /= 2
        return _Picture(
            np.ascontiguousarray(_times(pixels, factor)),
            int(moved.get("texCoord", about.get("texCoord", 0))),
            matrix,
            (wraps[0] == _CLAMPED, wraps[1] == _CLAMPED),
        )

    def _pixels(self, name: str, texture: dict[str, Any]) -> NDArray[np.uint8]:
        """[h, w, 4] RGBA of a texture."""
        extensions = texture.get("extensions", {})
        source = extensions.get(_WEBP, {}).get("source", texture.get("source"))
        if source is None:
            kind = next((kind for it, kind in _NO_PICTURE.items() if it in extensions), "unknown")
            raise InvalidInputError(
                f"material {name!r}: its texture is of the kind {kind}, which is not read: save "
                f"the GLB with textures as PNG, JPEG or WebP{_REWRITTEN.get(kind, '')}"
            )
        if source not in self._pictures:
            self._pictures[source] = self._decoded(name, self._file.told["images"][source])
        return self._pictures[source]

    def _decoded(self, name: str, image: dict[str, Any]) -> NDArray[np.uint8]:
        if "bufferView" in image:
            packed = self._file.view(image["bufferView"])
        else:
            packed = self._file.at_uri(image["uri"])
        size = image_size(packed)
        if size is None:
            raise InvalidInputError(
                f"material {name!r}: its texture is neither a PNG nor a JPEG nor a WebP"
            )
        if max(size) > LARGEST_TEXTURE:
            raise InvalidInputError(
                f"material {name!r}: its texture has {size[0]} x {size[1]} pixels, allowed are "
                f"{LARGEST_TEXTURE} x {LARGEST_TEXTURE}: {rewritten(_SMALLER)} makes it smaller"
            )
        if packed.startswith(b"\x89PNG") and packed[25] == _GREY and b"tRNS" in packed[:_EARLY]:
            raise InvalidInputError(
                f"material {name!r}: its texture is a grey PNG of which one shade is clear: save "
                "it with an alpha channel"
            )
        pixels = cv2.imdecode(np.frombuffer(packed, np.uint8), cv2.IMREAD_UNCHANGED)
        if pixels is None or pixels.dtype not in (np.uint8, np.uint16):
            raise InvalidInputError(f"material {name!r}: its texture cannot be decoded")
        return _rgba(pixels)


def _numbers(told: Iterable[float] | None, count: int) -> NDArray[np.float64]:
    """A colour, white where none is told."""
    found = np.ones(count) if told is None else np.asarray(told, np.float64)
    if found.shape != (count,) or not np.isfinite(found).all():
        raise InvalidInputError("the GLB is damaged: a colour that is none")
    return found


def _times(picture: NDArray[np.uint8], factor: NDArray[np.floating]) -> NDArray[np.uint8]:
    """The factor is linear light; the picture is as the screen shows it."""
    level = np.clip(factor, 0, 1).astype(np.float64)
    level[:3] **= SCREEN
    return picture if (level == 1).all() else np.rint(picture * level).astype(np.uint8)


def _told_apart(
    colours: NDArray[np.float32],
) -> tuple[NDArray[np.float64], NDArray[np.float32] | None, bool]:
    """What colours of vertices [N, 4] have in common, [4] linear RGBA; the colours [N, 3] where
    they differ; and whether some are clearer than others.
    """
    tint = np.ones(4)
    if not len(colours):
        return tint, None, False
    *differ, fades = np.ptp(colours, axis=0) > _ALIKE
    if not fades:
        tint[3] = colours[0, 3]
    if any(differ):
        return tint, colours[:, :3], bool(fades)
    tint[:3] = colours[0, :3]
    return tint, None, bool(fades)


def _seen_as(glow: _Picture, surface: _Picture) -> _Picture:
    """What glows, as much of it as the surface has."""
    height, width = glow.pixels.shape[:2]
    alpha = cv2.resize(surface.pixels[..., 3], (width, height), interpolation=cv2.INTER_AREA)
    return replace(glow, pixels=np.dstack([glow.pixels[..., :3], alpha]))


def _seen_through(
    about: dict[str, Any], pixels: NDArray[np.uint8]
) -> tuple[NDArray[np.uint8], bool, float | None]:
    """The picture of a material, as clear as it is; whether anything may show through it; and the
    alpha that it is cut at.
    """
    mode, cut = about.get("alphaMode", "OPAQUE"), None
    glass = about.get("extensions", {}).get(_GLASS, {})
    if (share := min(float(glass.get("transmissionFactor", 0)), 1)) > 0:
        pixels, mode = _glass(pixels, share, mode), "BLEND"
    if mode == "MASK":
        cut = float(about.get("alphaCutoff", 0.5))
        if cut > 1:
            pixels = np.zeros_like(pixels)
    return pixels, mode != "OPAQUE", cut


def _glass(picture: NDArray[np.uint8], share: float, mode: str) -> NDArray[np.uint8]:
    """So much of what is behind is seen through it, in its colour."""
    colour = picture[..., :3].astype(np.float64) / 255
    there = np.ones(colour.shape[:2]) if mode == "OPAQUE" else picture[..., 3] / 255.0
    hidden = 1 - share * colour.mean(axis=-1)
    rgb = (1 - share) * colour / np.maximum(hidden, 1e-6)[..., None]
    clear = np.dstack([np.minimum(rgb, 1), there * hidden])
    return np.asarray(np.rint(255 * clear), np.uint8)


def _matrix(moved: dict[str, Any]) -> NDArray[np.float64]:
    """[2, 3] of a KHR_texture_transform; counter-clockwise as one sees it, with v downwards."""
    angle = float(moved.get("rotation", 0.0))
    c, s = np.cos(angle), np.sin(angle)
    turned = np.array([[c, s], [-s, c]]) * _numbers(moved.get("scale"), 2)
    offset = _numbers(moved.get("offset", (0.0, 0.0)), 2)
    return np.column_stack([turned, offset])


def _rgba(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    if pixels.dtype == np.uint16:
        pixels = (pixels >> 8).astype(np.uint8)
    channels = 1 if pixels.ndim == 2 else pixels.shape[2]
    how = {1: cv2.COLOR_GRAY2RGBA, 3: cv2.COLOR_BGR2RGBA, 4: cv2.COLOR_BGRA2RGBA}[channels]
    return np.ascontiguousarray(cv2.cvtColor(pixels, how), np.uint8)
