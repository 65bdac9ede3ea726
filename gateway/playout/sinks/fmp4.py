"""Fragmented mp4 of H.264 and AAC for live viewers."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.playout.pacing import RATE_HZ, VIDEO_HZ
from gateway.playout.pictures import ReleasedPicture
from gateway.playout.sound import AacPacket
from visavis.synthetic import SYNTHETIC

VIDEO_TRACK = 1
SOUND_TRACK = 2

_START_CODE = re.compile(rb"\x00\x00\x00?\x01")

_SPS, _PPS, _DELIMITER = 7, 8, 9

_MATRIX = struct.pack(">9I", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)


@dataclass(frozen=True, slots=True)
class Fragment:
    """One moof and mdat. `time`: where it begins, in seconds of the muxer's time."""

    payload: bytes
    keyframe: bool
    sound: bool
    time_s: float


class Muxer:
    """Turns released pictures and sound packets into fragments; times of both are media time.

    Pictures are passed through as the face encoded them. A picture's fragment is complete when
    the next one tells how long it was shown.
    """

    def __init__(self) -> None:
        self.sets: ParameterSets | None = None
        self.width = 0
        self.height = 0
        self._sequence = 0
        self._pending: tuple[int, bytes, bool] | None = None
        self.parameters_changed = False

    def picture(self, released: ReleasedPicture) -> Fragment | None:
        """The fragment of the picture before this one, if there was one.

        parameters_changed is True if viewers need a new init segment from this picture on.
        """
        picture = released.picture
        units = split_units(picture.payload)
        self.parameters_changed = False
        if picture.keyframe:
            found = parameter_sets(units)
            if found is not None and found != self.sets:
                self.parameters_changed = True
                self.sets, self.width, self.height = found, picture.width, picture.height
        done = self._flush(released.time)
        self._pending = (released.time, length_prefixed(units, self.sets), picture.keyframe)
        return done

    def sound(self, *packets: AacPacket) -> Fragment:
        """Fragment of packets that follow one another."""
        time = packets[0].time_samples
        samples = [Sample(packet.payload, packet.duration_samples) for packet in packets]
        payload = fragment_box(self._next(), SOUND_TRACK, time, samples)
        return Fragment(payload, True, True, time / RATE_HZ)

    def break_off(self) -> None:
        """No picture follows the last one for now, and nobody waits for it."""
        self._pending = None

    def _flush(self, until: int) -> Fragment | None:
        if self._pending is None:
            return None
        time, payload, keyframe = self._pending
        self._pending = None
        sample = Sample(payload, max(1, until - time), keyframe)
        fragment = fragment_box(self._next(), VIDEO_TRACK, time, [sample])
        return Fragment(fragment, keyframe, False, time / VIDEO_HZ)

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence


def init_segment(
    sets: ParameterSets, width: int, height: int, sound_config: bytes, channels: int = 1
) -> bytes:
    """ftyp and moov of pictures and sound, which says that all of it is synthetic."""
    extends = box("mvex", trex(VIDEO_TRACK), trex(SOUND_TRACK))
    tracks = _video_track(sets, width, height) + _sound_track(sound_config, channels)
    return ftyp() + box("moov", mvhd(), tracks, extends, udta(SYNTHETIC))


def sound_init_segment(sound_config: bytes) -> bytes:
    """ftyp and moov of sound alone, which is synthetic as well."""
    extends = box("mvex", trex(SOUND_TRACK))
    return ftyp() + box("moov", mvhd(), _sound_track(sound_config), extends, udta(SYNTHETIC))


def _video_track(sets: ParameterSets, width: int, height: int) -> bytes:
    return box(
        "trak",
        tkhd(VIDEO_TRACK, volume=0, width=width, height=height),
        box(
            "mdia",
            mdhd(VIDEO_HZ),
            hdlr("vide", "face"),
            box(
                "minf",
                full_box("vmhd", 0, 1, bytes(8)),
                dinf(),
                stbl(avc1(width, height, sets)),
            ),
        ),
    )


