"""HLS (RFC 8216) of one session: fMP4 segments of about a second, and the playlist of the newest.

Pure: media comes as it leaves, with the wall clock of its tick. Only the newest segments are kept.
A segment begins with a key frame; where none has come in time it begins without one, so that none
is longer than the playlist promises. Where no picture comes at all, sound goes on under the last
key frame, until there is another one.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from gateway.live.media import CHANNELS, LivePicture, LiveTick, PictureFormat
from gateway.playout.pacing import RATE_HZ, VIDEO_HZ, to_samples
from gateway.playout.sinks.fmp4 import (
    SOUND_TRACK,
    VIDEO_TRACK,
    Sample,
    fragment_box,
    init_segment,
)
from gateway.playout.sound import AacPacket

TARGET_S = 1
"""What the playlist promises: no segment lasts longer, rounded to whole seconds."""
_SHORTEST = VIDEO_HZ * 8 // 10
_LONGEST = VIDEO_HZ * 144 // 100
# A picture that is so late yet is shown from where it was due; one that is later has a stand-in.
_LATE = VIDEO_HZ * 8 // 10
LISTED = 6
_AAC_LC = "mp4a.40.2"
_CAPTIONS = (
    '#EXT-X-MEDIA:TYPE=CLOSED-CAPTIONS,GROUP-ID="cc",NAME="Captions",INSTREAM-ID="CC1",'
    "AUTOSELECT=YES"
)
# Numbers are small enough for players that count with 32 bits.
_NUMBERED_SINCE_S = 1_700_000_000
_MOST_A_SECOND = 2
# Behind those: for players that have read an older playlist.
_KEPT = LISTED + 6
# Sound that waits for pictures which do not come.
_MOST_PACKETS = 10 * RATE_HZ // 1024


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of the stream that is complete. begins_s: wall clock of its first picture."""

    number: int
    payload: bytes
    duration_s: float
    begins_s: float
    init: int
    """Which init segment it stands on."""
    discontinuity: bool
    """It does not go on where the one before ended."""


