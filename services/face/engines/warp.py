"""The embedded engine: a photograph is bent like rubber; no network, a few milliseconds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.avatar.avatar import Avatar
from services.face.avatar.store import DEFAULT_AVATAR, AvatarStore
from services.face.draw.animator import Frame
from services.face.draw.pictures import Draw, Painter
from services.face.draw.renderer import Renderer
from services.face.engines.base import AvatarInfo, NetworkState
from services.face.lips.sound_track import Ear

_JPEG_QUALITY = 88


class WarpPainter:
    """Draws the pose of each frame."""

    def __init__(self, avatar: Avatar) -> None:
        self._renderer = Renderer(avatar)

    @property
    def size(self) -> int:
        return self._renderer.size

    async def prepare(self, frame: Frame) -> Draw:
        return partial(self._renderer.render, frame.pose)

    def close(self) -> None:
        """It holds nothing."""


class WarpEngine:
    """The avatars of a store, "" being the one that the service was told to wear."""

    needs_voice = False

    def __init__(self, store: AvatarStore, default: str) -> None:
        self._store = store
        self._default = default or DEFAULT_AVATAR

    @property
    def states(self) -> Sequence[NetworkState]:
        return ()

    def ear(self, sample_rate_hz: int, fps: int) -> Ear | None:
        return None

    async def load(self) -> None:
        """There is nothing to load."""

    async def close(self) -> None:
        """There is nothing to close."""

    def avatars(self) -> Sequence[AvatarInfo]:
        """The default one first."""
        names = sorted(self._store.names(), key=lambda name: name != self._default)
        return [self._info(self._store.load(name)) for name in names]

    def painter(self, name: str) -> Painter:
        return WarpPainter(self.load_avatar(name))

    def create(self, name: str, image: bytes) -> AvatarInfo:
        return self._info(self._store.create(name, image))

    def delete(self, name: str) -> None:
        self._store.delete(name)

    def load_avatar(self, name: str) -> Avatar:
        """The avatar of that name, "" for the default. UnknownNameError lists what exists."""
        return self._store.load(name or self._default)

    def _info(self, avatar: Avatar) -> AvatarInfo:
        builtin = self._store.is_builtin(avatar.name)
        return AvatarInfo(avatar.name, avatar.size, builtin, avatar.licence, jpeg(avatar.portrait))


def jpeg(portrait: NDArray[np.uint8]) -> bytes:
    """portrait: [H, W, 3] RGB."""
    quality = [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY]
    _, content = cv2.imencode(".jpg", np.ascontiguousarray(portrait[..., ::-1]), quality)
    return content.tobytes()
