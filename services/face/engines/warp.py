"""The embedded engine: a photograph is bent like rubber; no network, a few milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from services.face.avatar.avatar import Avatar
from services.face.avatar.consent import Consent
from services.face.avatar.making.decoding import Reading
from services.face.avatar.store import DEFAULT_AVATAR, AvatarStore
from services.face.draw.pictures import Painter, PosePainter
from services.face.draw.renderer import Renderer, is_compiled
from services.face.engines.base import AvatarInfo, Keep, NetworkState, Upload, decoded
from services.face.lips.sound_track import Ear
from visavis.serving.lifetime.starting import busy_with


class WarpEngine:
    """The engine that bends photographs: avatars of a store, "" the one that the service wears."""

    name = "warp"
    needs_voice = False
    reading = Reading.COLOUR
    of_people = True

    def __init__(self, store: AvatarStore, default: str) -> None:
        self._store = store
        self._default = default or DEFAULT_AVATAR

    @property
    def states(self) -> Sequence[NetworkState]:
        return ()

    @property
    def shelf(self) -> AvatarStore:
        return self._store

    def ear(self, sample_rate_hz: int, fps: int) -> Ear | None:
        return None

    async def load(self) -> None:
        """There is nothing to load, but the first picture may have to be waited for."""
        if not is_compiled():
            busy_with("compiling what draws photographs (once)")

    async def close(self) -> None:
        """There is nothing to close."""

    def avatars(self) -> Sequence[AvatarInfo]:
        """The default one first."""
        return sorted(self._store.infos(), key=lambda avatar: avatar.name != self._default)

    def portrait(self, name: str) -> bytes:
        return self._store.portrait(name)

    def painter(self, name: str) -> Painter:
        avatar = self.load_avatar(name)
        return PosePainter(Renderer(avatar), f"warp {avatar.digest}")

    def check_new(self, name: str) -> None:
        self._store.check_new(name)

    def make(self, name: str, upload: Upload, consent: Consent | None) -> Keep:
        rgb = np.ascontiguousarray(decoded(upload)[..., ::-1], np.uint8)
        return partial(self._store.keep, self._store.make(name, rgb, consent))

    def delete(self, name: str) -> None:
        self._store.delete(name)

    def load_avatar(self, name: str) -> Avatar:
        """The avatar of that name, "" for the default. UnknownNameError lists what exists."""
        return self._store.load(name or self._default)
