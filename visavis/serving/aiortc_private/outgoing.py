"""Packets that leave over WebRTC at the moment at which they are made, and reports about them."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import av
from aiortc import RTCRtpSender
from aiortc.codecs import get_encoder
from aiortc.rtcdtlstransport import State
from aiortc.rtp import (
    RTP_HISTORY_SIZE,
    HeaderExtensions,
    RtcpReceiverInfo,
    RtcpRrPacket,
    RtcpSenderInfo,
    RtcpSrPacket,
    RtpPacket,
)

from visavis.serving.aiortc_private.known import (
    EXITED,
    EXTENSION_HEAD,
    EXTENSIONS,
    HISTORY,
    MID,
    NTP_TIME,
    OCTETS,
    OUT_BYTES,
    OUT_PACKETS,
    PACKETS,
    RTP_HEAD,
    RTP_TIME,
    STARTED,
)

# So much may wait for a connection that takes nothing: about a second of pictures.
_BACKLOG_BYTES = 150_000
# Behind so many others a packet of sound leaves once more: a row of lost ones is mostly over then.
# The page waits as long for it (gateway/static/live_sound_worker.js).
_AGAIN_BEHIND = 2
# Of what has left, so much may be sent again where a browser asks for it, and so much at once.
_AGAIN_SHARE, _MOST_AGAIN_BYTES = 0.2, 20_000
_NTP_EPOCH_S = 2_208_988_800
"""From 1900 to 1970."""
_UNIX_ORIGIN_NS = time.time_ns() - time.monotonic_ns()


def on_lost_picture(sender: RTCRtpSender, act: Callable[[], None]) -> None:
    """Have `act` called where a browser asks for a key frame; aiortc forces its own encoder."""
    sender._send_keyframe = act  # type: ignore[method-assign]


@dataclass(frozen=True, slots=True)
class Report:
    """What the other side tells of a track that it receives (RFC 3550, 6.4.1)."""

    lost_share: float
    """Of the packets since it last told, 0 to 1."""
    lost: int
    """Packets, of all up to now."""
    highest: int
    """Sequence number that came, not wrapped around: as many packets were sent."""
    round_trip_s: float | None
    """From here to there and back; None: that is not known."""


def on_reports(sender: RTCRtpSender, told: Callable[[Report], None]) -> None:
    """Have what the other side reports of a track handed on."""
    handle, send = sender._handle_rtcp_packet, sender._send_rtcp
    last_sent = (0, 0.0)

    async def note(packets: list[Any]) -> None:
        nonlocal last_sent
        for packet in packets:
            if isinstance(packet, RtcpSrPacket):
                middle = packet.sender_info.ntp_timestamp >> 16 & 0xFFFFFFFF
                last_sent = (middle, time.monotonic())
        await send(packets)

    async def hand_on(packet: Any) -> None:
        if isinstance(packet, RtcpRrPacket | RtcpSrPacket):
            for report in packet.reports:
                if report.ssrc == sender._ssrc:
                    told(_report(report, *last_sent))
        await handle(packet)

    sender._send_rtcp = note  # type: ignore[method-assign]
    sender._handle_rtcp_packet = hand_on  # type: ignore[method-assign]


def _report(told: RtcpReceiverInfo, last_sent: int, sent_at_s: float) -> Report:
    """last_sent: what our last report is known by (RFC 3550, 6.4.1: LSR)."""
    round_trip_s = None
    if told.dlsr and told.lsr == last_sent:
        round_trip_s = time.monotonic() - sent_at_s - told.dlsr / 65536
    return Report(told.fraction_lost / 256, told.packets_lost, told.highest_sequence, round_trip_s)


def correct_reports(sender: RTCRtpSender, correct: Callable[[RtcpSenderInfo], bool]) -> None:
    """Have a sender's reports corrected on their way out; False: not to be sent."""
    send = sender._send_rtcp

    async def send_corrected(packets: list[Any]) -> None:
        told = [p for p in packets if isinstance(p, RtcpSrPacket)]
        if all(correct(p.sender_info) for p in told):
            await send(packets)

    sender._send_rtcp = send_corrected  # type: ignore[method-assign]


class _SentPackets:
    """Those that a browser may ask for again, as aiortc looks for them."""

    def __init__(self, extensions: Any) -> None:
        self._extensions = extensions
        self._kept: list[bytes] = [b""] * RTP_HISTORY_SIZE
        self.spare_bytes = float(_MOST_AGAIN_BYTES)
        """May be sent again now: a network that is too narrow loses it once more, and so on."""

    def put(self, sequence_number: int, packet: bytes) -> None:
        self._kept[sequence_number % RTP_HISTORY_SIZE] = packet
        spare = self.spare_bytes + _AGAIN_SHARE * len(packet)
        self.spare_bytes = min(spare, _MOST_AGAIN_BYTES)

    def get(self, index: int) -> RtpPacket | None:
        packet = self._kept[index]
        if not packet or len(packet) > self.spare_bytes:
            return None
        self.spare_bytes -= len(packet)
        return RtpPacket.parse(packet, self._extensions)

    def forget(self) -> None:
        """Nobody needs them any more: what follows stands on its own."""
        self._kept = [b""] * RTP_HISTORY_SIZE


