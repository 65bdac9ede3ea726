"""Everything of aiortc that visavis uses without its being public, in one place.

aiortc's public interface plays and records media; it does not say when a browser has lost the
picture, what its reports tell, hand on a packet as it comes in, or send one as it is made. Whatever
is private may be otherwise in the next version: `check` looks at all of it before anything is
served, and pyproject.toml allows no version that was not tried.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import secrets
import struct
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from types import CodeType
from typing import Any

import aioice
import av
import pylibsrtp
from aiortc import RTCIceTransport, RTCRtpReceiver, RTCRtpSender, clock
from aiortc.codecs import get_decoder, get_encoder
from aiortc.codecs.opus import OpusDecoder
from aiortc.jitterbuffer import JitterFrame
from aiortc.rtcdtlstransport import RTCDtlsTransport, RtpRouter, State
from aiortc.rtcrtpreceiver import StreamStatistics, TimestampMapper
from aiortc.rtp import (
    RTP_HISTORY_SIZE,
    HeaderExtensions,
    RtcpSenderInfo,
    RtcpSrPacket,
    RtpPacket,
    is_rtcp,
)

from visavis.serving.errors import VisavisError

log = logging.getLogger(__name__)

_CODECS = "_RTCRtpReceiver__codecs"
_STREAMS = "_RTCRtpReceiver__remote_streams"
_STARTED = "_RTCRtpSender__rtp_started"
_EXITED = "_RTCRtpSender__rtp_exited"
_HISTORY = "_RTCRtpSender__rtp_history"
_EXTENSIONS = "_RTCRtpSender__rtp_header_extensions_map"
_MID = "_RTCRtpSender__mid"
_NTP_TIME = "_RTCRtpSender__ntp_timestamp"
_RTP_TIME = "_RTCRtpSender__rtp_timestamp"
_OCTETS = "_RTCRtpSender__octet_count"
_PACKETS = "_RTCRtpSender__packet_count"
_IN_BYTES = "_RTCDtlsTransport__rx_bytes"
_IN_PACKETS = "_RTCDtlsTransport__rx_packets"
_OUT_BYTES = "_RTCDtlsTransport__tx_bytes"
_OUT_PACKETS = "_RTCDtlsTransport__tx_packets"
_OF_SENDING = (_STARTED, _EXITED, _HISTORY, _EXTENSIONS, _MID, _NTP_TIME, _RTP_TIME, _OCTETS)

# Class, its function, the function's parameters, and private names that it has to mention.
_EXPECTED: tuple[tuple[type, str, tuple[str, ...], tuple[str, ...]], ...] = (
    (RTCRtpSender, "_send_keyframe", (), ()),
    (RTCRtpSender, "_handle_rtcp_packet", ("packet",), ("_send_keyframe",)),
    (RTCRtpSender, "_send_rtcp", ("packets",), ()),
    (RTCRtpSender, "_run_rtcp", (), ("_send_rtcp", _NTP_TIME, _RTP_TIME, _OCTETS, _PACKETS)),
    (RTCRtpSender, "send", ("parameters",), ("_run_rtp",)),
    (RTCRtpSender, "stop", (), (_STARTED, _EXITED)),
    (RTCRtpSender, "_run_rtp", ("codec",), (*_OF_SENDING, _PACKETS, "_ssrc")),
    (RTCRtpSender, "_retransmit", ("sequence_number",), (_HISTORY, "_send_rtp")),
    (
        RTCDtlsTransport,
        "_send_rtp",
        ("data",),
        ("_state", "_tx_srtp", "protect", "_send", _OUT_BYTES, _OUT_PACKETS),
    ),
    (RTCIceTransport, "__init__", ("gatherer",), ("_connection", "_send")),
    (aioice.Connection, "sendto", ("data", "component"), ("_nominated", "protocol", "remote_addr")),
    (aioice.ice.StunProtocol, "send_data", ("data", "addr"), ("transport", "sendto")),
    (RTCRtpReceiver, "receive", ("parameters",), (_CODECS,)),
    (RTCRtpReceiver, "_run_rtcp", (), (_STREAMS,)),
    (
        RTCRtpReceiver,
        "_handle_rtp_packet",
        ("packet", "arrival_time_ms"),
        ("_enabled", _CODECS, _STREAMS),
    ),
    (StreamStatistics, "__init__", ("clockrate",), ()),
    (StreamStatistics, "add", ("packet",), ("sequence_number", "timestamp")),
    (TimestampMapper, "map", ("timestamp",), ()),
    (
        RTCDtlsTransport,
        "_handle_rtp_data",
        ("data", "arrival_time_ms"),
        ("_rtp_router", "route_rtp", "_handle_rtp_packet"),
    ),
    (RtpRouter, "route_rtp", ("packet",), ("ssrc_table",)),
    (RTCDtlsTransport, "_handle_rtcp_data", ("data",), ("_handle_rtcp_packet",)),
    (
        RTCDtlsTransport,
        "_recv_next",
        (),
        (
            *("_recv", _IN_BYTES, _IN_PACKETS, "_rx_srtp", "unprotect", "unprotect_rtcp"),
            *("_handle_rtp_data", "_handle_rtcp_data", "current_ms"),
        ),
    ),
    (RTCDtlsTransport, "_set_state", ("state",), ("_state",)),
    (aioice.Connection, "close", (), ("_protocols",)),
    (aioice.ice.StunProtocol, "datagram_received", ("data", "addr"), ("data_received",)),
    (OpusDecoder, "__init__", (), ("codec", "layout")),
    (JitterFrame, "__init__", ("data", "timestamp"), ()),
)


_RTP_HEAD = struct.Struct("!BBHLL")


class AiortcChangedError(VisavisError):
    """The installed aiortc is not the one that we know inside."""


def check() -> None:
    """Raises AiortcChangedError where anything that is used here is not as it was."""
    changed = list(_changed())
    if changed:
        raise AiortcChangedError(
            f"aiortc {version('aiortc')} is not one that visavis can work with: "
            f"{', '.join(changed)} changed; install a version that visavis asks for: "
            "pip install -e '.[gateway]'"
        )


def _changed() -> Iterator[str]:
    for owner, name, parameters, mentioned in _EXPECTED:
        found = inspect.getattr_static(owner, name, None)
        if not inspect.isfunction(found):
            yield f"{owner.__name__}.{name}"
        elif tuple(inspect.signature(found).parameters) != ("self", *parameters):
            yield f"{owner.__name__}.{name}{inspect.signature(found)}"
        elif missing := set(mentioned) - _names(found.__code__):
            yield f"{owner.__name__}.{name} (no {', '.join(sorted(missing))})"


def _names(code: CodeType) -> set[str]:
    """Attributes that a function reads and sets."""
    return set(code.co_names)


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


# ------------------------------------------------------------ receiving


def take_packets(receiver: RTCRtpReceiver, take: Callable[[RtpPacket], Awaitable[None]]) -> None:
    """Have `take` given every packet as it comes in; the receiver itself gets none."""

    async def handle(packet: RtpPacket, arrival_time_ms: int) -> None:
        await take(packet)

    receiver._handle_rtp_packet = handle  # type: ignore[method-assign]


@dataclass(slots=True)
class SoundPacket:
    """An RTP packet of sound. payload: what is to be decoded; empty: padding alone."""

    sequence_number: int
    timestamp: int
    ssrc: int
    payload: bytes


class SoundIntake:
    """Decodes a receiver's packets of sound as they come in; its track gets none.

    aiortc holds packets back until their order is sure, and decodes in a thread, so that each
    frame wakes the event loop once more. A packet of sound is decoded in less time than that
    takes. Make it before anything is received. What it has come to is counted for aiortc's reports.

    wanted: told each packet as it comes; False: it is not to be decoded.
    take: given each decoded frame; its pts begins at 0, in samples.
    """

    def __init__(
        self,
        receiver: RTCRtpReceiver,
        wanted: Callable[[SoundPacket], bool],
        take: Callable[[av.AudioFrame], None],
    ) -> None:
        self._receiver = receiver
        self._wanted = wanted
        self._take = take
        self._codecs: dict[int, Any] = getattr(receiver, _CODECS)
        self._streams: dict[int, StreamStatistics] = getattr(receiver, _STREAMS)
        self._times = TimestampMapper()
        self._decodes = ""
        self._decoder: Any = None
        receiver._handle_rtp_packet = self._handle  # type: ignore[method-assign]

    @staticmethod
    def of(receiver: Any) -> SoundIntake | None:
        """The one that takes what a receiver is sent; None: aiortc does, or a `take_packets`."""
        owner = getattr(getattr(receiver, "_handle_rtp_packet", None), "__self__", None)
        return owner if isinstance(owner, SoundIntake) else None

    async def _handle(self, packet: RtpPacket, arrival_time_ms: int) -> None:
        """What aiortc has found out to be the receiver's."""
        number, at = packet.sequence_number, packet.timestamp
        self.add(packet.payload_type, SoundPacket(number, at, packet.ssrc, packet.payload))

    def add(self, payload_type: int, packet: SoundPacket) -> None:
        """A packet for the receiver has come in."""
        codec = self._codecs.get(payload_type)
        if codec is None or not self._receiver._enabled:
            return
        stream = self._streams.get(packet.ssrc)
        if stream is None:
            stream = self._streams[packet.ssrc] = StreamStatistics(codec.clockRate)
        stream.add(packet)  # type: ignore[arg-type]  # it looks at number and time alone
        # Without sound in it, a decoder would take it for the end of the stream.
        if self._wanted(packet) and packet.payload:
            self._decode(codec, JitterFrame(packet.payload, self._times.map(packet.timestamp)))

    def _decode(self, codec: Any, encoded: JitterFrame) -> None:
        if codec.mimeType != self._decodes:
            self._decodes, self._decoder = codec.mimeType, get_decoder(codec)
            if isinstance(self._decoder, OpusDecoder):
                self._decoder.codec.layout = "mono"
        try:
            frames = self._decoder.decode(encoded)
        except av.FFmpegError as error:
            log.debug("a packet of sound cannot be decoded: %s", error)
            return
        for frame in frames:
            self._take(frame)


