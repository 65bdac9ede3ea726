"""An avatar: everything the renderer needs, kept in a folder that loads in a moment."""

from __future__ import annotations

import contextlib
import hashlib
import json
import tokenize
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.avatar import topology
from services.face.avatar.consent import Consent
from services.face.avatar.hidden import fill_hidden
from services.face.avatar.mesh import FaceMesh, HeadFrame, Lining
from visavis.serving.errors import InvalidInputError
from visavis.whole_file import placed_whole

VERSION = 1
"""Of the folder's content. A folder of another version has to be made anew."""
TEXTURE_SCALE = 2
"""Texture pixels per portrait pixel: bilinear samples of it stay as sharp in motion as at rest."""
_ABOUT, _THUMBNAIL, _PORTRAIT, _BACKGROUND, _MATTE, _MESH = (
    "avatar.toml",
    "portrait.jpg",
    "portrait.png",
    "background.png",
    "matte.png",
    "mesh.npz",
)
FILES = (_ABOUT, _THUMBNAIL, _PORTRAIT, _BACKGROUND, _MATTE, _MESH)
"""All that an avatar's folder holds."""
_JPEG_QUALITY = 88
TEETH_EDGE_SHUT, TEETH_EDGE_PARTED = 0.035, 0.045
"""`Avatar.teeth_edge` by what the portrait shows."""
_POCKET, _DARK = 0.12, 0.6
"""How far around the corners of an opening, in widths of it, what is so much darker than is usual
there counts as the dark within.
"""
# RuntimeError: an archive that is encrypted, packed in an unknown way, or text nested too deep.
_DAMAGE = (
    OSError, ValueError, KeyError, IndexError, TypeError, OverflowError, EOFError, RuntimeError,
    MemoryError, SyntaxError, tokenize.TokenError, zipfile.BadZipFile, zlib.error, cv2.error,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class About:
    """The small record of an avatar: all that a list of avatars needs."""

    name: str
    licence: str
    source_note: str
    created: str
    size: int
    consent: Consent | None


@dataclass(frozen=True)
class Avatar:
    """A portrait taken apart for animation. Never changed after it is made, so all sessions share
    one.
    """

    name: str
    licence: str
    source_note: str
    """Where the portrait comes from."""
    created: str
    """ISO 8601 date."""
    portrait: NDArray[np.uint8]
    """[size, size, 3] RGB, as photographed."""
    background: NDArray[np.uint8]
    """[size, size, 3] RGB with the person painted away."""
    matte: NDArray[np.uint8]
    """[size, size], 255 where the person is."""
    mesh: FaceMesh
    frame: HeadFrame
    rest: NDArray[np.float64]
    """[N, 2] vertices of the face at rest, pixels."""
    shapes: NDArray[np.float32]
    """[len(SHAPES), N, 2] pixels per unit of coefficient."""
    iris: NDArray[np.float64]
    """[2, 3] x, y, radius of the right and the left iris, pixels."""
    lids: NDArray[np.uint8]
    """[h, w, 3] RGB of the same pixels as the portrait around both eyes, with the eyes painted over
    by skin.
    """
    lids_at: tuple[int, int]
    """x, y of the corner of `lids` in the portrait."""
    lash: NDArray[np.float64]
    """[3] RGB of the lashes."""
    mouth_middle: NDArray[np.float64]
    """[2] middle of the closed lips, pixels."""
    ivory: NDArray[np.float64]
    """[3] RGB of a well lit tooth."""
    mouth_light: NDArray[np.float64]
    """[3] light that falls on the mouth, about 1."""
    upper_teeth: NDArray[np.uint8]
    """[h, w, 4] as `teeth_texture`: those of the portrait where it shows them."""
    teeth_edge: float
    """How far the upper teeth end below the line of the closed lips, eye distances."""
    seam: float
    """0..1, shadow to be drawn between closed lips: 0 where the portrait itself shows it."""
    consent: Consent | None = None
    """Of the person in the photograph; None: it was never stated."""

    @property
    def size(self) -> int:
        """Width and height of the pictures, pixels."""
        return int(self.portrait.shape[0])

    @cached_property
    def digest(self) -> str:
        """Of all that is drawn of it: another avatar of the same name has another one."""
        found = hashlib.blake2b(digest_size=16)
        for part in _arrays(self):
            found.update(np.ascontiguousarray(part).tobytes())
        return found.hexdigest()

    @cached_property
    def backdrop(self) -> NDArray[np.uint32]:
        """The background, [size, size] uint32: bytes R, G, B, 0, as pictures are painted."""
        rgbx = cv2.cvtColor(self.background, cv2.COLOR_RGB2RGBA)
        rgbx[..., 3] = 0
        return np.ascontiguousarray(rgbx.view(np.uint32)[..., 0])

    @cached_property
    def texture(self) -> NDArray[np.uint8]:
        """[scale * size, scale * size, 4] uint8: the person alone, RGB times alpha, and alpha.

        Over the background it gives the portrait again, so the edge keeps its softness and has no
        halo.
        """
        lips = _lips_only(self.portrait, self.mesh.source, parted=self.parted)
        return person_texture(self, lips)

    @property
    def parted(self) -> bool:
        """Whether the portrait shows teeth, or the dark behind them."""
        return self.teeth_edge > TEETH_EDGE_SHUT

    def colour_at(self, vertices: Sequence[int]) -> NDArray[np.float64]:
        """Median colour [3] float64, RGB 0..255, of the portrait at some vertices."""
        x, y = np.clip(np.round(self.mesh.source[list(vertices)]).astype(int), 0, self.size - 1).T
        return np.asarray(np.median(self.portrait[y, x], axis=0), np.float64)

    def visible_triangles(self) -> NDArray[np.int32]:
        """The triangles that carry any of the person, in drawing order: vertices [M, 3] int32."""
        triangles = self.mesh.triangles
        shown = cv2.dilate(self.matte, np.ones((5, 5), np.uint8))
        corners = self.mesh.source[triangles]
        low = np.clip(np.floor(corners.min(axis=1)).astype(int) - 1, 0, self.size - 1)
        high = np.clip(np.ceil(corners.max(axis=1)).astype(int) + 2, 1, self.size)
        visible = [
            bool(shown[y0:y1, x0:x1].any()) for (x0, y0), (x1, y1) in zip(low, high, strict=True)
        ]
        return np.ascontiguousarray(triangles[np.array(visible)])


def _arrays(part: Any) -> Iterator[NDArray[Any]]:
    """All numbers of a record and of the records in it, in order."""
    for field in fields(part):
        value = getattr(part, field.name)
        if isinstance(value, np.ndarray | float):
            yield np.asarray(value)
        elif is_dataclass(value):
            yield from _arrays(value)


def person_texture(avatar: Avatar, seen: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The person of `seen` [size, size, 3] uint8 RGB alone, enlarged; see `Avatar.texture`."""
    alpha = avatar.matte.astype(np.float32) / 255.0
    person = seen.astype(np.float32) - (1 - alpha[..., None]) * avatar.background
    rgba = np.dstack([person, alpha * 255.0]).astype(np.float32)
    fine = _enlarged(rgba)
    # Samples of it shall give the portrait, not a blur: enlarge once more what was lost.
    small = cv2.resize(fine, (avatar.size, avatar.size), interpolation=cv2.INTER_AREA)
    fine += _enlarged(np.asarray(rgba - small, np.float32))
    fine[..., 3] = np.clip(np.round(fine[..., 3]), 0, 255)
    fine[..., :3] = np.clip(np.round(fine[..., :3]), 0, fine[..., 3:])
    return np.ascontiguousarray(fine.astype(np.uint8))


def _lips_only(
    rgb: NDArray[np.uint8], source: NDArray[np.float64], *, parted: bool
) -> NDArray[np.uint8]:
    """The portrait with lip in place of what it shows between the lips: the inside of the mouth is
    drawn, and must not be seen at the rims and in the corners as well.
    """
    rims = source[[*topology.UPPER_INNER_LIP, *topology.LOWER_INNER_LIP[-2:0:-1]]]
    mask: NDArray[np.uint8] = np.zeros(rgb.shape[:2], np.uint8)
    # In sixteenths of a pixel.
    cv2.fillPoly(mask, [np.round(rims * 16).astype(np.int32)], 1, cv2.LINE_8, 4)
    margin = 12 + round(_POCKET * float(np.ptp(rims[:, 0])))
    x0, y0 = np.maximum(0, rims.min(axis=0).astype(int) - margin)
    x1, y1 = rims.max(axis=0).astype(int) + margin
    if parted:
        mask[y0:y1, x0:x1] |= _pockets(rgb[y0:y1, x0:x1], rims - (x0, y0))
    out = rgb.copy()
    out[y0:y1, x0:x1] = fill_hidden(rgb[y0:y1, x0:x1], 1.0 - mask[y0:y1, x0:x1].astype(np.float32))
    return out


def _pockets(rgb: NDArray[np.uint8], rims: NDArray[np.float64]) -> NDArray[np.uint8]:
    """The dark in the corners of a mouth, [h, w] 0 or 1: that of a smile would stay as two dots
    where its corners have drawn in. rgb: [h, w, 3]; rims: [K, 2] pixels, the opening.
    """
    near: NDArray[np.uint8] = np.zeros(rgb.shape[:2], np.uint8)
    radius = max(2, round(_POCKET * float(np.ptp(rims[:, 0]))))
    for corner in (rims[rims[:, 0].argmin()], rims[rims[:, 0].argmax()]):
        cv2.circle(near, np.round(corner).astype(int).tolist(), radius, 1, cv2.FILLED)
    bright = rgb.max(axis=2)
    dark = bright < _DARK * np.median(bright[near > 0])
    grown = cv2.dilate((near & dark).astype(np.uint8), np.ones((3, 3), np.uint8))
    return np.asarray(grown, np.uint8)


def _enlarged(picture: NDArray[np.float32]) -> NDArray[np.float32]:
    side = picture.shape[0] * TEXTURE_SCALE
    return np.asarray(cv2.resize(picture, (side, side), interpolation=cv2.INTER_CUBIC), np.float32)


def save_avatar(avatar: Avatar, folder: Path, at_rest: NDArray[np.uint8] | None = None) -> None:
    """Writes the avatar's files into `folder`, which must exist.

    at_rest: [size, size, 3] uint8 RGB, what lists show of it: the face as it is drawn at rest;
    None: the portrait as photographed.
    """
    (folder / _ABOUT).write_text(_about(avatar), encoding="utf-8")
    shown = avatar.portrait if at_rest is None else at_rest
    (folder / _THUMBNAIL).write_bytes(jpeg(shown))
    for file, pixels in (
        (_PORTRAIT, avatar.portrait[..., ::-1]),
        (_BACKGROUND, avatar.background[..., ::-1]),
        (_MATTE, avatar.matte),
    ):
        _, content = cv2.imencode(".png", pixels, [cv2.IMWRITE_PNG_COMPRESSION, 9])
        (folder / file).write_bytes(content.tobytes())
    _save_mesh(avatar, folder / _MESH)


def _about(avatar: Avatar) -> str:
    """As TOML."""
    about = {
        "name": avatar.name,
        "licence": avatar.licence,
        "source": avatar.source_note,
        "created": avatar.created,
        "version": VERSION,
        "size": avatar.size,
    }
    # JSON strings and integers are valid TOML values.
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in about.items()]
    consent = avatar.consent.written() if avatar.consent is not None else ""
    return "\n".join([*lines, consent])


def _save_mesh(avatar: Avatar, file: Path) -> None:
    mesh, frame = avatar.mesh, avatar.frame
    np.savez_compressed(
        file,
        source=mesh.source.astype(np.float32),
        depth=mesh.depth.astype(np.float32),
        weight=mesh.weight.astype(np.float32),
        triangles=mesh.triangles.astype(np.int16),
        edges=np.concatenate([lining.edge for lining in mesh.linings]).astype(np.int16),
        strips=np.concatenate([lining.strip for lining in mesh.linings]).astype(np.int16),
        lining_sizes=np.array([len(lining.edge) for lining in mesh.linings], np.int16),
        still=mesh.still.astype(np.int16),
        offsets=mesh.offsets.astype(np.float32),
        origin=frame.origin,
        axes=frame.axes,
        eye_distance=frame.eye_distance,
        pivot=frame.pivot,
        rest=avatar.rest.astype(np.float32),
        shapes=avatar.shapes.astype(np.float16),
        iris=avatar.iris,
        lids=avatar.lids,
        lids_at=np.array(avatar.lids_at, np.int16),
        lash=avatar.lash,
        upper_teeth=avatar.upper_teeth,
        mouth_middle=avatar.mouth_middle,
        ivory=avatar.ivory,
        mouth_light=avatar.mouth_light,
        teeth_edge=avatar.teeth_edge,
        seam=avatar.seam,
    )


def load_avatar(folder: Path) -> Avatar:
    """Reads what `save_avatar` wrote. InvalidInputError when the folder is damaged or of another
    version.
    """
    about = read_about(folder)
    with _damage_named(folder), (folder / _MESH).open("rb") as file, np.load(file) as arrays:
        return _checked(_assemble(folder, about, dict(arrays)))


def read_about(folder: Path) -> About:
    """The record alone. InvalidInputError as for `load_avatar`."""
    with _damage_named(folder):
        about = tomllib.loads((folder / _ABOUT).read_text(encoding="utf-8"))
        if about["version"] != VERSION:
            raise InvalidInputError(
                f"avatar {folder.name!r} is of version {about['version']}, "
                f"this is {VERSION}: make it again"
            )
        return About(
            name=str(about["name"]),
            licence=str(about["licence"]),
            source_note=str(about["source"]),
            created=str(about["created"]),
            size=int(about["size"]),
            consent=Consent.read(about["consent"]) if "consent" in about else None,
        )


def read_portrait(folder: Path) -> bytes:
    """The portrait as a JPEG; of a folder that has none yet it is made once.

    InvalidInputError as for `load_avatar`.
    """

    def make() -> bytes:
        with _damage_named(folder):
            return jpeg(_read_picture(folder / _PORTRAIT))

    return read_or_make(folder / _THUMBNAIL, make)


def read_or_make(ready: Path, make: Callable[[], bytes]) -> bytes:
    """What stands in the file `ready`; where there is none yet, it is made once."""
    with contextlib.suppress(FileNotFoundError):
        return ready.read_bytes()
    made = make()
    # Where it cannot be kept, it is made each time.
    with contextlib.suppress(OSError), placed_whole(ready, prefix=".new-") as file:
        file.write(made)
    return made


def jpeg(portrait: NDArray[np.uint8]) -> bytes:
    """For lists of avatars. portrait: [H, W, 3] uint8 RGB."""
    quality = [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY]
    _, content = cv2.imencode(".jpg", np.ascontiguousarray(portrait[..., ::-1]), quality)
    return content.tobytes()


@contextlib.contextmanager
def _damage_named(folder: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise InvalidInputError(
            f"avatar folder {folder} is damaged: {error!r}; make the avatar again"
        ) from error


def _assemble(folder: Path, about: About, arrays: dict[str, NDArray[np.generic]]) -> Avatar:
    f64 = {
        key: value.astype(np.float64) for key, value in arrays.items() if value.dtype.kind == "f"
    }
    i32 = {key: value.astype(np.int32) for key, value in arrays.items() if value.dtype.kind == "i"}
    cuts = np.cumsum(i32["lining_sizes"])[:-1]
    linings = tuple(
        Lining(edge, strip)
        for edge, strip in zip(
            np.split(i32["edges"], cuts), np.split(i32["strips"], cuts), strict=True
        )
    )
    mesh = FaceMesh(
        f64["source"],
        f64["depth"],
        f64["weight"],
        i32["triangles"],
        linings,
        i32["still"],
        f64["offsets"],
    )
    return Avatar(
        name=about.name,
        licence=about.licence,
        source_note=about.source_note,
        created=about.created,
        portrait=_read_picture(folder / _PORTRAIT),
        background=_read_picture(folder / _BACKGROUND),
        matte=np.ascontiguousarray(_read_picture(folder / _MATTE)[..., 0]),
        mesh=mesh,
        frame=HeadFrame(f64["origin"], f64["axes"], float(f64["eye_distance"]), f64["pivot"]),
        rest=f64["rest"],
        shapes=f64["shapes"].astype(np.float32),
        iris=f64["iris"],
        lids=np.asarray(arrays["lids"], np.uint8),
        lids_at=(int(i32["lids_at"][0]), int(i32["lids_at"][1])),
        lash=f64["lash"],
        upper_teeth=np.asarray(arrays["upper_teeth"], np.uint8),
        mouth_middle=f64["mouth_middle"],
        ivory=f64["ivory"],
        mouth_light=f64["mouth_light"],
        teeth_edge=float(f64["teeth_edge"]),
        seam=float(f64["seam"]),
        consent=about.consent,
    )


def _checked(avatar: Avatar) -> Avatar:
    """The avatar itself. Raises ValueError for one that lies about its sizes: what draws it is
    compiled, and reads wherever it is told to.
    """
    mesh, size = avatar.mesh, avatar.size
    points = [mesh.triangles, mesh.still]
    points += [ends for lining in mesh.linings for ends in (lining.edge, lining.strip)]
    count = len(mesh.source)
    if any(named.size and not 0 <= named.min() <= named.max() < count for named in points):
        raise ValueError("its mesh names points that are not there")
    shapes = [p.shape for p in (avatar.portrait, avatar.background)] + [(*avatar.matte.shape, 3)]
    if set(shapes) != {(size, size, 3)}:
        raise ValueError(f"its pictures are of several sizes: {shapes}")
    (x, y), (height, width) = avatar.lids_at, avatar.lids.shape[:2]
    if not (0 <= x <= size - width and 0 <= y <= size - height):
        raise ValueError("its lids lie beside its portrait")
    places = (mesh.source, mesh.depth, mesh.weight, mesh.offsets, avatar.rest, avatar.shapes)
    if not all(np.isfinite(values).all() for values in (*places, avatar.iris)):
        raise ValueError("its mesh lies nowhere")
    return avatar


def _read_picture(path: Path) -> NDArray[np.uint8]:
    pixels = cv2.imdecode(np.frombuffer(path.read_bytes(), np.uint8), cv2.IMREAD_COLOR)
    if pixels is None:
        raise ValueError(f"{path.name} is not a picture")
    return np.ascontiguousarray(pixels[..., ::-1])
