"""Tracks of encoded packets as aiortc sends them, and which sound belongs to which picture.

The latter is what RTCP sender reports tell a browser: each pairs a wall clock time with an RTP time
(RFC 3550, 6.4.1). A browser draws a line through the reports of each track and plays together what
the lines put at one time. aiortc pairs the newest packet's RTP time with the moment at which that
packet happened to leave: pictures that leave late, as after a stall, or early, bend the line of
their track, and for seconds the browser keeps sound and picture that much apart. Ours come from one
clock, media time, so all lines are one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Literal

from aiortc import MediaStreamTrack, RTCRtpSender
from aiortc.mediastreams import MediaStreamError

from visavis.serving import aiortc_private

# Half a second waits for a slow connection, then it loses up to the next key frame.
SOUND_LIMIT = 25
PICTURE_LIMIT = 25

_NTP_SECOND = 1 << 32
_WRAP = 1 << 32


class PassTrack(MediaStreamTrack):
    """Hands encoded packets to the RTP sender; bounded, and whole up to the next key frame."""

    def __init__(self, kind: Literal["audio", "video"], on_drop: Callable[[], None]) -> None:
        super().__init__()
        self.kind = kind
        self.dropped = 0
        self._on_drop = on_drop
        self._needs_keyframe = kind == "video"
        self._limit = PICTURE_LIMIT if kind == "video" else SOUND_LIMIT
        self._packets: deque[Any] = deque()
        self._arrived = asyncio.Event()
        self._taken: int | None = None
        self.left: int | None = None
        """Media time of the newest packet that has left; None while one may be leaving."""

    def queue(self, packet: Any, *, keyframe: bool = True) -> None:
        """Queue one packet. Never waits."""
        if self.readyState != "live" or (self._needs_keyframe and not keyframe):
            return
        if len(self._packets) >= self._limit:
            self.dropped += len(self._packets)
            self._packets.clear()
            self._needs_keyframe = self.kind == "video"
            self._on_drop()
            if self._needs_keyframe and not keyframe:
                return
        self._needs_keyframe = False
        self._packets.append(packet)
        self._arrived.set()

    def drop_waiting(self) -> None:
        """What waits is void: a slow connection must not play it after the fact."""
        self.dropped += len(self._packets)
        self._packets.clear()

    async def recv(self) -> Any:
        """Next packet, once there is one; the one before has left. Raises MediaStreamError at the
        end.
        """
        self.left = self._taken
        while not self._packets:
            if self.readyState != "live":
                raise MediaStreamError
            self._arrived.clear()
            await self._arrived.wait()
        packet = self._packets.popleft()
        self.left, self._taken = None, packet.pts
        return packet

    def stop(self) -> None:
        super().stop()
        self._arrived.set()


class MediaClock:
    """Says where a peer's media time lies on the wall clock: the first report says."""

    def __init__(self) -> None:
        self._zero_ntp: int | None = None

    def at(self, ntp: int, media_time: int, rate_hz: int) -> int:
        """Media time at `ntp` (32.32 bits), in units of `rate_hz`.

        media_time: of what leaves at `ntp`, about; used the first time only.
        """
        if self._zero_ntp is None:
            self._zero_ntp = ntp - media_time * _NTP_SECOND // rate_hz
        return (ntp - self._zero_ntp) * rate_hz // _NTP_SECOND


class TrackReports:
    """Corrects a track's reports. Its RTP time is media time, from an origin that aiortc draws."""

    def __init__(self, clock: MediaClock, rate_hz: int) -> None:
        self._clock = clock
        self._rate_hz = rate_hz
        self._origin: int | None = None

    def correct(self, info: Any, left: int | None) -> bool:
        """Put a report's RTP time where its wall clock time lies in media time.

        info: aiortc's RtcpSenderInfo, changed in place; left: media time of the newest packet
        that has left, None while another may be leaving. False: not to be sent, it would be wrong.
        """
        if not info.packet_count:
            return False
        if left is not None:
            self._origin = (info.rtp_timestamp - left) % _WRAP
        if self._origin is None:
            return False
        media_time = (info.rtp_timestamp - self._origin) % _WRAP
        time = self._clock.at(info.ntp_timestamp, media_time, self._rate_hz)
        info.rtp_timestamp = (self._origin + time) % _WRAP
        return True


def report_media_time(sender: RTCRtpSender, track: PassTrack, reports: TrackReports) -> None:
    """Correct the sender's reports on their way out."""
    aiortc_private.correct_reports(sender, lambda info: reports.correct(info, track.left))
