"""A contact sheet: a bundle's GLB in many poses, drawn here as a browser would, to look at.

It reads the file again instead of using what made it, so that a fault of the file is seen.
"""

from __future__ import annotations

import io
import json
import math
import struct
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from training.heads.eyes import srgb
from training.heads.geometry import smooth, unit

Floats = NDArray[np.float64]
_OVER = 3
"""Samples for each pixel, along both sides."""
_EXPOSURE = 1.5
_WRAP = 0.25
"""Light that reaches past the edge of shade, as it does on skin."""


def _both(name: str, weight: float) -> dict[str, float]:
    return {f"{name}Left": weight, f"{name}Right": weight}


POSES: dict[str, tuple[Mapping[str, float], float]] = {
    "rest": ({}, 0),
    "aa": ({"jawOpen": 0.55, **_both("mouthLowerDown", 0.2)}, 0),
    "oo": ({"mouthPucker": 0.7, "mouthFunnel": 0.25, "jawOpen": 0.08}, 0),
    "ee": ({"jawOpen": 0.12, **_both("mouthStretch", 0.5), **_both("mouthSmile", 0.25)}, 0),
    "fv": ({"jawOpen": 0.06, "mouthRollLower": 0.55, **_both("mouthUpperUp", 0.35)}, 0),
    "th": ({"jawOpen": 0.16, "tongueOut": 0.45, **_both("mouthLowerDown", 0.25)}, 0),
    "mm": ({"mouthRollLower": 0.35, "mouthRollUpper": 0.3, **_both("mouthPress", 0.5)}, 0),
    "tongue": ({"jawOpen": 0.5, "tongueOut": 1.0}, 0),
    "smile": (
        {
            "jawOpen": 0.05,
            **_both("mouthSmile", 0.65),
            **_both("cheekSquint", 0.5),
            **_both("mouthUpperUp", 0.25),
            **_both("eyeSquint", 0.3),
        },
        0,
    ),
    "sad": (
        {"browInnerUp": 0.7, **_both("mouthFrown", 0.6), **_both("eyeBlink", 0.15)},
        0,
    ),
    "surprised": (
        {"browInnerUp": 0.8, **_both("browOuterUp", 0.8), **_both("eyeWide", 0.7), "jawOpen": 0.3},
        0,
    ),
    "blink": (_both("eyeBlink", 1.0), 0),
    "half blink": (_both("eyeBlink", 0.5), 0),
    "look": ({"eyeLookOutLeft": 0.7, "eyeLookInRight": 0.7}, 0),
    "left": ({}, 20),
    "right": ({"jawOpen": 0.2}, -20),
}
"""Weights, and how far the head is turned, degrees."""


@dataclass(frozen=True)
class _Part:
    name: str
    points: Floats
    normals: Floats
    uvs: Floats
    triangles: NDArray[np.int64]
    targets: dict[str, dict[str, Floats]]
    texture: Floats
    """[h, w, 4], colours linear."""
    alpha: bool
    two_sided: bool


FOCUSES = {"all": (1.0, -0.025), "mouth": (3.6, -0.068), "eyes": (3.0, 0.002)}
"""How many times nearer, and the height of the picture's middle over the eyes, metres."""


