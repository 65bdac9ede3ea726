"""What the bus and gRPC bring: chunks, requests, text to be spoken, and what others tell."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError, Message
from hypothesis import strategies as st

from gateway.answers.cache import LearnedAnswers, LearnedLimits, Speaker
from services.asr.sound import resample
from services.face.servicer import read_options as face_options
from services.llm.backends.openai_compatible import SseParser
from services.llm.prompt import build_prompt
from services.llm.servicer import read_request
from services.tts.servicer import read_options as speech_options
from services.tts.text.chunker import TextChunker
from services.tts.text.english import say_addresses
from services.tts.text.mandarin_numbers import normalize
from services.tts.text.script_runs import clean, split_by_script
from tests.fuzz.decoder import Decoder
from tests.fuzz.inputs import ODD_TEXTS, as_json, broken, told_wrongly, wrong_messages
from visavis.engine.triton.exchange import outputs_of
from visavis.serving.discovery import parse_info
from visavis.serving.errors import EngineError, InvalidInputError, UnknownNameError
from visavis.serving.lifetime.starting import on_starting
from visavis.v1 import asr_pb2, face_pb2, kserve_pb2, llm_pb2, tts_pb2
from visavis.wire.media import (
    BlendshapeChunk,
    Chunk,
    ClockChunk,
    MelChunk,
    PcmChunk,
    PhonemeSpan,
    Place,
    Stamp,
    TextMark,
    TokenChunk,
    TranscriptChunk,
    TranscriptEvent,
    TurnChunk,
    VideoChunk,
    VideoCodec,
    WordTime,
    check_sample_rate,
    chunk_type,
    decode,
    pcm_from_bytes,
)
from visavis.wire.subjects import Kind, turn_of

_PLACE = Place("s1", 1, 2, 480, stamps=(Stamp("tts.first_made", 7, 3),))
_SOUND = PcmChunk(_PLACE, 24_000, np.arange(24, dtype=np.int16), (TextMark(3, 12),))
_CHUNKS: dict[Kind, Chunk] = {
    Kind.MIC: _SOUND,
    Kind.TRANSCRIPT: TranscriptChunk(
        _PLACE, TranscriptEvent.FINAL, 1, "hello", "en", 0.5, (WordTime("hello", 1, 2),)
    ),
    Kind.TURN: TurnChunk(_PLACE, "text", style="happy", motion_frame=3),
    Kind.TOKENS: TokenChunk(_PLACE, "Hello"),
    Kind.VOICE: _SOUND,
    Kind.MEL: MelChunk(
        _PLACE, 24_000, 300, np.zeros((2, 5), np.float32), (PhonemeSpan("a", 0, 9),), "sad"
    ),
    Kind.VIDEO: VideoChunk(_PLACE, False, VideoCodec.H264, True, 64, 64, 25, b"\0\0\0\1\x65x"),
    Kind.FACE: BlendshapeChunk(_PLACE, True, 25, np.zeros(52, np.float32)),
    Kind.CLOCK: ClockChunk(_PLACE, 24_000, motion_frame=4),
}


def _chunk(given: tuple[Kind, bytes, str]) -> None:
    kind, payload, subject = given
    turn_of(f"vv.s1.{subject}.{kind}")
    chunk = decode(kind, payload)
    assert isinstance(chunk, chunk_type(kind)) and 1 <= len(chunk.place.session) <= 64


_CHUNK_INPUTS = st.sampled_from(list(Kind)).flatmap(
    lambda kind: st.tuples(st.just(kind), wrong_messages([_CHUNKS[kind].to_message()]), ODD_TEXTS)
)

# ------------------------------------------------------------ requests of gRPC

_REQUESTS: tuple[Message, ...] = (
    asr_pb2.RecognizeRequest(
        config=asr_pb2.RecognitionConfig(sample_rate_hz=8000, language="en"), pcm_s16le=bytes(640)
    ),
    tts_pb2.SynthesisConfig(language="en", voice="", speed=1.0, style="happy"),
    llm_pb2.GenerateRequest(
        messages=[
            llm_pb2.Message(role=1, content="Be kind."),
            llm_pb2.Message(role=2, content="Who are you?"),
        ],
        max_tokens=20,
        temperature=0.5,
        stop=["\n"],
    ),
    face_pb2.FaceConfig(source=face_pb2.FaceConfig.SOURCE_MEL, codecs=[1], seed=3, start_frame=7),
)


def _request(given: tuple[int, bytes]) -> None:
    which, payload = given
    request: Any = type(_REQUESTS[which]).FromString(payload)
    match request:
        case asr_pb2.RecognizeRequest():
            resample(
                pcm_from_bytes(request.pcm_s16le), check_sample_rate(request.config.sample_rate_hz)
            )
        case tts_pb2.SynthesisConfig():
            speech_options(request)
        case llm_pb2.GenerateRequest():
            wanted = read_request(request)
            build_prompt(wanted.messages, persona="Be kind.", budget_tokens=2000, count_tokens=len)
        case _:
            face_options(request)


_REQUEST_INPUTS = st.integers(0, len(_REQUESTS) - 1).flatmap(
    lambda which: st.tuples(st.just(which), wrong_messages([_REQUESTS[which]]))
)

# ------------------------------------------------------------ text that is to be spoken

_TEXTS = (
    "We are open from 9.30 to 17:00, Mon–Fri; it costs $3.50. See http://a.example/b?c=1.",
    "今天是2026年11月22日，温度-3.5℃，电话13800138000。iPhone 15 Pro 多少钱？",
    "**Bold** `code` ```\nblock\n``` [a link](http://x.example) # Title\n- item\n1. item | a | b |",
    "[happy] Well… <b>no</b>! Dr. Smith's e-mail is a.b@c.example; 1/2, 3×4, 10:05 – 12,345.67",
)
_MARKUP = (
    "```", "**", "[", "](", "<|im_end|>", "<|im_", "<", "_", "http://", "://", "1,", "1.", "$",
    "-", "[sad]",
    "零", "点", "\n- ", "…", "’", "\ufe0f",
)  # fmt: skip


def _speak(text: str) -> None:
    chunker = TextChunker()
    phrases = [phrase for piece in (text[:7], text[7:]) for phrase in chunker.add(piece)]
    phrases += chunker.flush()
    for phrase in phrases:
        for run in split_by_script(clean(phrase.text), "en"):
            (normalize if run.language == "zh" else say_addresses)(run.text)


def _text(seed: int, changes: Sequence[tuple[int, int, int]]) -> str:
    text = _TEXTS[seed]
    for place, word, count in changes:
        at = place % (len(text) + 1)
        text = text[:at] + _MARKUP[word] * count + text[at:]
    return text[:8000]


_SPEAK_INPUTS = st.one_of(
    st.builds(
        _text,
        st.integers(0, len(_TEXTS) - 1),
        st.lists(
            st.tuples(
                st.integers(0, 200),
                st.integers(0, len(_MARKUP) - 1),
                st.sampled_from((1, 2, 30, 1000)),
            ),
            max_size=4,
        ),
    ),
    ODD_TEXTS.filter(lambda text: text.isprintable() or "\ud800" not in text).map(
        lambda text: text[:8000].encode(errors="ignore").decode()
    ),
)

# ------------------------------------------------------------ what processes tell each other

_INFO = {
    "name": "visavis-asr", "id": "x", "version": "0.1.0", "type": "io.nats.micro.v1.info_response",
    "metadata": {"instance": "asr-1", "grpc": "127.0.0.1:7", "device": "cpu", "phase": "serving"},
}  # fmt: skip


def _starting(payload: bytes) -> None:
    """As from the bus, of which no more is needed."""

    async def hear() -> None:
        heard: list[Any] = []

        async def subscribe(_subject: str, cb: Any) -> None:
            heard.append(cb)

        bus: Any = SimpleNamespace(client=SimpleNamespace(subscribe=subscribe))
        await on_starting(bus, lambda label, doing: None)
        await heard[0](SimpleNamespace(data=payload, subject="vv.starting"))

    asyncio.run(hear())


_ADA = Speaker("Be kind.", "en")


def _learned() -> str:
    answers = LearnedAnswers(LearnedLimits())
    answers.learn("Who are you?", "I am Ada.", _ADA, 1000.0)
    answers.learn("When?", "At nine.", _ADA, 1001.0)
    return answers.dump()


def _restore(payload: bytes) -> None:
    """What was taken has to be usable afterwards."""
    answers = LearnedAnswers(LearnedLimits(entries=10))
    answers.restore(payload.decode(), 1002.0)
    answers.find("Who are you?", _ADA, 1003.0)
    answers.learn("What now?", "Nothing.", _ADA, 1003.0)
    answers.all(1004.0)
    answers.dump().encode()


_DELTA = b'data: {"choices": [{"delta": {"content": "hi"}}], "usage": {"prompt_tokens": 3}}\n\n'


def _events(payload: bytes) -> None:
    parser = SseParser()
    for at in range(0, len(payload), 1000):
        parser.feed(payload[at : at + 1000])


def _tensors() -> kserve_pb2.ModelInferResponse:
    response = kserve_pb2.ModelInferResponse(model_name="m")
    response.outputs.add(name="out", datatype="FP32", shape=[1, 3])
    response.raw_output_contents.append(bytes(12))
    return response


def _answer_of_triton(payload: bytes) -> None:
    outputs_of(kserve_pb2.ModelInferResponse.FromString(payload))


DECODERS = (
    Decoder(
        "bus-chunk",
        "whoever may publish on the bus: services, gateways",
        _CHUNK_INPUTS,
        _chunk,
        (InvalidInputError,),
        share=3,
    ),
    Decoder(
        "grpc-request",
        "whoever reaches a service's gRPC port: gateways, the command line",
        _REQUEST_INPUTS,
        _request,
        # gRPC itself answers what is no message, see tests/wire/test_garbage.py.
        (InvalidInputError, UnknownNameError, DecodeError),
        share=2,
    ),
    Decoder(
        "spoken-text",
        "a visitor, by way of the language model; scripts; `Synthesize`",
        _SPEAK_INPUTS,
        _speak,
        (),
    ),
    Decoder(
        "discovery-answer",
        "whoever answers $SRV.INFO on the bus",
        as_json(told_wrongly([_INFO])),
        parse_info,
        (),
    ),
    Decoder(
        "starting-note",
        "whoever may publish on the bus",
        as_json(told_wrongly([{"process": "asr", "doing": "loading"}])),
        _starting,
        (),
        share=0.5,
    ),
    Decoder(
        "learned-answers",
        "the object store that gateways share; the file beside it",
        as_json(told_wrongly([json.loads(_learned())]), [_learned().encode()]),
        _restore,
        (ValueError,),
    ),
    Decoder(
        "sse-stream",
        "a language model server that somebody else runs",
        broken(
            [_DELTA * 3, b": ping\r\n\r\ndata: [DONE]\n\n"],
            [b"data:", b"\r", b"\n\n", b"\xef\xbb\xbf"],
        ),
        _events,
        (EngineError,),
    ),
    Decoder(
        "triton-answer",
        "a Triton server that somebody else runs",
        wrong_messages([_tensors()]),
        _answer_of_triton,
        (EngineError, DecodeError),
    ),
)