def take_in_at_once(dtls: RTCDtlsTransport, failed: Callable[[Exception], None]) -> None:
    """Have media that come in over a connection handled as they come in.

    aiortc tries each datagram for a STUN message, puts it into a queue and wakes a task for it; now
    only what is no media goes that way (RFC 7983): handshakes, and the end. failed: told what the
    handling of a packet raised.
    """
    for protocol in dtls.transport._connection._protocols:
        _take_in_from(protocol, dtls, failed)


def _take_in_from(
    protocol: aioice.ice.StunProtocol, dtls: RTCDtlsTransport, failed: Callable[[Exception], None]
) -> None:
    handshakes = protocol.datagram_received

    def received(data: bytes, address: tuple[Any, ...]) -> None:
        if not data:
            return  # anybody may send it, and aiortc would look at its first byte
        if not 127 < data[0] < 192 or dtls._state is not State.CONNECTED:
            handshakes(data, address)
            return
        try:
            _take_in(dtls, data)
        except pylibsrtp.Error as error:
            log.debug("a packet is not what was sent: %s", error)
        except Exception as error:
            failed(error)

    protocol.datagram_received = received  # type: ignore[method-assign,assignment]


def _take_in(dtls: RTCDtlsTransport, data: bytes) -> None:
    """What aiortc does with a datagram of media, counters included."""
    for name, more in ((_IN_BYTES, len(data)), (_IN_PACKETS, 1)):
        setattr(dtls, name, getattr(dtls, name) + more)
    if is_rtcp(data):
        _at_once(dtls._handle_rtcp_data(dtls._rx_srtp.unprotect_rtcp(data)))
        return
    packet = dtls._rx_srtp.unprotect(data)
    if not _is_taken_as_sound(dtls, packet):
        at_ms = clock.current_ms()
        _at_once(dtls._handle_rtp_data(packet, arrival_time_ms=at_ms))