class PacketSender:
    """Sends a track's encoded packets at the moment at which they are handed to it.

    In place of aiortc's own loop, which waits for a track in a task of its own and makes an object
    of each packet: that is most of what a packet costs. Retransmission and reports stay aiortc's.
    """

    def __init__(self, sender: RTCRtpSender) -> None:
        self._sender = sender
        self._codec: Any = None
        self._encoder: Any = None
        self._sequence_number = secrets.randbelow(1 << 15)  # as SRTP wants it: far from its end
        self.octets = 0
        """Of all that has left, without headers."""
        self._packets = 0
        self._later = deque[bytes]()
        """Sound that may have to leave once more, the oldest first."""
        self._history = _SentPackets(getattr(sender, EXTENSIONS))
        self.time_origin = secrets.randbits(32)
        """RTP time of media time 0."""
        self.media_time = 0
        """Of the newest packet, in units of its RTP clock; it does not wrap around."""
        setattr(sender, HISTORY, self._history)
        sender._run_rtp = self._run  # type: ignore[method-assign]

    @property
    def ready(self) -> bool:
        """Whether packets can leave."""
        return self._codec is not None and self._sender.transport._state is State.CONNECTED

    @property
    def blocked(self) -> bool:
        """Whether so much waits for the network that more would be sent too late."""
        pair = self._pair
        waiting = getattr(pair and pair.protocol.transport, "get_write_buffer_size", None)
        return waiting is not None and waiting() > _BACKLOG_BYTES

    def send(
        self,
        encoded: av.Packet[Any],
        *,
        level_dbov: int | None = None,
        again: bool = False,
        keyframe: bool = False,
    ) -> None:
        """Send what is in `encoded`, in as many packets as it needs; never waits.

        Where the connection is gone, nothing is sent. Its pts is in the units of its RTP clock.
        level_dbov: of sound, how far below the loudest (RFC 6464), for who wants to be told.
        again: of sound, it leaves once more a little later. Who had it knows the copy by its number
        (RFC 3711, 3.3.2: a replay). keyframe: nothing before it is asked for any more.
        """
        sender, dtls, pair = self._sender, self._sender.transport, self._pair
        if pair is None or dtls._state is not State.CONNECTED:
            return
        if sender.kind == "audio":
            payloads, media_time = [bytes(encoded)], encoded.pts or 0
        else:
            payloads, media_time = self._encoder.pack(encoded)
        if keyframe:
            self._history.forget()
        self.media_time = media_time
        rtp_time = (self.time_origin + media_time) % (1 << 32)
        now_ntp = _ntp_now()
        # All of it once: each packet by itself would go through six calls of aiortc and aioice.
        protect, send = dtls._tx_srtp.protect, pair.protocol.transport.sendto
        address = pair.remote_addr
        sent_bytes = 0
        extensions = self._extensions(now_ntp, level_dbov)
        for packet in self._packets_of(payloads, rtp_time, extensions):
            protected = protect(packet)
            send(protected, address)
            sent_bytes += len(protected)
            if sender.kind == "audio":
                for copy in self._due_again(protected if again else b""):
                    send(copy, address)
                    sent_bytes += len(copy)
        self.octets += sum(map(len, payloads))
        self._packets += len(payloads)
        for owner, name, told in (
            (sender, NTP_TIME, now_ntp),
            (sender, RTP_TIME, rtp_time),
            (sender, OCTETS, self.octets),
            (sender, PACKETS, self._packets),
            (dtls, OUT_BYTES, getattr(dtls, OUT_BYTES) + sent_bytes),
            (dtls, OUT_PACKETS, getattr(dtls, OUT_PACKETS) + len(payloads)),
        ):
            setattr(owner, name, told)

    def _due_again(self, newest: bytes) -> Iterable[bytes]:
        """What leaves once more behind this packet; b"": which will not itself."""
        self._later.append(newest)
        if len(self._later) > _AGAIN_BEHIND and (due := self._later.popleft()):
            yield due

    @property
    def _pair(self) -> Any:
        """The two addresses between which packets travel now; None: the connection is gone."""
        return self._sender.transport.transport._connection._nominated.get(1)

    def _extensions(self, now_ntp: int, level_dbov: int | None) -> bytes:
        """Those of a packet's header that is sent now; empty: the browser wants none."""
        told = HeaderExtensions(
            abs_send_time=(now_ntp >> 14) & 0xFFFFFF,
            mid=getattr(self._sender, MID),
            audio_level=None if level_dbov is None else (False, level_dbov),
        )
        profile, value = getattr(self._sender, EXTENSIONS).set(told)
        return EXTENSION_HEAD.pack(profile, len(value) >> 2) + value if value else b""

    def _packets_of(
        self, payloads: list[bytes], rtp_time: int, extensions: bytes
    ) -> Iterator[bytes]:
        """RTP packets (RFC 3550, 5.1) with these payloads, numbered, and kept to be sent again."""
        first, kind = 0x90 if extensions else 0x80, self._codec.payloadType
        for left, payload in zip(range(len(payloads), 0, -1), payloads, strict=True):
            number, marker = self._sequence_number, 0x80 if left == 1 else 0
            head = RTP_HEAD.pack(first, marker | kind, number, rtp_time, self._sender._ssrc)
            packet = head + extensions + payload
            self._history.put(number, packet)
            self._sequence_number = (number + 1) % (1 << 16)
            yield packet

    async def _run(self, codec: Any) -> None:
        """What aiortc starts and cancels as its own loop."""
        self._encoder = get_encoder(codec)
        self._codec = codec
        getattr(self._sender, STARTED).set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self._codec = None
            getattr(self._sender, EXITED).set()


def _ntp_now() -> int:
    """32.32 bits of seconds since 1900 (RFC 5905). They go on as they began where the wall clock is
    set: by them browsers lay sound and picture together.
    """
    unix_ns = _UNIX_ORIGIN_NS + time.monotonic_ns()
    return (_NTP_EPOCH_S << 32) + (unix_ns << 32) // 1_000_000_000
