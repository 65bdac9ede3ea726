"""By a peer's sender reports a browser lays sound and picture of one moment together."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any
from unittest.mock import AsyncMock

import pytest
from aiortc import RTCConfiguration, RTCPeerConnection
from aiortc.rtp import RtcpReceiverInfo, RtcpRrPacket, RtcpSenderInfo, RtcpSrPacket

from gateway.playout.pacing import RATE_HZ, VIDEO_HZ
from gateway.playout.sinks.tracks import MediaClock, NamedTrack, TrackReports, report_media_time
from visavis.serving.aiortc_private.outgoing import Report, on_reports

SECOND = 1 << 32
BEGIN = 3_900_000_000 * SECOND
ORIGINS = {RATE_HZ: 4_294_960_000, VIDEO_HZ: 17}
"""The sound's RTP times wrap around within the first second."""


@dataclass
class Sent:
    time_origin: int
    media_time: int = 0


SENT = {rate_hz: Sent(origin) for rate_hz, origin in ORIGINS.items()}


def info(rate_hz: int, media_s: float, sent_s: float, packets: int = 1) -> Any:
    """As aiortc writes it: a packet of `media_s` happened to leave at `sent_s`."""
    SENT[rate_hz].media_time = round(media_s * rate_hz)
    rtp = (ORIGINS[rate_hz] + round(media_s * rate_hz)) % (1 << 32)
    return RtcpSenderInfo(BEGIN + round(sent_s * SECOND), rtp, packets, 100)


def moment(rate_hz: int, told: Any) -> float:
    """Media time that a report gives for the beginning, in seconds."""
    media = (told.rtp_timestamp - ORIGINS[rate_hz]) % (1 << 32) / rate_hz
    return media - (told.ntp_timestamp - BEGIN) / SECOND


@pytest.fixture
def tracks() -> dict[int, TrackReports]:
    clock = MediaClock()
    return {rate_hz: TrackReports(clock, rate_hz, sent) for rate_hz, sent in SENT.items()}


def test_pictures_that_leave_late_do_not_bend_their_tracks_line(
    tracks: dict[int, TrackReports],
) -> None:
    told: list[float] = []
    # (rate, media time of the newest packet, when it left): the pictures come late, then in bursts.
    for rate_hz, media_s, sent_s in [
        (RATE_HZ, 0.10, 0.00),
        (VIDEO_HZ, 0.09, 0.02),
        (VIDEO_HZ, 0.12, 0.62),
        (RATE_HZ, 0.90, 0.80),
        (VIDEO_HZ, 0.50, 0.81),
        (RATE_HZ, 1.70, 1.93),
        (VIDEO_HZ, 2.00, 1.93),
    ]:
        made = info(rate_hz, media_s, sent_s)
        assert tracks[rate_hz].correct(made)
        told.append(moment(rate_hz, made))
    assert told == pytest.approx([0.10] * len(told), abs=3e-5)


@pytest.mark.parametrize("hours", [14, 25])
@pytest.mark.parametrize("first", [RATE_HZ, VIDEO_HZ])
def test_who_joins_a_session_of_many_hours_has_them_together(
    tracks: dict[int, TrackReports], hours: int, first: int
) -> None:
    """RTP times of pictures wrap around after 13 hours, those of sound after 25."""
    (second,) = {RATE_HZ, VIDEO_HZ} - {first}
    began_s = 3600.0 * hours
    for rate_hz, sent_s in ((first, 0.0), (second, 0.5), (first, 1.0)):
        made = info(rate_hz, began_s + sent_s, sent_s)
        assert tracks[rate_hz].correct(made)
        wraps_s = (1 << 32) / rate_hz
        assert moment(rate_hz, made) % wraps_s == pytest.approx(began_s % wraps_s, abs=1e-3)


def test_a_wrong_report_is_worse_than_none(tracks: dict[int, TrackReports]) -> None:
    assert not tracks[RATE_HZ].correct(info(RATE_HZ, 0.1, 0.0, packets=0)), "nothing has left yet"


@pytest.mark.asyncio
async def test_reports_are_corrected_on_their_way_out() -> None:
    """aiortc's name is private: should it change, its own reports would go out again."""
    pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    sender: Any = pc.addTrack(NamedTrack("audio"))
    sent: list[Any] = []

    async def note(packets: list[Any]) -> None:
        sent.extend(packets)

    sender._send_rtcp = note
    report_media_time(sender, TrackReports(MediaClock(), RATE_HZ, SENT[RATE_HZ]))
    await sender._send_rtcp([RtcpSrPacket(1, info(RATE_HZ, 0.0, 0.0, packets=0))])
    assert not sent, "no packet has left"
    for media_s, sent_s in ((0.1, 0.0), (0.1, 0.5)):
        await sender._send_rtcp([RtcpSrPacket(1, info(RATE_HZ, media_s, sent_s))])
    await sender._send_rtcp(["another kind"])
    *reports, other = sent
    assert [moment(RATE_HZ, r.sender_info) for r in reports] == pytest.approx([0.1, 0.1], abs=3e-5)
    assert other == "another kind"
    await pc.close()


async def test_a_round_trip_is_measured_right_though_the_clock_is_set_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sender: Any = AsyncMock(_ssrc=7)
    told: list[Report] = []
    on_reports(sender, told.append)
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    sent = info(VIDEO_HZ, 1.0, 1.0)
    await sender._send_rtcp([RtcpSrPacket(7, sent)])
    monkeypatch.setattr(time, "monotonic", lambda: 100.75)
    monkeypatch.setattr(time, "time", lambda: -3600.0)
    last, half_a_second = sent.ntp_timestamp >> 16 & 0xFFFFFFFF, 1 << 15
    known = RtcpReceiverInfo(7, 0, 0, 99, 0, last, half_a_second)
    await sender._handle_rtcp_packet(RtcpRrPacket(8, [known]))
    assert [report.round_trip_s for report in told] == [0.25]
