"""What servers answer that a session is broadcast to, what players of others send, and what
platforms tell of their viewers.
"""

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import strategies as st

from gateway.live.push.address import parse
from gateway.live.rtmp.amf import AmfError, decode, ecma_array, encode
from gateway.live.rtmp.chunks import COMMAND, ChunkError, ChunkReader, Message, chunked
from gateway.live.sdp import candidates_in
from gateway.room.platforms import bilibili, twitch, youtube
from gateway.room.platforms.connection import PlatformError, told
from tests.fuzz.decoder import Decoder
from tests.fuzz.inputs import broken, told_wrongly
from tests.gateway.room.platform_servers import frame
from tests.gateway.room.test_platforms import (
    CHEER,
    CLEARCHAT,
    CLEARMSG,
    COMMANDS,
    PRIVMSG,
    RESUB,
)
from visavis.serving.errors import InvalidInputError

_STATUS = {"level": "status", "code": "NetStream.Publish.Start", "description": "It is live."}
_ANSWERS = [
    chunked(Message(COMMAND, encode("_result", 1, {"fmsVer": "FMS/3"}, _STATUS), 0, 0), 3, 128),
    chunked(Message(COMMAND, encode("onStatus", 0, None, _STATUS), 0, 1), 5, 128),
    chunked(Message(5, b"\0\x26\x25\xa0"), 2, 128) + chunked(Message(1, b"\0\0\x10\0"), 2, 128),
    chunked(Message(COMMAND, encode("x") + ecma_array({"a": 1.0, "b": True})), 3, 128),
]
_WORDS = (b"\xc3", b"\x43", b"\x83", b"\0\x40", b"\xff\xff\xff", b"\0\0\x09", b"\x0a\0\0\0\x02")


def _server(payload: bytes) -> None:
    reader = ChunkReader()
    for at in range(0, len(payload), 100):
        for message in reader.feed(payload[at : at + 100]):
            if message.kind == COMMAND:
                decode(message.payload)


_PAID = {"amountMicros": "5000000", "currency": "EUR", "userComment": "why?"}
_AUTHOR = {"channelId": "UC1", "displayName": "@Anna", "isChatModerator": False}
_DETAILS = {
    "textMessageEvent": {},
    "superChatEvent": {"superChatDetails": _PAID},
    "messageDeletedEvent": {"messageDeletedDetails": {"deletedMessageId": "x"}},
}
_ITEMS = [
    {
        "id": kind,
        "snippet": {"type": kind, "publishedAt": "2026-01-01T00:00:00Z", **details},
        "authorDetails": _AUTHOR,
    }
    for kind, details in _DETAILS.items()
]
_LINES = [line.encode() for line in (PRIVMSG, CHEER, RESUB, CLEARMSG, CLEARCHAT)]
_PARTS = (b";bits=x", b";emotes=1:9-2", b";tmi-sent-ts=\xb2", b" :", b";id=", b"\\s", b"=")


def _platform(given: tuple[Any, bytes]) -> None:
    """Of a message that is not as the platform describes it, nothing is told."""
    message, data = given
    told(bilibili.comments_of, message, 0.0, 0.0)
    told(youtube.comments_of, message, 0.0, 0.0)
    told(twitch.comments_of, twitch.parse(data.decode(errors="replace")), 0.0, 0.0)
    for version in (0, 2):
        with contextlib.suppress(PlatformError):
            list(bilibili.packets(frame(5, data, version) + data))


_FRAGMENT = b"a=ice-ufrag:x\r\na=mid:0\r\na=candidate:1 1 udp 1 10.0.0.1 5000 typ host\r\n"
_ADDRESSES = (b"rtmps://live.example/app/key?x=y", b"https://[::1]:8443/whip/room", b"rtmp://h/a")

DECODERS = (
    Decoder(
        "rtmp-server",
        "a server that a session is broadcast to",
        broken(_ANSWERS, _WORDS),
        _server,
        (ChunkError, AmfError),
    ),
    Decoder(
        "ice-candidates",
        "a viewer, over HTTP",
        broken([_FRAGMENT], [b"a=end-of-candidates\r\n", b" raddr 1", b"a=candidate:"]),
        lambda payload: candidates_in(payload.decode(errors="replace")),
        (InvalidInputError,),
    ),
    Decoder(
        "push-address",
        "an app, over HTTP",
        st.tuples(broken(_ADDRESSES, [b"//", b"@", b"[", b"]:", b"%00", b"#"]), st.text()),
        lambda given: parse(given[0].decode(errors="replace"), given[1]),
        (InvalidInputError,),
    ),
    Decoder(
        "platform-messages",
        "a platform that a room's comments come from",
        st.tuples(told_wrongly([*COMMANDS, *_ITEMS]), broken(_LINES, _PARTS)),
        _platform,
        (),
    ),
)
