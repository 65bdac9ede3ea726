"""Packets that come in over WebRTC, handled as they come."""

from __future__ import annotations

import logging
import struct
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import aioice
import av
import pylibsrtp
from aiortc import RTCRtpReceiver, clock
from aiortc.codecs import get_decoder
from aiortc.codecs.opus import OpusDecoder
from aiortc.jitterbuffer import JitterFrame
from aiortc.rtcdtlstransport import RTCDtlsTransport, State
from aiortc.rtcrtpreceiver import StreamStatistics, TimestampMapper
from aiortc.rtcsctptransport import DataChunk, RTCSctpTransport
from aiortc.rtp import RtpPacket, is_rtcp

from visavis.serving.aiortc_private.known import (
    CODECS,
    EXTENSION_HEAD,
    IN_BYTES,
    IN_PACKETS,
    RTP_HEAD,
    STREAMS,
    AiortcChangedError,
)

log = logging.getLogger(__name__)

# Quiet packets wait for one another: five of the 20 ms that browsers send are handled together.
_MOST_TOGETHER = 5
_LONGEST_WAIT_S = 0.08
_MOST_SOURCES = 31
"""Of RTP over one connection, as a report has room for. aiortc reports on all that there ever were,
until it cannot: what writes reports ends then, and who closes the connection waits for it for ever.
"""
# Of data channels: pieces of messages that are not whole yet, streams, and how far somebody who was
# told that there is no room may go on, for what is on its way.
_MOST_PIECES, _MOST_STREAMS, _OVERDRAWN_BYTES = 4096, 64, 65_536


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
    may_wait: asked before anything is done with a packet that tells how loud it is (RFC 6464), with
    its root mean square of 32768; True: it is handled with the next ones, at most 0.1 s later.
    A few in a row cost less than each by itself, which finds the caches cold.
    """

    def __init__(
        self,
        receiver: RTCRtpReceiver,
        wanted: Callable[[SoundPacket], bool],
        take: Callable[[av.AudioFrame], None],
        may_wait: Callable[[float], bool],
    ) -> None:
        self._receiver = receiver
        self._wanted = wanted
        self._take = take
        self._may_wait = may_wait
        self._waiting: list[bytes] = []
        self._waits_since = 0
        self._codecs: dict[int, Any] = getattr(receiver, CODECS)
        self._streams: dict[int, StreamStatistics] = getattr(receiver, STREAMS)
        self._times = TimestampMapper()
        self._decodes = ""
        self._decoder: Any = None
        receiver._handle_rtp_packet = self._handle  # type: ignore[method-assign]

    @staticmethod
    def of(receiver: Any) -> SoundIntake | None:
        """The one that takes what a receiver is sent; None: aiortc does, or a `take_packets`."""
        owner = getattr(getattr(receiver, "_handle_rtp_packet", None), "__self__", None)
        return owner if isinstance(owner, SoundIntake) else None

    def due(
        self, datagram: bytes, payload_type: int, timestamp: int, level: float | None
    ) -> list[bytes]:
        """Of an encrypted packet, and of those that waited for it, what is to be handled now.

        level: what the packet tells of its loudness.
        """
        codec = self._codecs.get(payload_type)
        if not self._waiting:
            self._waits_since = timestamp
        self._waiting.append(datagram)
        if level is not None and codec is not None:
            waited = (timestamp - self._waits_since) % (1 << 32)
            more = len(self._waiting) < _MOST_TOGETHER
            if more and waited < _LONGEST_WAIT_S * codec.clockRate and self._may_wait(level):
                return []
        due, self._waiting = self._waiting, []
        return due

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
            if len(self._streams) >= _MOST_SOURCES:
                return
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


def bound_messages(sctp: RTCSctpTransport) -> None:
    """Have a connection end whose other side sends messages without an end, or opens channels
    without end.

    aiortc tells it how much room there is, and takes what does not heed that: each piece of a
    message is held until the last one has come, and gone through with every other that comes.
    """
    take = sctp._receive_data_chunk

    async def bounded(chunk: DataChunk) -> None:
        await take(chunk)
        pieces = len(sctp._get_inbound_stream(chunk.stream_id).reassembly)
        if (
            max(pieces, len(sctp._sack_misordered)) > _MOST_PIECES
            or len(sctp._inbound_streams) > _MOST_STREAMS
            or sctp._advertised_rwnd < -_OVERDRAWN_BYTES
        ):
            raise ConnectionError("more comes by data channels than there is room for")

    sctp._receive_data_chunk = bounded  # type: ignore[method-assign]


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
        for datagram in _due(dtls, data):
            try:
                _take_in(dtls, datagram)
            except pylibsrtp.Error as error:
                log.debug("a packet is not what was sent: %s", error)
            except Exception as error:
                failed(error)

    protocol.datagram_received = received  # type: ignore[method-assign,assignment]


def _due(dtls: RTCDtlsTransport, data: bytes) -> list[bytes]:
    """What is to be handled now that this datagram of media has come."""
    if len(data) < RTP_HEAD.size or is_rtcp(data):
        return [data]
    first, second, _, timestamp, source = RTP_HEAD.unpack_from(data)
    intake = SoundIntake.of(dtls._rtp_router.ssrc_table.get(source))
    if intake is None:
        return [data]
    level = _level_told(dtls, data) if first & 0x1F == 0x10 else None
    return intake.due(data, second & 0x7F, timestamp, level)


def _level_told(dtls: RTCDtlsTransport, packet: bytes) -> float | None:
    """How loud a packet of sound says that it is: its root mean square, of 32768.

    Headers are not encrypted, so this is known before anything is done with what is. None: it says
    nothing, or nothing that can be read. packet: with an extension, without contributors.
    """
    begins_at = RTP_HEAD.size + EXTENSION_HEAD.size
    if len(packet) < begins_at:
        return None
    profile, words = EXTENSION_HEAD.unpack_from(packet, RTP_HEAD.size)
    try:
        told = dtls._rtp_header_extensions_map.get(
            profile, packet[begins_at : begins_at + 4 * words]
        )
    except (ValueError, struct.error):
        return None
    return None if told.audio_level is None else 32768 * 10 ** (-told.audio_level[1] / 20)


def _take_in(dtls: RTCDtlsTransport, data: bytes) -> None:
    """What aiortc does with a datagram of media, counters included."""
    for name, more in ((IN_BYTES, len(data)), (IN_PACKETS, 1)):
        setattr(dtls, name, getattr(dtls, name) + more)
    if is_rtcp(data):
        _at_once(dtls._handle_rtcp_data(dtls._rx_srtp.unprotect_rtcp(data)))
        return
    packet = dtls._rx_srtp.unprotect(data)
    if not _is_taken_as_sound(dtls, packet):
        at_ms = clock.current_ms()
        _at_once(dtls._handle_rtp_data(packet, arrival_time_ms=at_ms))
        if len(dtls._rtp_router.ssrc_table) > _MOST_SOURCES:
            raise ConnectionError("packets of more sources than a client has")


def _is_taken_as_sound(dtls: RTCDtlsTransport, packet: bytes) -> bool:
    """Give a packet (RFC 3550, 5.1) to the intake that has had others of its source.

    False: aiortc shall find out what it is and whose, as with a source's first one.
    """
    first, second, number, time_, source = RTP_HEAD.unpack_from(packet)
    intake = SoundIntake.of(dtls._rtp_router.ssrc_table.get(source))
    # Without padding and contributors; extensions tell nothing that is asked for here.
    if intake is None or first & 0xEF != 0x80:
        return False
    begins_at = RTP_HEAD.size
    if first & 0x10:
        begins_at += 4 + 4 * int.from_bytes(packet[begins_at + 2 : begins_at + 4])
    if begins_at > len(packet):
        return False
    intake.add(second & 0x7F, SoundPacket(number, time_, source, packet[begins_at:]))
    return True


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