def _sound_track(config: bytes, channels: int = 1) -> bytes:
    return box(
        "trak",
        tkhd(SOUND_TRACK, volume=0x0100, width=0, height=0),
        box(
            "mdia",
            mdhd(RATE_HZ),
            hdlr("soun", "voice"),
            box(
                "minf",
                full_box("smhd", 0, 0, bytes(4)),
                dinf(),
                stbl(mp4a(RATE_HZ, channels, config)),
            ),
        ),
    )


# ------------------------------------------------------------ H.264
# Byte streams (ITU-T H.264 Annex B) as mp4 wants them.


@dataclass(frozen=True, slots=True)
class ParameterSets:
    """What a decoder must know before the first picture."""

    sps: bytes
    pps: bytes


def split_units(payload: bytes) -> list[bytes]:
    """NAL units of an Annex B access unit, without start codes."""
    # Zero bytes may pad a unit before the next start code.
    units = (unit.rstrip(b"\0") for unit in _START_CODE.split(payload)[1:])
    return [unit for unit in units if unit]


def parameter_sets(units: list[bytes]) -> ParameterSets | None:
    """Those of a key frame; None where it carries none."""
    sps = next((u for u in units if u[0] & 0x1F == _SPS), None)
    pps = next((u for u in units if u[0] & 0x1F == _PPS), None)
    return ParameterSets(sps, pps) if sps and pps and len(sps) >= 4 else None


def length_prefixed(units: list[bytes], known: ParameterSets | None) -> bytes:
    """The access unit with a length before each NAL unit, as in an mp4 sample.

    Parameter sets that stand in the file's header already are left out.
    """
    out = []
    for unit in units:
        kind = unit[0] & 0x1F
        if kind == _DELIMITER or (known and unit in (known.sps, known.pps)):
            continue
        out.append(struct.pack(">I", len(unit)) + unit)
    return b"".join(out)


# ------------------------------------------------------------ boxes
# Of the ISO base media file format (ISO/IEC 14496-12, -14 and -15), each function named after one.


def box(kind: str, *content: bytes) -> bytes:
    """A box: size, four-letter type, content."""
    body = b"".join(content)
    return struct.pack(">I4s", 8 + len(body), kind.encode("latin-1")) + body


def full_box(kind: str, version: int, flags: int, *content: bytes) -> bytes:
    """A box with version and flags."""
    return box(kind, struct.pack(">I", version << 24 | flags), *content)


def ftyp() -> bytes:
    return box("ftyp", b"iso6", struct.pack(">I", 1), b"iso6", b"isom", b"mp41", b"dash")


def mvhd() -> bytes:
    """Movie header; time scale 1000, and no length: it is live."""
    return full_box(
        "mvhd",
        0,
        0,
        struct.pack(">IIII", 0, 0, 1000, 0),
        struct.pack(">IHHII", 0x10000, 0x0100, 0, 0, 0),
        _MATRIX,
        bytes(24),
        struct.pack(">I", 0xFFFFFFFF),
    )


def tkhd(track_id: int, *, volume: int, width: int, height: int) -> bytes:
    return full_box(
        "tkhd",
        0,
        0x3,
        struct.pack(">IIIII", 0, 0, track_id, 0, 0),
        struct.pack(">IIHHHH", 0, 0, 0, 0, volume, 0),
        _MATRIX,
        struct.pack(">II", width << 16, height << 16),
    )


def udta(comment: str) -> bytes:
    """User data: a comment, as iTunes and FFmpeg write it."""
    # 1: the text is UTF-8.
    data = box("data", struct.pack(">II", 1, 0), comment.encode())
    return box("udta", full_box("meta", 0, 0, hdlr("mdir", ""), box("ilst", box("\xa9cmt", data))))


def mdhd(time_scale: int) -> bytes:
    # 0x55C4 is the packed language code "und".
    return full_box("mdhd", 0, 0, struct.pack(">IIIIHH", 0, 0, time_scale, 0, 0x55C4, 0))


def hdlr(kind: str, name: str) -> bytes:
    return full_box("hdlr", 0, 0, bytes(4), kind.encode(), bytes(12), name.encode() + b"\0")


