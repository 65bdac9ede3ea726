"""The pictures that a head wears: baked colour with soft light and drawn hairs, and small ramps."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageDraw, ImageFilter
from scipy.spatial import cKDTree

from training.heads import groom
from training.heads.eyes import srgb
from training.heads.geometry import Floats, Points, smooth

if TYPE_CHECKING:
    from training.heads.head import Head

_DARKER = np.array([0.75, 1.0, 1.08])
"""Light that leaks through skin into shade is red: the power that shade is taken to, by channel."""


def jpeg(picture: Image.Image, quality: int) -> bytes:
    content = io.BytesIO()
    picture.convert("RGB").save(content, "JPEG", quality=quality, optimize=True, subsampling=0)
    return content.getvalue()


def png(picture: Image.Image) -> bytes:
    content = io.BytesIO()
    picture.save(content, "PNG", optimize=True)
    return content.getvalue()


def lit_skin(colour: Floats, sky: Floats) -> Image.Image:
    """colour: [S, S, 3] on the sRGB curve; sky: [S / 2, S / 2] how open to it the skin is."""
    seen = 0.30 + 0.70 * np.clip(_enlarged(sky, len(colour)) / 0.92, 0, 1)
    return picture_of(srgb(_linear(colour) * seen[..., None] ** _DARKER))


def lit_cloth(colour: Floats, sky: Floats) -> Image.Image:
    seen = 0.35 + 0.65 * np.clip(_enlarged(sky, len(colour)) / 0.9, 0, 1)
    return picture_of(srgb(_linear(colour) * seen[..., None]))


def _enlarged(grey: Floats, size: int) -> Floats:
    """[size, size], the noise of few samples smoothed."""
    picture = Image.fromarray((grey * 255).astype(np.uint8), "L").filter(
        ImageFilter.GaussianBlur(1.2)
    )
    return np.asarray(picture.resize((size, size), Image.Resampling.BICUBIC), float) / 255


def _linear(colour: Floats) -> Floats:
    """The sRGB curve taken back."""
    return np.asarray(
        np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    )


def picture_of(values: Floats) -> Image.Image:
    """values: [H, W, 3] 0..1."""
    return Image.fromarray((np.clip(values, 0, 1) * 255 + 0.5).astype(np.uint8), "RGB")


def draw_hairs(picture: Image.Image, head: Head, guides: groom.Strands) -> None:
    """Draws brows and the hair's first millimetres into the skin, below the ribbons."""
    places = _TexturePlaces(head)
    rng = np.random.default_rng(head.person.seed + 6)
    shade = groom.shade_of(head.person.hair)
    brows = [groom.brow_strands(head, side, int(260 * head.person.brow)) for side in "lr"]
    brow_points = np.concatenate([brow.points[:, :4] for brow in brows])
    _ink(picture, places(brow_points), shade * 0.6 + 0.003, 0.5, 1.1)
    # Small hairs before the hairline, so that it does not begin at once.
    comb = groom.Comb(head)
    roots = comb.all(guides, 9000).points[:, :3]
    reach = rng.uniform(0.1, 0.7, len(roots))[:, None, None]
    fine = roots[:, :1] + (roots - roots[:, :1]) * reach
    line = groom.scalp_weight(head, fine[:, 0], 0.03)
    edge = (line > 0.02) & (line < 0.98)
    _ink(picture, places(fine[edge]), shade * 0.8, 0.5, 1.0)


def _ink(
    picture: Image.Image, lines: Points, linear: Points, strength: float, width: float
) -> None:
    """lines: [N, K, 2] texture places."""
    size, scale = picture.width, 3
    layer = Image.new("L", (size * scale, size * scale), 0)
    pen = ImageDraw.Draw(layer)
    pixels = np.stack([lines[..., 0], 1 - lines[..., 1]], axis=-1) * size * scale
    for line in pixels:
        steps = np.abs(np.diff(line, axis=0)).max()
        if steps < 0.06 * size * scale:  # else it crosses a seam
            pen.line(
                [(float(x), float(y)) for x, y in line],
                fill=210,
                width=max(1, round(width * scale)),
            )
    layer = layer.filter(ImageFilter.GaussianBlur(0.5 * scale))
    layer = layer.resize((size, size), Image.Resampling.BOX)
    ink = tuple(round(255 * float(c)) for c in srgb(linear))
    picture.paste(ink, mask=layer.point(lambda value: int(value * strength)))


class _TexturePlaces:
    """Where points on the skin lie in its texture."""

    def __init__(self, head: Head) -> None:
        corners, first, rows, uvs = head.points, 0, [], []
        for face in head.faces:
            for k in range(1, len(face) - 1):
                rows.append((face[0], face[k], face[k + 1]))
                uvs.append((first, first + k, first + k + 1))
            first += len(face)
        self._corners = corners[np.array(rows)]
        self._uvs = head.uvs[np.array(uvs)]
        self._tree = cKDTree(self._corners.mean(axis=1))

    def __call__(self, points: Points) -> Points:
        """points: [..., 3]; returns [..., 2]."""
        flat = points.reshape(-1, 3)
        _, near = self._tree.query(flat, k=6)
        a, b, c = (self._corners[near][:, :, k] for k in range(3))
        u, v, w = b - a, c - a, flat[:, None] - a
        uu, uv, vv = (u * u).sum(-1), (u * v).sum(-1), (v * v).sum(-1)
        wu, wv = (w * u).sum(-1), (w * v).sum(-1)
        scale = uu * vv - uv * uv + 1e-20
        s, t = (vv * wu - uv * wv) / scale, (uu * wv - uv * wu) / scale
        share = np.stack([1 - s - t, s, t], axis=-1)
        best = np.argmax(share.min(axis=-1), axis=1)
        row = np.arange(len(flat))
        chosen = np.clip(share[row, best], 0, 1)
        chosen /= chosen.sum(axis=1, keepdims=True)
        places = (self._uvs[near[row, best]] * chosen[..., None]).sum(axis=1)
        return np.asarray(places.reshape(*points.shape[:-1], 2))


def teeth_picture() -> Image.Image:
    """64 x 16: from the front teeth to the throat; enamel below, gum above (v counts upwards)."""
    deep = np.linspace(0, 1, 64)[None, :, None]
    shade = (1 - smooth(deep, 0.12, 1.0)) * 0.94 + 0.06
    enamel = np.array([0.76, 0.71, 0.63]) * shade
    gum = np.array([0.40, 0.13, 0.12]) * shade * 0.9
    rows = np.repeat(np.concatenate([gum, enamel]), 8, axis=0)
    return picture_of(srgb(rows))


def tongue_picture(rng: np.random.Generator) -> Image.Image:
    deep = np.linspace(0, 1, 64)[None, :, None]
    shade = (1 - smooth(deep, 0.25, 1.0)) * 0.95 + 0.05
    colour = np.array([0.38, 0.115, 0.11]) * shade * rng.uniform(0.92, 1.06, (16, 64, 1))
    return picture_of(srgb(colour))