class Segmenter:
    """Cuts live media into segments, and writes the playlist of them.

    since_s: wall clock, by which they are numbered: in a gateway to which a session has gone, the
    numbers are behind all that its players, and what keeps segments for them, know by then.
    """

    def __init__(self, since_s: float = _NUMBERED_SINCE_S) -> None:
        self._segments: deque[Segment] = deque()
        self._inits: dict[int, bytes] = {}
        self._format: tuple[PictureFormat, bytes] | None = None
        self._pictures: list[LivePicture] = []
        self._keyframe: LivePicture | None = None
        self._stands_in = False
        """The last key frame is shown again, on which no other picture can follow."""
        self._sound: deque[AacPacket] = deque()
        self._begins_s = 0.0
        self._until = 0
        first = max(0, int(_MOST_A_SECOND * (since_s - _NUMBERED_SINCE_S)))
        self._numbers = self._versions = self._gone_discontinuities = first
        self._sequence = 0
        self._broken = False

    @property
    def complete(self) -> int:
        """How many segments there are to be had."""
        return len(self._segments)

    @property
    def wants_keyframe(self) -> bool:
        """Whether the next segment waits for one."""
        if not self._pictures or self._stands_in:
            return True
        return self._until - self._pictures[0].time >= _SHORTEST

    def restart(self) -> None:
        """What comes next does not go on from what was."""
        self._gone_discontinuities += sum(segment.discontinuity for segment in self._segments)
        self._segments.clear()
        self._inits.clear()
        self._pictures.clear()
        self._sound.clear()
        self._keyframe, self._stands_in = None, False
        self._format, self._broken = None, self._numbers > 0

    def take(self, live: LiveTick, now_s: float) -> bool:
        """What leaves at `now_s` of the wall clock; whether a segment is complete with it."""
        self._sound.extend(live.sound)
        while len(self._sound) > _MOST_PACKETS:
            self._sound.popleft()
        before = self._numbers
        for picture in live.pictures:
            self._take_picture(picture, live, now_s)
        self._until = live.until
        while self._pictures and self._until - self._pictures[0].time > _LONGEST + _LATE:
            self._stand_in()
        return self._numbers > before

    def payload(self, number: int) -> bytes | None:
        """A segment's bytes; None: it is not there (any more)."""
        found = (s.payload for s in self._segments if s.number == number)
        return next(found, None)

    def init(self, version: int) -> bytes | None:
        """An init segment; None: there is no such."""
        return self._inits.get(version)

    def index(self, playlist: str) -> str:
        """A multivariant playlist of one variant. playlist: where that is found."""
        sent = [8 * len(s.payload) / s.duration_s for s in self._segments] or [0.0]
        about = [f"BANDWIDTH={math.ceil(max(sent))}"]
        if self._format is not None:
            shown = self._format[0]
            profile = shown.sets.sps[1:4].hex().upper()
            about += [f'CODECS="avc1.{profile},{_AAC_LC}"']
            about += [f"RESOLUTION={shown.width}x{shown.height}", f"FRAME-RATE={shown.fps:.3f}"]
        about.append('CLOSED-CAPTIONS="cc"')
        variant = f"#EXT-X-STREAM-INF:{','.join(about)}"
        return "\n".join(("#EXTM3U", "#EXT-X-VERSION:7", _CAPTIONS, variant, playlist)) + "\n"

    def playlist(self) -> str:
        """The newest segments, for players."""
        listed = list(self._segments)[-LISTED:]
        gone = list(self._segments)[: -LISTED or None]
        discontinuities = self._gone_discontinuities + sum(s.discontinuity for s in gone)
        lines = [
            "#EXTM3U",
            "#EXT-X-VERSION:7",
            f"#EXT-X-TARGETDURATION:{TARGET_S}",
            f"#EXT-X-MEDIA-SEQUENCE:{listed[0].number if listed else self._numbers + 1}",
            f"#EXT-X-DISCONTINUITY-SEQUENCE:{discontinuities}",
        ]
        init = 0
        for segment in listed:
            if segment.discontinuity:
                lines.append("#EXT-X-DISCONTINUITY")
            if segment.init != init:
                init = segment.init
                lines.append(f'#EXT-X-MAP:URI="init-{init}.mp4"')
            date = datetime.fromtimestamp(segment.begins_s, UTC).isoformat(timespec="milliseconds")
            lines.append(f"#EXT-X-PROGRAM-DATE-TIME:{date}")
            lines.append(f"#EXTINF:{segment.duration_s:.5f},")
            lines.append(f"segment-{segment.number}.m4s")
        return "\n".join(lines) + "\n"

    # ------------------------------------------------------------ inside

    def _take_picture(self, picture: LivePicture, live: LiveTick, now_s: float) -> None:
        config = live.sound_config
        if not picture.keyframe and (not self._pictures or self._stands_in):
            return  # nobody could decode it
        time = picture.time
        if self._pictures:
            # Late ones, behind a stand-in, take next to no time: the others stay with their sound.
            begins, time = self._pictures[0].time, max(time, self._pictures[-1].time + 1)
            changed = self._format != (picture.format, config)
            if changed or time - begins >= (_SHORTEST if picture.keyframe else _LONGEST):
                time = min(time, begins + _LONGEST)
                self._cut(time)
        if self._format != (picture.format, config):
            self._begin_format(picture.format, config)
        if not self._pictures:
            self._begins_s = now_s - (live.until - time) / VIDEO_HZ
            if self._sequence == 0 or self._broken:
                # Of the sound before the first picture there is nothing to see.
                self._drop_sound(to_samples(time))
        self._pictures.append(replace(picture, time=time))
        if picture.keyframe:
            self._keyframe = replace(picture, payload=picture.bare)
            self._stands_in = False

    def _stand_in(self) -> None:
        """No picture has come for long: a segment ends, and another begins without waiting."""
        assert self._keyframe is not None
        end = self._pictures[0].time + _LONGEST
        self._cut(end)
        self._begins_s += _LONGEST / VIDEO_HZ
        self._pictures.append(replace(self._keyframe, time=end))
        self._stands_in = True

    def _begin_format(self, wanted: PictureFormat, config: bytes) -> None:
        self._broken = self._broken or self._format is not None
        self._format = (wanted, config)
        self._versions += 1
        self._inits[self._versions] = init_segment(
            wanted.sets, wanted.width, wanted.height, config, CHANNELS
        )
        needed = {self._versions} | {segment.init for segment in self._segments}
        for version in self._inits.keys() - needed:
            del self._inits[version]

    def _drop_sound(self, until_samples: int) -> None:
        while self._sound and self._sound[0].time_samples < until_samples:
            self._sound.popleft()

    def _cut(self, end: int) -> None:
        """The pictures so far, and the sound that goes with them, are a segment."""
        pictures, self._pictures = self._pictures, []
        sound = []
        while self._sound and self._sound[0].time_samples < to_samples(end):
            sound.append(self._sound.popleft())
        self._numbers += 1
        self._segments.append(
            Segment(
                self._numbers,
                self._fragments(pictures, sound, end),
                (end - pictures[0].time) / VIDEO_HZ,
                self._begins_s,
                self._versions,
                self._broken,
            )
        )
        self._broken = False
        while len(self._segments) > _KEPT:
            self._gone_discontinuities += self._segments.popleft().discontinuity

    def _fragments(
        self, pictures: Sequence[LivePicture], sound: Sequence[AacPacket], end: int
    ) -> bytes:
        """One fragment of each track."""
        times = [picture.time for picture in pictures] + [end]
        shown = [
            Sample(picture.payload, max(1, until - picture.time), picture.keyframe)
            for picture, until in zip(pictures, times[1:], strict=True)
        ]
        self._sequence += 1
        payload = fragment_box(self._sequence, VIDEO_TRACK, times[0], shown)
        if sound:
            self._sequence += 1
            heard = [Sample(packet.payload, packet.duration_samples) for packet in sound]
            payload += fragment_box(self._sequence, SOUND_TRACK, sound[0].time_samples, heard)
        return payload
