"""Pictures, sound and metadata as FLV tags have them (Adobe FLV 10.1, annex E). Pure."""

from __future__ import annotations

from typing import Final

from gateway.live.media import AAC_BIT_RATE, LivePicture, PictureFormat
from gateway.live.rtmp.amf import ecma_array, encode
from gateway.playout.pacing import RATE_HZ
from gateway.playout.sinks.fmp4 import avc_config
from visavis.synthetic import SYNTHETIC

_H264: Final = 7
_KEYFRAME, _BETWEEN = 1, 2
# AAC, and what FLV says of all AAC: 44 kHz, 16 bits, stereo. Its own header tells the truth.
_AAC: Final = 0xAF
_HEADER, _DATA = b"\0", b"\x01"
_NO_OFFSET: Final = b"\0\0\0"


def metadata(shown: PictureFormat) -> bytes:
    """What the stream is: the payload of a data message, for servers and players."""
    return encode("@setDataFrame", "onMetaData") + ecma_array(
        {
            "duration": 0.0,
            "width": shown.width,
            "height": shown.height,
            "framerate": shown.fps,
            "videocodecid": _H264,
            "audiocodecid": 10,
            "audiodatarate": AAC_BIT_RATE / 1000,
            "audiosamplerate": RATE_HZ,
            "audiosamplesize": 16,
            "stereo": True,
            "encoder": "visavis",
            "comment": SYNTHETIC,
        }
    )


def picture_header(shown: PictureFormat) -> bytes:
    """Before the first picture: what its decoder must know."""
    return bytes([_KEYFRAME << 4 | _H264]) + _HEADER + _NO_OFFSET + avc_config(shown.sets)


def picture(shown: LivePicture) -> bytes:
    """One picture; it is decoded when it is shown."""
    kind = _KEYFRAME if shown.keyframe else _BETWEEN
    return bytes([kind << 4 | _H264]) + _DATA + _NO_OFFSET + shown.payload


def sound_header(config: bytes) -> bytes:
    """Before the first packet of sound. config: AudioSpecificConfig."""
    return bytes([_AAC]) + _HEADER + config


def sound(packet: bytes) -> bytes:
    """One packet of AAC."""
    return bytes([_AAC]) + _DATA + packet
