"""Fragmented mp4 of H.264 and AAC: one muxer for live viewers and for recordings.

Pictures are passed through as the face encoded them. A picture's fragment is complete
when the next one tells how long it was shown.
"""

from __future__ import annotations

from dataclasses import dataclass

from gateway import boxes
from gateway.h264 import ParameterSets, length_prefixed, parameter_sets, split_units
from gateway.pictures import ReleasedPicture
from gateway.sound import AacPacket
from gateway.timeline import RATE_HZ, VIDEO_HZ

VIDEO_TRACK = 1
SOUND_TRACK = 2


@dataclass(frozen=True, slots=True)
class Fragment:
    """One moof and mdat. `time`: where it begins, in seconds of the muxer's time."""

    payload: bytes
    keyframe: bool
    sound: bool
    time_s: float


def init_segment(
    sets: ParameterSets,
    width: int,
    height: int,
    sound_config: bytes,
    *,
    priming_samples: int = 0,
    duration_ms: int = 0,
) -> bytes:
    """ftyp and moov.

    priming_samples: what a player skips at the beginning of the sound (edit list).
    duration_ms: of the whole file; 0 where it is live.
    """
    video = boxes.box(
        "trak",
        boxes.tkhd(VIDEO_TRACK, duration_ms, volume=0, width=width, height=height),
        boxes.box(
            "mdia",
            boxes.mdhd(VIDEO_HZ),
            boxes.hdlr("vide", "face"),
            boxes.box(
                "minf",
                boxes.full_box("vmhd", 0, 1, bytes(8)),
                boxes.dinf(),
                boxes.stbl(boxes.avc1(width, height, sets.sps, sets.pps)),
            ),
        ),
    )
    edit = boxes.edts(duration_ms, priming_samples) if priming_samples else b""
    sound = boxes.box(
        "trak",
        boxes.tkhd(SOUND_TRACK, duration_ms, volume=0x0100, width=0, height=0),
        edit,
        boxes.box(
            "mdia",
            boxes.mdhd(RATE_HZ),
            boxes.hdlr("soun", "voice"),
            boxes.box(
                "minf",
                boxes.full_box("smhd", 0, 0, bytes(4)),
                boxes.dinf(),
                boxes.stbl(boxes.mp4a(RATE_HZ, 1, sound_config)),
            ),
        ),
    )
    extends = boxes.box("mvex", boxes.trex(VIDEO_TRACK), boxes.trex(SOUND_TRACK))
    return boxes.ftyp() + boxes.box("moov", boxes.mvhd(duration_ms), video, sound, extends)


class Muxer:
    """Turns released pictures and sound packets into fragments.

    Times of both have the same origin: `origin_samples` of session media time is zero.
    A file (live=False) has one header: parameter sets that change later stay in the
    pictures.
    """

    def __init__(self, origin_samples: int = 0, *, live: bool = True) -> None:
        self.sets: ParameterSets | None = None
        self.width = 0
        self.height = 0
        self._live = live
        self._origin_samples = origin_samples
        self._origin_video = origin_samples * VIDEO_HZ // RATE_HZ
        self._sequence = 0
        self._pending: tuple[int, bytes, bool] | None = None
        self.parameters_changed = False

    def picture(self, released: ReleasedPicture) -> Fragment | None:
        """The fragment of the picture before this one, if there was one.

        parameters_changed is True if live viewers need a new init segment from
        this picture on.
        """
        picture = released.picture
        units = split_units(picture.payload)
        self.parameters_changed = False
        if picture.keyframe:
            found = parameter_sets(units)
            changed = found != self.sets and (self._live or self.sets is None)
            if found is not None and changed:
                self.parameters_changed = True
                self.sets, self.width, self.height = found, picture.width, picture.height
        time = max(0, released.time - self._origin_video)
        done = self._flush(time)
        self._pending = (time, length_prefixed(units, self.sets), picture.keyframe)
        return done

    def finish(self, end_samples: int) -> Fragment | None:
        """The last picture, shown until `end_samples` of session media time."""
        return self._flush((end_samples - self._origin_samples) * VIDEO_HZ // RATE_HZ)

    def sound(self, packet: AacPacket) -> Fragment:
        """Fragment of one packet; packet.time_samples in session media time."""
        time = packet.time_samples - self._origin_samples
        sample = boxes.Sample(packet.payload, packet.duration_samples)
        payload = boxes.fragment(self._next(), SOUND_TRACK, time, [sample])
        return Fragment(payload, True, True, time / RATE_HZ)

    def _flush(self, until: int) -> Fragment | None:
        if self._pending is None:
            return None
        time, payload, keyframe = self._pending
        self._pending = None
        sample = boxes.Sample(payload, max(1, until - time), keyframe)
        fragment = boxes.fragment(self._next(), VIDEO_TRACK, time, [sample])
        return Fragment(fragment, keyframe, False, time / VIDEO_HZ)

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence
