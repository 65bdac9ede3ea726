"""The studio with the product's own avatars, painters and encoders."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from services.face.avatar import Avatar
from services.face.avatar_store import DEFAULT_AVATAR, AvatarStore
from services.face.encoder import Codec, VideoEncoder
from services.face.pictures import Encoded
from services.face.portrait import PortraitStudio
from services.face.renderer import Renderer
from services.face.settings import FaceSettings
from services.face.studio import AvatarInfo, Studio
from visavis.media import VideoCodec
from visavis.models import bundle_path

_CODECS: dict[VideoCodec, Codec] = {VideoCodec.H264: "h264", VideoCodec.VP8: "vp8"}
_JPEG_QUALITY = 88


class StoredGallery:
    """The avatars of a store, "" being the one that the service was told to wear."""

    def __init__(self, store: AvatarStore, default: str) -> None:
        self._store = store
        self._default = default or DEFAULT_AVATAR

    def avatars(self) -> Sequence[AvatarInfo]:
        """The default one first."""
        names = sorted(self._store.names(), key=lambda name: name != self._default)
        return [self._info(self._store.load(name)) for name in names]

    def painter(self, name: str) -> Renderer:
        return Renderer(self._store.load(name or self._default))

    def create(self, name: str, image: bytes) -> AvatarInfo:
        return self._info(self._store.create(name, image))

    def delete(self, name: str) -> None:
        self._store.delete(name)

    def _info(self, avatar: Avatar) -> AvatarInfo:
        builtin = self._store.is_builtin(avatar.name)
        return AvatarInfo(avatar.name, avatar.size, builtin, avatar.licence, _jpeg(avatar.portrait))


class VideoStream:
    """VideoEncoder as the pictures use it."""

    def __init__(self, codec: VideoCodec, size: int, fps: int, *, bitrate: int) -> None:
        self._encoder = VideoEncoder(_CODECS[codec], size, size, fps, bitrate)

    def encode(self, picture: NDArray[np.uint8], *, keyframe: bool) -> Encoded:
        frame = self._encoder.encode(picture, force_keyframe=keyframe)
        return Encoded(frame.payload, frame.keyframe)

    def close(self) -> None:
        self._encoder.close()


def open_studio(settings: FaceSettings) -> Studio:
    """The studio that the service runs with; nothing is loaded yet."""
    folder = settings.avatar_dir or default_avatar_dir()
    store = AvatarStore(folder, partial(_portrait_studio, settings))
    open_encoder = partial(VideoStream, bitrate=1000 * settings.bitrate_kbps)
    return Studio(settings, StoredGallery(store, settings.avatar), open_encoder)


def default_avatar_dir() -> Path:
    """Avatars are made by people, so they are data, not cache: XDG_DATA_HOME or its default."""
    given = os.environ.get("XDG_DATA_HOME")
    root = Path(given).expanduser() if given else Path.home() / ".local" / "share"
    return root / "visavis" / "avatars"


def _portrait_studio(settings: FaceSettings) -> PortraitStudio:
    return PortraitStudio(bundle_path("face-landmarks", settings.model_dir))


def _jpeg(portrait: NDArray[np.uint8]) -> bytes:
    """portrait: [H, W, 3] RGB."""
    quality = [cv2.IMWRITE_JPEG_QUALITY, _JPEG_QUALITY]
    _, content = cv2.imencode(".jpg", np.ascontiguousarray(portrait[..., ::-1]), quality)
    return content.tobytes()
