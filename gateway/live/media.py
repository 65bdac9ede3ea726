"""What leaves a session as it goes live: pictures as they are, sound encoded once for all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import av

from gateway.playout.captions import Captions
from gateway.playout.pacing import to_video_clock
from gateway.playout.playout import Tick
from gateway.playout.sinks.fmp4 import (
    ParameterSets,
    length_prefixed,
    parameter_sets,
    split_units,
)
from gateway.playout.sound import AacEncoder, AacPacket, OpusEncoder
from visavis.wire.media import VideoCodec

CHANNELS = 2
"""Platforms want stereo; both sides are the one voice."""
AAC_BIT_RATE = 128_000


@dataclass(frozen=True, slots=True)
class PictureFormat:
    """What a decoder must know before the first picture of a stream."""

    sets: ParameterSets
    width: int
    height: int
    fps: int


@dataclass(frozen=True, slots=True)
class LivePicture:
    """One H.264 picture as the face encoded it, with a length before each NAL unit.

    time: 90 kHz, session media time. format: of the stream that it belongs to. annex_b: the same
    with start codes and parameter sets. What is said stands in both. bare: payload without that, to
    be shown again.
    """

    time: int
    payload: bytes
    keyframe: bool
    format: PictureFormat
    annex_b: bytes
    bare: bytes


@dataclass(frozen=True, slots=True)
class LiveTick:
    """What leaves in one step, for everybody who is live. sound_config: AudioSpecificConfig.

    until: where the step ends, on the pictures' clock.
    """

    pictures: tuple[LivePicture, ...]
    sound: tuple[AacPacket, ...]
    sound_config: bytes
    until: int
    opus: tuple[av.Packet[Any], ...] = ()
    """Where somebody wants it, in media time."""


class LiveMedia:
    """Turns a session's ticks, one after the other with none left out, into live media."""

    def __init__(self, start_samples: int) -> None:
        """start_samples: of the first tick."""
        self.captions = Captions()
        self._sound = AacEncoder(start_samples, channels=CHANNELS, bit_rate=AAC_BIT_RATE)
        self._opus: OpusEncoder | None = None
        self._format: PictureFormat | None = None

    def take(self, tick: Tick, *, opus: bool = False) -> LiveTick:
        """Pictures before the first key frame are left out. opus: it is wanted as well as AAC."""
        pictures = []
        for released in tick.pictures:
            picture = released.picture
            if picture.codec is not VideoCodec.H264:
                continue
            units = split_units(picture.payload)
            if picture.keyframe and (sets := parameter_sets(units)) is not None:
                self._format = PictureFormat(sets, picture.width, picture.height, picture.fps)
            if self._format is None:
                continue
            bare = payload = length_prefixed(units, self._format.sets)
            annex_b = self.captions.within(picture.payload, released.time)
            if annex_b is not picture.payload:
                payload = length_prefixed(split_units(annex_b), self._format.sets)
            pictures.append(
                LivePicture(released.time, payload, picture.keyframe, self._format, annex_b, bare)
            )
        sound = self._sound.encode(tick.pcm, silent=tick.silent)
        packets = self._in_opus(tick) if opus else ()
        until = to_video_clock(tick.start_samples + len(tick.pcm))
        return LiveTick(tuple(pictures), tuple(sound), self._sound.config, until, packets)

    def _in_opus(self, tick: Tick) -> tuple[av.Packet[Any], ...]:
        self._opus = self._opus or OpusEncoder()
        return tuple(self._opus.encode(tick.pcm, tick.start_samples, silent=tick.silent))
