"""What servers answer that a session is broadcast to, and what players of others send."""

from __future__ import annotations

from hypothesis import strategies as st

from gateway.live.push.address import parse
from gateway.live.rtmp.amf import AmfError, decode, ecma_array, encode
from gateway.live.rtmp.chunks import COMMAND, ChunkError, ChunkReader, Message, chunked
from gateway.live.sdp import candidates_in
from tests.fuzz.decoder import Decoder
from tests.fuzz.inputs import broken
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
)