def draw_sheet(
    bundle: Path, out: Path, size: int, only: Sequence[str] = (), focus: str = "all"
) -> None:
    """Draw the poses beside each other, four to a row, into the picture `out`."""
    about = tomllib.loads((bundle / "head.toml").read_text(encoding="utf-8"))
    zoom, height = FOCUSES[focus]
    framing = about["framing"]
    framing["position"][1] = framing["target"][1] = height
    framing["vertical_fov_deg"] /= zoom
    parts = _read((bundle / "head.glb").read_bytes())
    with Image.open(bundle / "background.png") as picture:
        background = np.asarray(picture.convert("RGB").resize((size, size)), float) / 255
    names = [name for name in POSES if not only or name in only]
    columns = min(4, len(names))
    sheet = Image.new("RGB", (columns * size, -(-len(names) // columns) * size))
    for number, name in enumerate(names):
        weights, turn = POSES[name]
        tile = Image.fromarray(
            (_drawn(parts, about, weights, turn, size, background) * 255).astype(np.uint8)
        )
        ImageDraw.Draw(tile).text((6, 4), name, fill=(255, 255, 255))
        sheet.paste(tile, (number % columns * size, number // columns * size))
    sheet.save(out)


def _read(content: bytes) -> list[_Part]:
    length = struct.unpack_from("<I", content, 12)[0]
    file = json.loads(content[20 : 20 + length])
    blob = content[28 + length :]

    def view(index: int) -> bytes:
        about = file["bufferViews"][index]
        first = about.get("byteOffset", 0)
        return blob[first : first + about["byteLength"]]

    kinds = {5123: np.uint16, 5125: np.uint32, 5126: np.float32}

    def values(index: int) -> NDArray[Any]:
        about = file["accessors"][index]
        width = {"SCALAR": 1, "VEC2": 2, "VEC3": 3}[about["type"]]
        found = np.zeros((about["count"], width), kinds[about["componentType"]])
        if "bufferView" in about:
            found = np.frombuffer(view(about["bufferView"]), found.dtype).reshape(-1, width).copy()
        if "sparse" in about:
            sparse = about["sparse"]
            index_kind = kinds[sparse["indices"]["componentType"]]
            where = np.frombuffer(view(sparse["indices"]["bufferView"]), index_kind)
            found[where] = np.frombuffer(view(sparse["values"]["bufferView"]), found.dtype).reshape(
                -1, width
            )
        return found

    mesh = file["meshes"][0]
    names = mesh["extras"]["targetNames"]
    parts = []
    for primitive in mesh["primitives"]:
        material = file["materials"][primitive["material"]]
        texture = material["pbrMetallicRoughness"]["baseColorTexture"]["index"]
        picture = Image.open(
            io.BytesIO(view(file["images"][file["textures"][texture]["source"]]["bufferView"]))
        )
        texels = np.asarray(picture.convert("RGBA"), float) / 255
        texels[..., :3] = np.where(
            texels[..., :3] <= 0.04045,
            texels[..., :3] / 12.92,
            ((texels[..., :3] + 0.055) / 1.055) ** 2.4,
        )
        given = primitive["attributes"]
        targets = {
            name: {kind: values(index).astype(float) for kind, index in target.items()}
            for name, target in zip(names, primitive["targets"], strict=True)
        }
        parts.append(
            _Part(
                material["name"],
                values(given["POSITION"]).astype(float),
                values(given["NORMAL"]).astype(float),
                values(given["TEXCOORD_0"]).astype(float),
                values(primitive["indices"]).reshape(-1, 3).astype(np.int64),
                targets,
                texels,
                material.get("alphaMode", "OPAQUE") != "OPAQUE",
                material.get("doubleSided", False),
            )
        )
    return parts


def _drawn(
    parts: Sequence[_Part],
    about: dict[str, Any],
    weights: Mapping[str, float],
    turn: float,
    size: int,
    background: Floats,
) -> Floats:
    """[size, size, 3] on the sRGB curve."""
    side = size * _OVER
    depth = np.full(side * side, np.inf)
    colour = np.repeat(np.repeat(background, _OVER, axis=0), _OVER, axis=1).reshape(-1, 3)
    pivot = np.array(about["neck"]["pivot"])
    angle = math.radians(turn)
    rotation = np.array(
        [[math.cos(angle), 0, math.sin(angle)], [0, 1, 0], [-math.sin(angle), 0, math.cos(angle)]]
    )
    for part in parts:
        points, normals = _posed(part, weights)
        if turn and part.name != "clothes":
            # The neck twists: what is below its pivot stays.
            share = smooth(points[:, 1], pivot[1] - 0.03, pivot[1] + 0.03)[:, None]
            points += share * ((points - pivot) @ rotation.T + pivot - points)
            normals += share * (normals @ rotation.T - normals)
        _draw(part, points, unit(normals), about, side, depth, colour)
    return np.asarray(colour.reshape(size, _OVER, size, _OVER, 3).mean(axis=(1, 3)))


def _posed(part: _Part, weights: Mapping[str, float]) -> tuple[Floats, Floats]:
    points, normals = part.points.copy(), part.normals.copy()
    for name, weight in weights.items():
        points += weight * part.targets[name]["POSITION"]
        if "NORMAL" in part.targets[name]:
            normals += weight * part.targets[name]["NORMAL"]
    return points, normals


def _draw(
    part: _Part,
    points: Floats,
    normals: Floats,
    about: dict[str, Any],
    side: int,
    depth: Floats,
    colour: Floats,
) -> None:
    framing = about["framing"]
    camera = np.array(framing["position"])
    seen = points - camera
    focal = side / 2 / math.tan(math.radians(framing["vertical_fov_deg"]) / 2)
    away = -seen[:, 2]
    x = side / 2 + focal * seen[:, 0] / away
    y = side / 2 - focal * seen[:, 1] / away
    pixel, z, triangle, share = _fragments(np.stack([x, y], 1), away, part, side)
    corners = part.triangles[triangle]
    uv = (part.uvs[corners] * share[..., None]).sum(axis=1)
    texel = _sampled(part.texture, uv)
    kept = z < depth[pixel] + 1e-9
    if part.alpha:  # as often as a sample is opaque, it counts: the average is its transparency
        kept &= texel[:, 3] > ((pixel * 7919 + triangle * 104729) % 97 + 1) / 98
    order = np.flatnonzero(kept)[np.argsort(-z[kept], kind="stable")]
    last = np.full(side * side, -1)
    last[pixel[order]] = order  # the nearest of a pixel is written last
    chosen = last[last >= 0]
    pixel, corners, share, texel = pixel[chosen], corners[chosen], share[chosen], texel[chosen]
    depth[pixel] = z[chosen]
    normal = unit((normals[corners] * share[..., None]).sum(axis=1))
    place = (points[corners] * share[..., None]).sum(axis=1)
    colour[pixel] = srgb(
        _lit(part.name, texel[:, :3], normal, unit(camera - place), about["light"])
    )


def _fragments(
    at: Floats, away: Floats, part: _Part, side: int
) -> tuple[NDArray[np.int64], Floats, NDArray[np.int64], Floats]:
    """Pixel, depth, triangle and shares of its corners of every sample that a triangle covers."""
    a, b, c = (at[part.triangles[:, k]] for k in range(3))
    area = (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (b[:, 1] - a[:, 1]) * (c[:, 0] - a[:, 0])
    low = np.floor(np.minimum(np.minimum(a, b), c)).astype(int)
    high = np.ceil(np.maximum(np.maximum(a, b), c)).astype(int)
    span = (high - low).max(axis=1) + 1
    seen = (np.abs(area) > 1e-9) if part.two_sided else area < -1e-9
    seen &= (high >= 0).all(axis=1) & (low < side).all(axis=1)
    found = []
    least = 0
    for box in (2, 4, 8, 16, 32, 64, 128, 512):
        for some in _chunks(
            np.flatnonzero(seen & (span > least) & (span <= box)), 6_000_000 // box**2
        ):
            rows, columns = np.mgrid[0:box, 0:box]
            x = low[some, 0, None] + columns.ravel()
            y = low[some, 1, None] + rows.ravel()
            px, py = x + 0.5, y + 0.5
            u = _edge(b[some], c[some], px, py) / area[some, None]
            v = _edge(c[some], a[some], px, py) / area[some, None]
            w = 1 - u - v
            inside = (u >= 0) & (v >= 0) & (w >= 0) & (x >= 0) & (y >= 0) & (x < side) & (y < side)
            which, where = np.nonzero(inside)
            share = np.stack([u[which, where], v[which, where], w[which, where]], axis=1)
            ids = some[which]
            found.append(
                (
                    y[which, where] * side + x[which, where],
                    (away[part.triangles[ids]] * share).sum(axis=1),
                    ids,
                    share,
                )
            )
        least = box
    pixel, depth, triangle, shares = (np.concatenate(column) for column in zip(*found, strict=True))
    return pixel, depth, triangle, shares


def _chunks(ids: NDArray[np.int64], count: int) -> list[NDArray[np.int64]]:
    return [ids[k : k + max(1, count)] for k in range(0, len(ids), max(1, count))] or [ids]


def _edge(a: Floats, b: Floats, x: Floats, y: Floats) -> Floats:
    across = (b[:, 0, None] - a[:, 0, None]) * (y - a[:, 1, None])
    return np.asarray(across - (b[:, 1, None] - a[:, 1, None]) * (x - a[:, 0, None]))


def _sampled(texture: Floats, uv: Floats) -> Floats:
    """Bilinear; [N, 4]."""
    height, width = texture.shape[:2]
    x = np.clip(uv[:, 0] * width - 0.5, 0, width - 1.001)
    y = np.clip(uv[:, 1] * height - 0.5, 0, height - 1.001)
    x0, y0 = x.astype(int), y.astype(int)
    fx, fy = (x - x0)[:, None], (y - y0)[:, None]
    x1, y1 = np.minimum(x0 + 1, width - 1), np.minimum(y0 + 1, height - 1)
    above = texture[y0, x0] * (1 - fx) + texture[y0, x1] * fx
    below = texture[y1, x0] * (1 - fx) + texture[y1, x1] * fx
    return np.asarray(above * (1 - fy) + below * fy)


_GLOSS = {"head": (0.10, 24), "eyes": (0.9, 400), "teeth": (0.25, 60), "tongue": (0.2, 30)}
"""Strength and sharpness of highlights (Blinn 1977)."""


def _lit(
    part: str, albedo: Floats, normal: Floats, viewer: Floats, light: dict[str, Any]
) -> Floats:
    normal = np.where((normal * viewer).sum(axis=1, keepdims=True) < 0, -normal, normal)
    strength, sharpness = _GLOSS.get(part, (0.05, 12))
    out = albedo * (light["ambient"] + 0.10)
    for lamp in light["lamps"]:
        direction, colour = np.array(lamp["direction"]), np.array(lamp["colour"])
        facing = (normal @ direction)[:, None]
        out = out + albedo * colour * lamp["strength"] * np.maximum(
            (facing + _WRAP) / (1 + _WRAP), 0
        )
        half = (normal * unit(viewer + direction)).sum(axis=1, keepdims=True)
        glint = np.maximum(half, 0) ** sharpness * (facing > 0)
        out = out + colour * lamp["strength"] * strength * glint
    return np.asarray(_EXPOSURE * out)
