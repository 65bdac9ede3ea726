"""The studio with the engine that the settings name and the product's own encoders."""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from services.face.encoder import Codec, VideoEncoder
from services.face.engines.choice import open_face_engine
from services.face.pictures import Encoded
from services.face.settings import FaceSettings
from services.face.studio import Studio
from visavis.media import VideoCodec

_CODECS: dict[VideoCodec, Codec] = {VideoCodec.H264: "h264", VideoCodec.VP8: "vp8"}


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
    open_encoder = partial(VideoStream, bitrate=1000 * settings.bitrate_kbps)
    return Studio(settings, open_face_engine(settings), open_encoder)