def _is_taken_as_sound(dtls: RTCDtlsTransport, packet: bytes) -> bool:
    """Give a packet (RFC 3550, 5.1) to the intake that has had others of its source.

    False: aiortc shall find out what it is and whose, as with a source's first one.
    """
    first, second, number, time_, source = _RTP_HEAD.unpack_from(packet)
    intake = SoundIntake.of(dtls._rtp_router.ssrc_table.get(source))
    # Without padding and contributors; extensions tell nothing that is asked for here.
    if intake is None or first & 0xEF != 0x80:
        return False
    begins_at = _RTP_HEAD.size
    if first & 0x10:
        begins_at += 4 + 4 * int.from_bytes(packet[begins_at + 2 : begins_at + 4])
    if begins_at > len(packet):
        return False
    intake.add(second & 0x7F, SoundPacket(number, time_, source, packet[begins_at:]))
    return True


# ------------------------------------------------------------ sending

# So much may wait for a connection that takes nothing: about a second of pictures.
_BACKLOG_BYTES = 150_000
_NTP_EPOCH_S = 2_208_988_800
"""From 1900 to 1970."""


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
        self._history = _SentPackets(getattr(sender, _EXTENSIONS))
        self.time_origin = secrets.randbits(32)
        """RTP time of media time 0."""
        setattr(sender, _HISTORY, self._history)
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

    def send(self, encoded: av.Packet[Any]) -> None:
        """Send what is in `encoded`, in as many packets as it needs; never waits.

        Where the connection is gone, nothing is sent. Its pts is in the units of its RTP clock.
        """
        sender, dtls, pair = self._sender, self._sender.transport, self._pair
        if pair is None or dtls._state is not State.CONNECTED:
            return
        if sender.kind == "audio":
            payloads, media_time = [bytes(encoded)], encoded.pts or 0
        else:
            payloads, media_time = self._encoder.pack(encoded)
        rtp_time = (self.time_origin + media_time) % (1 << 32)
        now_ntp = _ntp_now()
        # All of it once: each packet by itself would go through six calls of aiortc and aioice.
        protect, send = dtls._tx_srtp.protect, pair.protocol.transport.sendto
        address = pair.remote_addr
        sent_bytes = 0
        for packet in self._packets_of(payloads, rtp_time, self._extensions(now_ntp)):
            protected = protect(packet)
            send(protected, address)
            sent_bytes += len(protected)
        self._octets += sum(map(len, payloads))
        self._packets += len(payloads)
        for owner, name, told in (
            (sender, _NTP_TIME, now_ntp),
            (sender, _RTP_TIME, rtp_time),
            (sender, _OCTETS, self._octets),
            (sender, _PACKETS, self._packets),
            (dtls, _OUT_BYTES, getattr(dtls, _OUT_BYTES) + sent_bytes),
            (dtls, _OUT_PACKETS, getattr(dtls, _OUT_PACKETS) + len(payloads)),
        ):
            setattr(owner, name, told)

    @property
    def _pair(self) -> Any:
        """The two addresses between which packets travel now; None: the connection is gone."""
        return self._sender.transport.transport._connection._nominated.get(1)

    def _extensions(self, now_ntp: int) -> bytes:
        """Those of a packet's header that is sent now; empty: the browser wants none."""
        told = HeaderExtensions(
            abs_send_time=(now_ntp >> 14) & 0xFFFFFF, mid=getattr(self._sender, _MID)
        )
        profile, value = getattr(self._sender, _EXTENSIONS).set(told)
        return struct.pack("!HH", profile, len(value) >> 2) + value if value else b""

    def _packets_of(
        self, payloads: list[bytes], rtp_time: int, extensions: bytes
    ) -> Iterator[bytes]:
        """RTP packets (RFC 3550, 5.1) with these payloads, numbered, and kept to be sent again."""
        first, kind = 0x90 if extensions else 0x80, self._codec.payloadType
        for left, payload in zip(range(len(payloads), 0, -1), payloads, strict=True):
            number, marker = self._sequence_number, 0x80 if left == 1 else 0
            head = _RTP_HEAD.pack(first, marker | kind, number, rtp_time, self._sender._ssrc)
            packet = head + extensions + payload
            self._history.put(number, packet)
            self._sequence_number = (number + 1) % (1 << 16)
            yield packet

    async def _run(self, codec: Any) -> None:
        """What aiortc starts and cancels as its own loop."""
        self._encoder = get_encoder(codec)
        self._codec = codec
        getattr(self._sender, _STARTED).set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self._codec = None
            getattr(self._sender, _EXITED).set()


def _ntp_now() -> int:
    """The wall clock, 32.32 bits of seconds since 1900 (RFC 5905); aiortc goes by dates."""
    return (_NTP_EPOCH_S << 32) + (time.time_ns() << 32) // 1_000_000_000


def _at_once(work: Coroutine[Any, Any, None]) -> None:
    """Run what is a coroutine in name only: it awaits nothing that is not there.

    Raises what `work` raises, AiortcChangedError where it waits for something.
    """
    try:
        work.send(None)
    except StopIteration:
        return
    work.close()
    raise AiortcChangedError(f"aiortc {version('aiortc')} does not handle packets at once")
