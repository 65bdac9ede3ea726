"""The private names of aiortc that are used, and whether the installed aiortc still has them.

Whatever is private may be otherwise in the next version: `check` looks at all of it before anything
is served, and pyproject.toml allows no version that was not tried.
"""

from __future__ import annotations

import inspect
import struct
from collections.abc import Iterator
from importlib.metadata import version
from types import CodeType

import aioice
from aiortc import RTCIceTransport, RTCRtpReceiver, RTCRtpSender
from aiortc.codecs.opus import OpusDecoder
from aiortc.jitterbuffer import JitterFrame
from aiortc.rtcdtlstransport import RTCDtlsTransport, RtpRouter
from aiortc.rtcrtpreceiver import StreamStatistics, TimestampMapper
from aiortc.rtcsctptransport import InboundStream, RTCSctpTransport
from aiortc.rtp import HeaderExtensionsMap

from visavis.serving.errors import VisavisError

CODECS = "_RTCRtpReceiver__codecs"
STREAMS = "_RTCRtpReceiver__remote_streams"
STARTED = "_RTCRtpSender__rtp_started"
EXITED = "_RTCRtpSender__rtp_exited"
HISTORY = "_RTCRtpSender__rtp_history"
EXTENSIONS = "_RTCRtpSender__rtp_header_extensions_map"
MID = "_RTCRtpSender__mid"
NTP_TIME = "_RTCRtpSender__ntp_timestamp"
RTP_TIME = "_RTCRtpSender__rtp_timestamp"
OCTETS = "_RTCRtpSender__octet_count"
PACKETS = "_RTCRtpSender__packet_count"
IN_BYTES = "_RTCDtlsTransport__rx_bytes"
IN_PACKETS = "_RTCDtlsTransport__rx_packets"
OUT_BYTES = "_RTCDtlsTransport__tx_bytes"
OUT_PACKETS = "_RTCDtlsTransport__tx_packets"
_OF_SENDING = (STARTED, EXITED, HISTORY, EXTENSIONS, MID, NTP_TIME, RTP_TIME, OCTETS)

# Class, its function, the function's parameters, and private names that it has to mention.
_EXPECTED: tuple[tuple[type, str, tuple[str, ...], tuple[str, ...]], ...] = (
    (RTCRtpSender, "_send_keyframe", (), ()),
    (
        RTCRtpSender,
        "_handle_rtcp_packet",
        ("packet",),
        ("_send_keyframe", "_ssrc"),
    ),
    (RTCRtpSender, "_send_rtcp", ("packets",), ()),
    (RTCRtpSender, "_run_rtcp", (), ("_send_rtcp", NTP_TIME, RTP_TIME, OCTETS, PACKETS)),
    (RTCRtpSender, "send", ("parameters",), ("_run_rtp",)),
    (RTCRtpSender, "stop", (), (STARTED, EXITED)),
    (RTCRtpSender, "_run_rtp", ("codec",), (*_OF_SENDING, PACKETS, "_ssrc")),
    (RTCRtpSender, "_retransmit", ("sequence_number",), (HISTORY, "_send_rtp")),
    (
        RTCDtlsTransport,
        "_send_rtp",
        ("data",),
        ("_state", "_tx_srtp", "protect", "_send", OUT_BYTES, OUT_PACKETS),
    ),
    (RTCIceTransport, "__init__", ("gatherer",), ("_connection", "_send")),
    (aioice.Connection, "sendto", ("data", "component"), ("_nominated", "protocol", "remote_addr")),
    (aioice.ice.StunProtocol, "send_data", ("data", "addr"), ("transport", "sendto")),
    (RTCRtpReceiver, "receive", ("parameters",), (CODECS,)),
    (RTCRtpReceiver, "_run_rtcp", (), (STREAMS,)),
    (
        RTCRtpReceiver,
        "_handle_rtp_packet",
        ("packet", "arrival_time_ms"),
        ("_enabled", CODECS, STREAMS),
    ),
    (StreamStatistics, "__init__", ("clockrate",), ()),
    (StreamStatistics, "add", ("packet",), ("sequence_number", "timestamp")),
    (TimestampMapper, "map", ("timestamp",), ()),
    (
        RTCDtlsTransport,
        "_handle_rtp_data",
        ("data", "arrival_time_ms"),
        ("_rtp_router", "route_rtp", "_handle_rtp_packet", "_rtp_header_extensions_map"),
    ),
    (HeaderExtensionsMap, "get", ("extension_profile", "extension_value"), ("audio_level",)),
    (RtpRouter, "route_rtp", ("packet",), ("ssrc_table",)),
    (RTCDtlsTransport, "_handle_rtcp_data", ("data",), ("_handle_rtcp_packet",)),
    (
        RTCDtlsTransport,
        "_recv_next",
        (),
        (
            *("_recv", IN_BYTES, IN_PACKETS, "_rx_srtp", "unprotect", "unprotect_rtcp"),
            *("_handle_rtp_data", "_handle_rtcp_data", "current_ms"),
        ),
    ),
    (RTCDtlsTransport, "_set_state", ("state",), ("_state",)),
    (aioice.Connection, "close", (), ("_protocols",)),
    (aioice.ice.StunProtocol, "datagram_received", ("data", "addr"), ("data_received",)),
    (RTCSctpTransport, "_receive_chunk", ("chunk",), ("_receive_data_chunk",)),
    (RTCSctpTransport, "_receive_data_chunk", ("chunk",), ("_advertised_rwnd", "stream_id")),
    (RTCSctpTransport, "_mark_received", ("tsn",), ("_sack_misordered",)),
    (RTCSctpTransport, "_get_inbound_stream", ("stream_id",), ("_inbound_streams",)),
    (InboundStream, "add_chunk", ("chunk",), ("reassembly",)),
    (OpusDecoder, "__init__", (), ("codec", "layout")),
    (JitterFrame, "__init__", ("data", "timestamp"), ()),
)


RTP_HEAD = struct.Struct("!BBHLL")
EXTENSION_HEAD = struct.Struct("!HH")


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
