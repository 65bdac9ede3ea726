"""The engine that draws heads: a few milliseconds of one core for a picture, and no network."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import product

import numpy as np

from services.face.avatar.consent import Consent
from services.face.avatar.making.decoding import Reading
from services.face.draw.compiling import is_kept
from services.face.draw.pictures import Painter, PosePainter
from services.face.draw.pose import FacePose
from services.face.engines.base import AvatarInfo, Keep, NetworkState, Upload
from services.face.engines.head.bundle import About, Framing, HeadBundle, Light, unpack_bundle
from services.face.engines.head.checking import check
from services.face.engines.head.framing import portrayed
from services.face.engines.head.gltf.parts import Part, Target
from services.face.engines.head.model import model_of
from services.face.engines.head.raster.picture import draw_head
from services.face.engines.head.renderer import HeadRenderer
from services.face.engines.head.store import HeadStore
from services.face.lips.sound_track import Ear
from visavis.serving.errors import InvalidInputError
from visavis.serving.lifetime.starting import busy_with
from visavis.wire.shelf import Shelf

log = logging.getLogger(__name__)

_SMALL = 16


class HeadEngine:
    """The engine that draws heads, which are bundles of triangles and not pictures."""

    name = "head"
    needs_voice = False
    reading = Reading.AS_IS
    of_people = False

    def __init__(self, store: HeadStore, limit_s: float) -> None:
        """limit_s: longest work that reading a stranger's bundle may be."""
        self._store = store
        self._limit_s = limit_s

    @property
    def states(self) -> Sequence[NetworkState]:
        return ()

    @property
    def shelf(self) -> Shelf:
        return self._store

    def ear(self, sample_rate_hz: int, fps: int) -> Ear | None:
        return None

    async def load(self) -> None:
        """Has what draws compiled where it is not: no visitor is to wait so long for a head."""
        if not is_kept(draw_head):
            log.info("what draws heads is compiled, which takes some twenty seconds")
            busy_with("compiling what draws heads (once)")
            await asyncio.to_thread(rehearse)

    async def close(self) -> None:
        """There is nothing to close."""

    def has(self, name: str) -> bool:
        """Whether that avatar is a head."""
        return self._store.has(name)

    def avatars(self) -> Sequence[AvatarInfo]:
        return self._store.infos()

    def portrait(self, name: str) -> bytes:
        return self._store.portrait(name)

    def painter(self, name: str) -> Painter:
        head = self._store.load(name)
        painter = PosePainter(HeadRenderer(head.model), f"head {head.digest}")
        rehearse()
        return painter

    def check_new(self, name: str) -> None:
        self._store.check_new(name)

    def make(self, name: str, upload: Upload, consent: Consent | None) -> Keep:
        if not isinstance(upload, bytes):
            raise InvalidInputError("a head is made of a bundle, not of a picture")
        left_out = check(upload, self._limit_s)
        keep = partial(self._store.keep, name, portrayed(unpack_bundle(upload)))
        return lambda: replace(keep(), left_out=left_out)

    def delete(self, name: str) -> None:
        self._store.delete(name)


@cache
def rehearse() -> None:
    """Draws a head of two cubes: what draws is compiled, or read, before anybody waits for it."""
    corners = np.array(list(product((-0.5, 0.5), repeat=3)), np.float32) / 50
    aside = np.array((0.1, 0.0, 0.0), np.float32)
    places = np.concatenate([corners - aside, corners + aside])
    eyes = Part(
        names=("eyes",),
        positions=places,
        normals=None,
        places=np.full((len(places), 2), 0.5, np.float32),
        triangles=np.array([(0, 1, 2), (8, 9, 10)], np.int32),
        targets={"jawOpen": Target(np.zeros(1, np.int32), np.ones((1, 3), np.float32))},
        texture=np.zeros((4, 4, 4), np.uint8),
        blends=False,
        cut=None,
        two_sided=True,
        unlit=False,
    )
    framing = Framing((0.0, 0.0, 1.0), (0.0, 0.0, 0.0), 0.3)
    about = About("", "", framing, Light((), 0.1, False), None)
    wall = np.zeros((_SMALL, _SMALL, 3), np.uint8)
    HeadRenderer(model_of(HeadBundle(about, [eyes], (), wall, wall), _SMALL)).draw(FacePose())
