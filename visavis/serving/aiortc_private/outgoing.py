"""Packets that leave over WebRTC at the moment at which they are made, and reports about them."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any

import av
from aiortc import RTCRtpSender
from aiortc.codecs import get_encoder
from aiortc.rtcdtlstransport import State
from aiortc.rtp import (
    RTP_HISTORY_SIZE,
    HeaderExtensions,
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
_NTP_EPOCH_S = 2_208_988_800
"""From 1900 to 1970."""


def on_lost_picture(sender: RTCRtpSender, act: Callable[[], None]) -> None:
    """Have `act` called where a browser asks for a key frame; aiortc forces its own encoder."""
    sender._send_keyframe = act  # type: ignore[method-assign]


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

    def put(self, sequence_number: int, packet: bytes) -> None:
        self._kept[sequence_number % RTP_HISTORY_SIZE] = packet

    def get(self, index: int) -> RtpPacket | None:
        packet = self._kept[index]
        return RtpPacket.parse(packet, self._extensions) if packet else None


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
        self._octets = self._packets = 0
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

    def send(self, encoded: av.Packet[Any], *, level_dbov: int | None = None) -> None:
        """Send what is in `encoded`, in as many packets as it needs; never waits.

        Where the connection is gone, nothing is sent. Its pts is in the units of its RTP clock.
        level_dbov: of sound, how far below the loudest (RFC 6464), for who wants to be told.
        """
        sender, dtls, pair = self._sender, self._sender.transport, self._pair
        if pair is None or dtls._state is not State.CONNECTED:
            return
        if sender.kind == "audio":
            payloads, media_time = [bytes(encoded)], encoded.pts or 0
        else:
            payloads, media_time = self._encoder.pack(encoded)
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
        self._octets += sum(map(len, payloads))
        self._packets += len(payloads)
        for owner, name, told in (
            (sender, NTP_TIME, now_ntp),
            (sender, RTP_TIME, rtp_time),
            (sender, OCTETS, self._octets),
            (sender, PACKETS, self._packets),
            (dtls, OUT_BYTES, getattr(dtls, OUT_BYTES) + sent_bytes),
            (dtls, OUT_PACKETS, getattr(dtls, OUT_PACKETS) + len(payloads)),
        ):
            setattr(owner, name, told)

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
    """The wall clock, 32.32 bits of seconds since 1900 (RFC 5905); aiortc goes by dates."""
    return (_NTP_EPOCH_S << 32) + (time.time_ns() << 32) // 1_000_000_000
