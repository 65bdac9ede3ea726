"""What a visitor's browser sends the gateway, below the routes that schemathesis tries."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from aiortc import RTCRtpCodecParameters
from hypothesis import strategies as st
from pydantic import ValidationError
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request

from gateway.access.doorkeeper import Doorkeeper
from gateway.answers.questions import normalised
from gateway.api.access import AccessControl
from gateway.api.events import parse_command
from gateway.api.routes.catalog import read_upload
from gateway.api.schemas import Offer, SayRequest, SessionChange, SessionRequest, TextRequest
from gateway.openai.errors import RefusedError
from gateway.openai.schemas import ChatRequest
from gateway.playout.pacing import TICK_SAMPLES
from gateway.playout.pictures import Picture, ReleasedPicture
from gateway.playout.sinks.fmp4 import Muxer, init_segment
from gateway.playout.sinks.webrtc import Peer
from gateway.playout.sound import OpusEncoder
from gateway.realtime.link import object_in
from gateway.realtime.protocol import effects as to_do
from gateway.realtime.protocol.config import first_config
from gateway.realtime.protocol.dialogue import Dialogue
from gateway.settings import GatewaySettings
from gateway.stages.plain_calls import generation
from gateway.talk.microphone import pcm_of_message
from gateway.talk.rtp_sound import MicPackets, MicSound
from gateway.talk.words import asks, is_backchannel, is_echo, same_question, without_echo
from tests.fuzz.decoder import Decoder
from tests.fuzz.inputs import ODD_TEXTS, as_json, broken, told_wrongly
from tests.gateway.media import PictureEncoder
from visavis.serving.aiortc_private.incoming import SoundIntake, SoundPacket
from visavis.serving.errors import InvalidInputError
from visavis.wire.media import VideoCodec

# ------------------------------------------------------------ the events socket, HTTP bodies

_COMMANDS = [
    {"type": "text", "text": "Who are you?", "style": "happy"},
    {"type": "interrupt"},
    {"type": "update", "language": "zh-CN", "voice": "ada", "avatar": "eve", "speed": 1.5,
    "style": ""},
    {"type": "ping"},
    {"type": "say", "text": "Hello.", "style": "calm", "language": "en", "interrupt": True},
]  # fmt: skip


def _command(payload: bytes) -> None:
    """As Starlette hands a text message on, which has checked that it is UTF-8."""
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return
    parse_command(text)


_BODIES: list[tuple[Any, Any]] = [
    (SessionRequest, {"language": "en", "voice": "ada", "persona": "Be kind.", "welcome": True}),
    (SessionRequest, {"welcome": "Hello!", "speed": 1.5, "style": "sad", "queue": True}),
    (SessionChange, {"language": "zh", "speed": 0.5}),
    (TextRequest, {"text": "Who are you?", "style": "happy"}),
    (SayRequest, {"text": "Hello.", "style": "happy", "language": "zh", "interrupt": True}),
    (Offer, {"sdp": "v=0", "type": "offer", "role": "viewer"}),
]


def _body(given: tuple[int, Any]) -> None:
    which, told = given
    # What is accepted has to be writable.
    _BODIES[which][0].model_validate(told).model_dump_json()


_BODY_INPUTS = st.integers(0, len(_BODIES) - 1).flatmap(
    lambda which: st.tuples(st.just(which), told_wrongly([_BODIES[which][1]]))
)


_CHATS: list[Any] = [
    {
        "model": "visavis",
        "messages": [
            {"role": "developer", "content": "Be kind."},
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {
                "role": "assistant",
                "tool_calls": [{"id": "c", "function": {"name": "look", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "c", "content": "a cat"},
        ],
        "tools": [{"type": "function", "function": {"name": "look", "parameters": {"a": [1]}}}],
        "tool_choice": {"type": "function", "function": {"name": "look"}},
        "stop": ["."],
        "seed": 7,
        "max_tokens": 5,
        "temperature": 0.5,
        "logit_bias": {},
        "stream_options": {"include_usage": True},
    }
]


def _chat(told: Any) -> None:
    generation(ChatRequest.model_validate(told).wanted()).SerializeToString()


_REALTIME: list[Any] = [
    {
        "type": "session.update",
        "event_id": "e",
        "session": {
            "type": "realtime",
            "instructions": "Be kind.",
            "audio": {
                "input": {
                    "format": {"type": "audio/pcmu"},
                    "transcription": {"model": "whisper-1", "language": "en"},
                    "turn_detection": {"type": "server_vad", "threshold": 0.5},
                },
                "output": {"voice": "alloy", "speed": 1.1},
            },
            "tools": [{"type": "function", "name": "look", "parameters": {"a": [1]}}],
            "tool_choice": {"type": "function", "name": "look"},
        },
    },
    {"type": "input_audio_buffer.append", "audio": "AAAAAAAA"},
    {"type": "input_audio_buffer.commit"},
    {
        "type": "conversation.item.create",
        "previous_item_id": "root",
        "item": {
            "id": "i",
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Hi"},
                {"type": "input_audio", "audio": "AAAAAAAA"},
            ],
        },
    },
    {
        "type": "conversation.item.create",
        "item": {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
    },
    {
        "type": "response.create",
        "response": {
            "conversation": "none",
            "metadata": {"a": "b"},
            "output_modalities": ["text"],
            "max_output_tokens": 5,
            "input": [{"type": "item_reference", "id": "asked"}],
        },
    },
    {"type": "conversation.item.truncate", "item_id": "asked", "content_index": 0,
    "audio_end_ms": 5},
    {"type": "conversation.item.delete", "item_id": "asked"},
    {"type": "response.cancel", "response_id": "r"},
]  # fmt: skip


class _Known:
    """Whatever a client asks for is there."""

    def voice(self, name: str) -> str:
        return name

    def language(self, tag: str) -> None: ...


def _realtime(payload: bytes) -> None:
    """What is told has to be writable, and what is done has to be sendable."""
    try:
        event = object_in(payload, "event")
    except InvalidInputError:
        return
    count = itertools.count()
    dialogue = Dialogue(
        first_config({"audio": {"input": {"turn_detection": None}}}, ""),
        {"id": "s"},
        lambda kind: f"{kind}_{next(count)}",
        _Known(),
    )
    content = [{"type": "input_text", "text": "Hello."}]
    asked = {"id": "asked", "type": "message", "role": "user", "content": content}
    dialogue.client({"type": "conversation.item.create", "item": asked})
    for effect in (*dialogue.client(event), *dialogue.client(event)):
        match effect:
            case to_do.Send():
                json.dumps(effect.event, ensure_ascii=False).encode()
            case to_do.Write():
                generation(effect.wanted).SerializeToString()


def _words(given: tuple[str, str]) -> None:
    """What a visitor said, and what we had said."""
    heard, said = (text.encode(errors="ignore").decode()[:8000] for text in given)
    normalised(heard, "en")
    normalised(heard, "zh")
    same_question(heard, said)
    is_backchannel(heard)
    asks(said)
    is_echo(heard, said, sounds_like_it=True, complete=False)
    without_echo(heard, said)


# ------------------------------------------------------------ headers and forms

_HEADERS = (
    b"host: 127.0.0.1:8080\norigin: http://127.0.0.1:8080\nauthorization: Bearer secret",
    b"host: [::1]:8080\nsec-websocket-protocol: visavis, bearer.s%20t\norigin: null",
    b"host: example.org\norigin: https://[::1\nauthorization: bearer   x",
    b"host: 127.0.0.1:8080\nauthorization: Bearer vs1.eyJzIjoiYSJ9.AAAA",
)
_ACCESS = GatewaySettings(api_key="secret", allowed_hosts=("example.org",))
_DOORKEEPER = Doorkeeper(_ACCESS)


def _access(given: tuple[bytes, bytes, str]) -> None:
    """Either it is let through or refused with an answer of its own."""
    lines, query, path = given
    headers = [
        (name.strip().lower(), value.strip())
        for name, _, value in (line.partition(b":") for line in lines.split(b"\n"))
    ]
    offered = Headers(raw=headers).get("sec-websocket-protocol", "").split(",")
    sent: list[Any] = []

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    scope = {
        "type": "http", "method": "GET", "path": path, "query_string": query, "headers": headers,
        "subprotocols": [one.strip() for one in offered],
    }  # fmt: skip
    asyncio.run(AccessControl(app, _ACCESS, _DOORKEEPER)(scope, receive, send))
    assert sent[0]["status"] in (200, 400, 401, 403)


_FORM = (
    b'--b\r\nContent-Disposition: form-data; name="name"\r\n\r\nada\r\n'
    b'--b\r\nContent-Disposition: form-data; name="likeness"\r\n\r\nAda\r\n'
    b'--b\r\nContent-Disposition: form-data; name="photo"; filename="a.png"\r\n'
    b"Content-Type: image/png\r\n\r\n\x89PNG\r\n\x1a\nx\r\n--b--\r\n"
)
_FORM_WORDS = (
    b"\r\n--b", b"--b--", b"--b\r\n", b"Content-Disposition: form-data; ", b'name="',
    b"filename*=utf-8''%ff",
    b"Content-Transfer-Encoding: base64\r\n", b"charset=none",
)  # fmt: skip
_FORM_TYPES = (
    "multipart/form-data; boundary=b", "multipart/form-data", "multipart/form-data; boundary=",
    "multipart/form-data; boundary=b; charset=none", 'multipart/form-data; boundary="\xff"',
)  # fmt: skip


def _form(given: tuple[bytes, str, int]) -> None:
    body, content_type, cut = given
    pieces = [body[:cut], body[cut:]]

    async def receive() -> Any:
        piece = pieces.pop(0) if pieces else b""
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    headers = [(b"content-type", content_type.encode("latin-1"))]
    scope = {"type": "http", "method": "POST", "path": "/v1/avatars", "headers": headers}
    asyncio.run(read_upload(Request(scope, receive), 100_000))


# ------------------------------------------------------------ WebRTC

OFFER = Path(__file__).with_name("offer.sdp").read_text().replace("\n", "\r\n").encode()
_SDP_WORDS = (
    b"\r\na=", b"a=candidate:4 1 udp 1 example.invalid 1 typ host\r\n", b"a=mid:0\r\n",
    b"m=application 9 x y\r\n",
    b"a=candidate:4 1 udp 1 999.1.1.1 99999 typ host\r\n", b"a=rtpmap:111 opus/0\r\n",
    b"a=ssrc-group:FID 1\r\n",
    b"a=sctp-port:5000\r\n", b"a=fingerprint:md5 00\r\n", b"a=setup:holdconn\r\n",
    b"a=fmtp:102 =;\r\n",
    b"m=audio 9 x\r\n", b"m=video 0 UDP/TLS/RTP/SAVPF 96\r\n",
)  # fmt: skip


def _connect(payload: bytes) -> None:
    sdp = payload.decode(errors="replace")

    async def connect() -> None:
        peer = Peer(
            "p",
            "speaker",
            ice_servers=[],
            on_mic=lambda pcm: None,
            mic_may_wait=lambda level: False,
            on_keyframe=lambda codec: None,
            on_closed=lambda closed: None,
        )
        try:
            await peer.answer(sdp, "offer")
        finally:
            await peer.close()

    asyncio.run(connect())


def _opus() -> list[bytes]:
    encoder = OpusEncoder()
    wave = (3000 * np.sin(np.arange(5 * TICK_SAMPLES) / 20)).astype(np.int16)
    return [
        bytes(packet)
        for at in range(0, len(wave), TICK_SAMPLES)
        for packet in encoder.encode(wave[at : at + TICK_SAMPLES], at)
    ]


def _microphone(given: Sequence[tuple[int, int, bytes]]) -> None:
    heard: list[Any] = []
    sound = MicSound()
    opus = RTCRtpCodecParameters(mimeType="audio/opus", clockRate=48_000, channels=2)
    receiver: Any = SimpleNamespace(
        _enabled=True, _RTCRtpReceiver__codecs={96: opus}, _RTCRtpReceiver__remote_streams={}
    )
    intake = SoundIntake(
        receiver,
        MicPackets().add,
        lambda frame: heard.extend(sound.decoded(frame)),
        may_wait=lambda level: False,
    )
    sequence, at = 0, 0
    for step, pause, payload in given:
        sequence, at = (sequence + step) % (1 << 16), (at + pause) % (1 << 32)
        intake.add(96, SoundPacket(sequence, at, 1, payload))
    assert sum(map(len, heard)) <= len(given) * 3 * 16_000


_MIC_INPUTS = st.lists(
    st.tuples(
        st.sampled_from((0, 1, 1, 1, 2, 5, 200, 4000, 65_535)),
        st.sampled_from((0, 480, 960, 960, 48_000, 1 << 20, (1 << 32) - 960)),
        broken(_opus()).map(lambda payload: payload[:1500]),
    ),
    max_size=8,
)

# ------------------------------------------------------------ pictures of the face, on their way


def _mux(payloads: Sequence[bytes]) -> None:
    muxer = Muxer()
    for index, payload in enumerate(payloads):
        picture = Picture(
            1, index, False, VideoCodec.H264, index == 0, 64, 64, 25, payload, False, index + 1
        )
        muxer.picture(ReleasedPicture(picture, 3600 * index))
    if muxer.sets is not None:
        init_segment(muxer.sets, muxer.width, muxer.height, b"\x11\x88")


_ENCODER = PictureEncoder()
_UNITS = [_ENCODER.encode(10 * i, keyframe=not i)[0] for i in range(3)]

DECODERS = (
    Decoder(
        "events-command",
        "a visitor, over the events WebSocket",
        as_json(told_wrongly(_COMMANDS)),
        _command,
        (InvalidInputError,),
        share=2,
    ),
    Decoder(
        "api-body",
        "a visitor, over HTTP",
        _BODY_INPUTS,
        _body,
        (ValidationError,),
        share=2,
    ),
    Decoder(
        "openai-chat",
        "an app, by OpenAI's API",
        told_wrongly(_CHATS),
        _chat,
        (ValidationError, RefusedError),
    ),
    Decoder(
        "realtime-event",
        "an app or its guest, over OpenAI's Realtime WebSocket",
        as_json(told_wrongly(_REALTIME)),
        _realtime,
        (),
        share=2,
    ),
    Decoder(
        "heard-words",
        "a visitor's speech, as understood",
        st.tuples(ODD_TEXTS, ODD_TEXTS),
        _words,
        (),
    ),
    Decoder(
        "microphone-message",
        "a speaker, over the media WebSocket",
        broken([bytes(640), bytes(32_000)]),
        pcm_of_message,
        (InvalidInputError,),
        share=0.5,
    ),
    Decoder(
        "access-headers",
        "anybody who reaches the port",
        st.tuples(
            broken(_HEADERS, [b"\nhost: ", b"[::1", b"bearer.", b"%", b"//", b"@", b"\xff"]).map(
                lambda lines: lines[:8000]
            ),
            broken([b"", b"role=speaker&api_key=x"], [b"&api_key", b"%61pi_key=1", b";"]).map(
                lambda query: query[:8000]
            ),
            st.sampled_from(["/", "/v1/sessions", "/docs", "/metrics", "//", "/static/../v1"]),
        ),
        _access,
        (),
    ),
    Decoder(
        "avatar-form",
        "a visitor, over HTTP",
        st.tuples(broken([_FORM], _FORM_WORDS), st.sampled_from(_FORM_TYPES), st.integers(0, 300)),
        _form,
        (InvalidInputError, HTTPException),
    ),
    Decoder(
        "sdp-offer",
        "a visitor, over HTTP",
        broken([OFFER], _SDP_WORDS).map(lambda offer: offer[:200_000]),
        _connect,
        (InvalidInputError,),
        share=0.1,
    ),
    Decoder(
        "microphone-packets",
        "a speaker, over WebRTC",
        _MIC_INPUTS,
        _microphone,
        (),
    ),
    Decoder(
        "face-pictures",
        "the face, over the bus",
        st.lists(broken(_UNITS, [b"\0\0\1", b"\0\0\0\1\x67"]), max_size=4),
        _mux,
        (),
    ),
)
