"""Encoded packets on their way to one browser, and which sound belongs to which picture.

The latter is what RTCP sender reports tell a browser: each pairs a wall clock time with an RTP time
(RFC 3550, 6.4.1). A browser draws a line through the reports of each track and plays together what
the lines put at one time. aiortc pairs the newest packet's RTP time with the moment at which that
packet happened to leave: pictures that leave late, as after a stall, or early, bend the line of
their track, and for seconds the browser keeps sound and picture that much apart. Ours come from one
clock, media time, so all lines are one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

from aiortc import MediaStreamTrack, RTCPeerConnection, RTCRtpSender
from aiortc.mediastreams import MediaStreamError

from gateway.playout.pacing import RATE_HZ, VIDEO_HZ
from visavis.serving.aiortc_private import outgoing

_NTP_SECOND = 1 << 32
_WRAP = 1 << 32


class Way(Protocol):
    """What packets leave by: `visavis.serving.aiortc_private.outgoing.PacketSender`."""

    @property
    def ready(self) -> bool:
        """Whether packets can leave."""

    @property
    def blocked(self) -> bool:
        """Whether so much waits for the network that more would be sent too late."""

    @property
    def octets(self) -> int:
        """How much has left."""

    def send(self, encoded: Any, *, again: bool = False, keyframe: bool = False) -> None:
        """Send a packet (av.Packet) at once. again: once more a little later. keyframe: pictures
        before it are not sent again.
        """


class Sent(Protocol):
    """What has left; the same class again."""

    @property
    def time_origin(self) -> int:
        """RTP time of media time 0."""

    @property
    def media_time(self) -> int:
        """Of the newest packet, in units of its RTP clock. It may have been going for a day."""


class PassTrack:
    """Sends encoded packets as they are; what a slow connection loses is lost up to a key frame.

    on_drop: called when something is lost, once for each row of it.
    """

    def __init__(
        self, kind: Literal["audio", "video"], way: Way, on_drop: Callable[[], None]
    ) -> None:
        self.kind = kind
        self.dropped = 0
        self._way = way
        self._on_drop = on_drop
        self._needs_keyframe = kind == "video"
        self._losing = False

    @property
    def octets(self) -> int:
        """How much has left."""
        return self._way.octets

    def wait_for_keyframe(self) -> None:
        """Send nothing before the next one, and have it made: the rest could not be shown."""
        if not self._needs_keyframe:
            self._needs_keyframe = True
            self._on_drop()

    def send(self, packet: Any, *, keyframe: bool = True, again: bool = False) -> bool:
        """Send one packet, an av.Packet in media time; whether it has left. Never waits.

        again: of sound, it leaves a second time, for a network that loses some.
        """
        if not self._way.ready or (self._needs_keyframe and not keyframe):
            return False
        if self._way.blocked:
            self.dropped += 1
            self._needs_keyframe = self.kind == "video"
            if not self._losing:
                self._losing = True
                self._on_drop()
            return False
        self._needs_keyframe = self._losing = False
        self._way.send(packet, again=again, keyframe=keyframe and self.kind == "video")
        return True


class NamedTrack(MediaStreamTrack):
    """What the session description says of a track whose packets leave by themselves."""

    def __init__(self, kind: Literal["audio", "video"]) -> None:
        super().__init__()
        self.kind = kind

    async def recv(self) -> Any:
        """Nothing comes from here. Raises MediaStreamError."""
        raise MediaStreamError


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
    """Corrects a track's reports. Its RTP time is media time."""

    def __init__(self, clock: MediaClock, rate_hz: int, sent: Sent) -> None:
        self._clock = clock
        self._rate_hz = rate_hz
        self._sent = sent

    def correct(self, info: Any) -> bool:
        """Put a report's RTP time where its wall clock time lies in media time.

        info: aiortc's RtcpSenderInfo of the newest packet that has left, changed in place. False:
        not to be sent, it would be wrong.
        """
        if not info.packet_count:
            return False
        time = self._clock.at(info.ntp_timestamp, self._sent.media_time, self._rate_hz)
        info.rtp_timestamp = (self._sent.time_origin + time) % _WRAP
        return True


def report_media_time(sender: RTCRtpSender, reports: TrackReports) -> None:
    """Correct the sender's reports on their way out."""
    outgoing.correct_reports(sender, reports.correct)


_RATES_HZ: dict[Literal["audio", "video"], int] = {"audio": RATE_HZ, "video": VIDEO_HZ}


def add_pass_track(
    pc: RTCPeerConnection,
    kind: Literal["audio", "video"],
    clock: MediaClock,
    on_drop: Callable[[], None],
    on_lost_picture: Callable[[], None],
) -> PassTrack:
    """A track of a connection that sends encoded packets as they are, in session media time.

    clock: of all tracks of the connection. on_lost_picture: the other side wants a key frame.
    """
    sender = pc.addTrack(NamedTrack(kind))
    way = outgoing.PacketSender(sender)
    report_media_time(sender, TrackReports(clock, _RATES_HZ[kind], way))
    if kind == "video":
        outgoing.on_lost_picture(sender, on_lost_picture)
    return PassTrack(kind, way, on_drop)
