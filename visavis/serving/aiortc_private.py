"""Everything of aiortc that visavis uses without its being public, in one place.

aiortc's public interface plays and records media; it does not say when a browser has lost the
picture, what its reports tell, or hand on a packet as it comes in. Whatever is private may be
otherwise in the next version: `check` looks at all of it before anything is served, and
pyproject.toml allows no version that was not tried.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterator
from importlib.metadata import version
from types import CodeType
from typing import Any, Protocol

from aiortc import RTCRtpReceiver, RTCRtpSender
from aiortc.jitterbuffer import JitterBuffer, JitterFrame
from aiortc.rtcdtlstransport import RTCDtlsTransport
from aiortc.rtp import RtcpSenderInfo, RtcpSrPacket, RtpPacket

from visavis.serving.errors import VisavisError

_JITTER_BUFFER = "_RTCRtpReceiver__jitter_buffer"

# Class, its function, the function's parameters, and private names that it has to mention.
_EXPECTED: tuple[tuple[type, str, tuple[str, ...], tuple[str, ...]], ...] = (
    (RTCRtpSender, "_send_keyframe", (), ()),
    (RTCRtpSender, "_handle_rtcp_packet", ("packet",), ("_send_keyframe",)),
    (RTCRtpSender, "_send_rtcp", ("packets",), ()),
    (RTCRtpSender, "_run_rtcp", (), ("_send_rtcp",)),
    (RTCRtpReceiver, "__init__", ("kind", "transport"), (_JITTER_BUFFER,)),
    (
        RTCRtpReceiver,
        "_handle_rtp_packet",
        ("packet", "arrival_time_ms"),
        ("_data", _JITTER_BUFFER),
    ),
    (RTCDtlsTransport, "_handle_rtp_data", ("data", "arrival_time_ms"), ("_handle_rtp_packet",)),
    (JitterBuffer, "add", ("packet",), ()),
    (JitterFrame, "__init__", ("data", "timestamp"), ()),
)


class AiortcChangedError(VisavisError):
    """The installed aiortc is not the one that we know inside."""


class PacketBuffer(Protocol):
    """What a receiver asks for frames."""

    def add(self, packet: RtpPacket) -> tuple[bool, JitterFrame | None]:
        """A packet that came in; whether to ask for a key frame, and what is to be decoded."""


def check() -> None:
    """Raises AiortcChangedError where anything that is used here is not as it was."""
    changed = list(_changed())
    if changed:
        raise AiortcChangedError(
            f"aiortc {version('aiortc')} is not one that visavis can work with: "
            f"{', '.join(changed)} changed; install a version that visavis asks for: "
            "pip install 'visavis[gateway]'"
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


def receive_through(receiver: RTCRtpReceiver, buffer: PacketBuffer) -> None:
    """Put `buffer` in the place of the receiver's jitter buffer."""
    assert isinstance(getattr(receiver, _JITTER_BUFFER), JitterBuffer)
    setattr(receiver, _JITTER_BUFFER, buffer)


def payload_of(packet: RtpPacket) -> bytes:
    """What is to be decoded of a packet that a `PacketBuffer` is given; empty: padding alone."""
    payload: bytes = packet._data  # type: ignore[attr-defined]
    return payload


def take_packets(receiver: RTCRtpReceiver, take: Callable[[RtpPacket], Awaitable[None]]) -> None:
    """Have `take` given every packet as it comes in; the receiver itself gets none."""

    async def handle(packet: RtpPacket, arrival_time_ms: int) -> None:
        await take(packet)

    receiver._handle_rtp_packet = handle  # type: ignore[method-assign]