def dinf() -> bytes:
    # One data reference, flagged as "in this file".
    return box("dinf", full_box("dref", 0, 0, struct.pack(">I", 1), full_box("url ", 0, 1)))


def stbl(sample_entry: bytes) -> bytes:
    """Sample table with no samples: they stand in the fragments."""
    return box(
        "stbl",
        full_box("stsd", 0, 0, struct.pack(">I", 1), sample_entry),
        full_box("stts", 0, 0, bytes(4)),
        full_box("stsc", 0, 0, bytes(4)),
        full_box("stsz", 0, 0, bytes(8)),
        full_box("stco", 0, 0, bytes(4)),
    )


def avc_config(sets: ParameterSets) -> bytes:
    """Decoder configuration record of H.264 (ISO/IEC 14496-15, 5.2.4.1)."""
    sps, pps = sets.sps, sets.pps
    config = struct.pack(">BBBBBB", 1, sps[1], sps[2], sps[3], 0xFF, 0xE1)
    return config + struct.pack(">H", len(sps)) + sps + struct.pack(">BH", 1, len(pps)) + pps


def avc1(width: int, height: int, sets: ParameterSets) -> bytes:
    """Sample entry of H.264 with its parameter sets (ISO/IEC 14496-15)."""
    return box(
        "avc1",
        struct.pack(">6xH16xHHIIIH32xHh", 1, width, height, 0x480000, 0x480000, 0, 1, 0x18, -1),
        box("avcC", avc_config(sets)),
    )


def mp4a(sample_rate_hz: int, channels: int, audio_specific_config: bytes) -> bytes:
    """Sample entry of AAC (ISO/IEC 14496-14)."""

    def descriptor(tag: int, *content: bytes) -> bytes:
        body = b"".join(content)
        return struct.pack(">BB", tag, len(body)) + body

    specific = descriptor(5, audio_specific_config)
    # 0x40: MPEG-4 audio; 0x15: an audio stream.
    decoder = descriptor(4, struct.pack(">BB3xII", 0x40, 0x15, 0, 0), specific)
    es = descriptor(3, struct.pack(">HB", 0, 0), decoder, descriptor(6, b"\x02"))
    return box(
        "mp4a",
        struct.pack(">6xH8xHHHHI", 1, channels, 16, 0, 0, sample_rate_hz << 16),
        full_box("esds", 0, 0, es),
    )


def trex(track_id: int) -> bytes:
    return full_box("trex", 0, 0, struct.pack(">IIIII", track_id, 1, 0, 0, 0))


@dataclass(frozen=True, slots=True)
class Sample:
    """One access unit. `duration` in the track's time scale."""

    payload: bytes
    duration: int
    keyframe: bool = True


# moof, mfhd, traf, tfhd, tfdt, trun; flags of tfhd: default-base-is-moof, of trun: data offset, and
# duration, size and flags of each sample.
_HEAD = struct.Struct(">I4s I4sII I4s I4sII I4sIQ I4sIIi")
_SAMPLE = struct.Struct(">III")
_MDAT = struct.Struct(">I4s")


def fragment_box(
    sequence: int, track_id: int, decode_time: int, samples: Sequence[Sample]
) -> bytes:
    """moof and mdat of one track's consecutive samples: the one thing here that is made often."""
    trun = 20 + _SAMPLE.size * len(samples)
    traf = 8 + 16 + 20 + trun
    moof = 8 + 16 + traf
    head = _HEAD.pack(
        *(moof, b"moof"),
        *(16, b"mfhd", 0, sequence),
        *(traf, b"traf"),
        *(16, b"tfhd", 0x020000, track_id),
        *(20, b"tfdt", 1 << 24, decode_time),
        *(trun, b"trun", 0x000701, len(samples), moof + _MDAT.size),
    )
    entries = [
        _SAMPLE.pack(s.duration, len(s.payload), 0x02000000 if s.keyframe else 0x01010000)
        for s in samples
    ]
    payloads = [s.payload for s in samples]
    mdat = _MDAT.pack(_MDAT.size + sum(map(len, payloads)), b"mdat")
    return b"".join((head, *entries, mdat, *payloads))
