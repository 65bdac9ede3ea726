"""What RTCP sender reports tell a browser: which sound belongs to which picture.

A report pairs a wall clock time with an RTP time (RFC 3550, 6.4.1). A browser draws a line through
the reports of each track and plays together what the lines put at one time. aiortc pairs the
newest packet's RTP time with the moment at which that packet happened to leave: pictures that leave
late, as after a stall, or early, bend the line of their track, and for seconds the browser keeps
sound and picture that much apart. Ours come from one clock, media time, so all lines are one.
"""

from __future__ import annotations

from typing import Any

_NTP_SECOND = 1 << 32
_WRAP = 1 << 32


class MediaClock:
    """Where one peer's media time lies on the wall clock. Set by its first report, for good."""

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
    """One track's reports. Its RTP time is its media time, from an origin that aiortc draws."""

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
