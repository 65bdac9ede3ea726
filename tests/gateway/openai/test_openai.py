"""OpenAI's HTTP API: what its clients ask for, how they are refused, and what a hang-up ends."""

from __future__ import annotations

import asyncio
import base64
import io
import itertools
import json
import wave
from collections.abc import AsyncIterator
from types import MappingProxyType
from typing import Any

import av
import grpc
import httpx
import numpy as np
import pytest
import pytest_asyncio

from gateway.openai.models import VOICES, voice_named
from gateway.openai.passages import as_srt, as_vtt, cues, words
from gateway.openai.sound_files import FORMATS
from gateway.stages.catalog import Voice
from gateway.stages.plain_calls import Passage
from tests.fakes import MetricGrowth
from tests.gateway.conftest import Rig, RunningGateway, until
from tests.gateway.doubles import KINDS, AsrDouble, Doubles, LlmDouble, TtsDouble
from tests.gateway.media import tone
from visavis.v1 import asr_pb2, llm_pb2, media_pb2, tts_pb2

pytestmark = pytest.mark.asyncio(loop_scope="module")

APP = "the key of an app with one session"
FILE = f'[[key]]\nname = "busy"\nkey = "{APP}"\nrole = "app"\nmax_sessions = 1\n'
HEADERS = {"Authorization": f"Bearer {APP}"}
JSON = {"Content-Type": "application/json"}
CHAT, SPEECH = "/v1/chat/completions", "/v1/audio/speech"
TRANSCRIPTIONS = "/v1/audio/transcriptions"
RATE_HZ = 24_000
HELLO = {"model": "visavis", "messages": [{"role": "user", "content": "Hello"}]}
LOOK = {"type": "function", "function": {"name": "look"}}
SPOKEN = {"model": "tts-1", "input": "Hello there.", "voice": "alloy"}
PASSAGES = [("Hello there. How are you?", 500, 2500), ("你好。", 3000, 4000)]


class Told:
    """What the doubles of this module say, and what they were asked."""

    answers: tuple[llm_pb2.GenerateResponse, ...] = ()
    asked: Any = None
    at_work = 0
    waits = False
    """After the first message nothing more comes."""
    voice_s = 1.3

    async def pause(self) -> None:
        if self.waits:
            await asyncio.Event().wait()


TOLD = Told()
WRITTEN = (
    llm_pb2.GenerateResponse(text="Hello"),
    llm_pb2.GenerateResponse(text=" you."),
    llm_pb2.GenerateResponse(finish_reason="stop", prompt_tokens=7, completion_tokens=2),
)
CALLED = (
    llm_pb2.GenerateResponse(
        tool_calls=[llm_pb2.ToolCallDelta(id="c1", name="look", arguments_json='{"at"')]
    ),
    llm_pb2.GenerateResponse(tool_calls=[llm_pb2.ToolCallDelta(arguments_json=": 1}")]),
    llm_pb2.GenerateResponse(finish_reason="tool_calls", prompt_tokens=7, completion_tokens=9),
)


class Llm(LlmDouble):
    async def Generate(self, request: Any, context: Any) -> AsyncIterator[Any]:
        TOLD.asked = request
        if self.name in self.script.refuse:
            await context.abort(self.script.refuse[self.name], "messages[1].role: no")
        TOLD.at_work += 1
        try:
            for index, answer in enumerate(TOLD.answers):
                if index == 1 and "middle" in self.script.silent:
                    await context.abort(grpc.StatusCode.UNAVAILABLE, "the engine failed")
                yield answer
                await TOLD.pause()
        finally:
            TOLD.at_work -= 1


class Tts(TtsDouble):
    async def Synthesize(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        TOLD.asked = [request async for request in requests]
        TOLD.at_work += 1
        try:
            pcm = tone(round(TOLD.voice_s * RATE_HZ), rate_hz=RATE_HZ)
            for piece in np.array_split(pcm, 4):
                voice = media_pb2.PcmChunk(sample_rate_hz=RATE_HZ, pcm_s16le=piece.tobytes())
                yield tts_pb2.SynthesizeResponse(voice=voice)
                await TOLD.pause()
        finally:
            TOLD.at_work -= 1


class Asr(AsrDouble):
    async def Recognize(self, request: Any, context: Any) -> Any:
        TOLD.asked = request
        TOLD.at_work += 1
        try:
            await TOLD.pause()
        finally:
            TOLD.at_work -= 1
        timed = [media_pb2.WordTime(word=w, start_ms=s, end_ms=e) for w, s, e in PASSAGES]
        text = " ".join(passage[0] for passage in PASSAGES)
        return asr_pb2.RecognizeResponse(text=text, language="en", words=timed)

    async def StreamingRecognize(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        TOLD.asked = [request async for request in requests]
        chunk, kinds = media_pb2.TranscriptChunk, media_pb2.TranscriptChunk.Event
        for event, text in ((1, ""), (2, "One"), (3, "One."), (4, "x"), (3, "Two.")):
            told = chunk(event=kinds.Name(event), text=text, language="en")
            yield asr_pb2.StreamingRecognizeResponse(transcript=told)


class OpenAiRig(Rig):
    kinds = MappingProxyType({**KINDS, "llm": Llm, "tts": Tts, "asr": Asr})


RIG = OpenAiRig


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    file = tmp_path_factory.mktemp("openai") / "access.toml"
    file.write_text(FILE)
    return {"access_file": file, "transcription_limit_mb": 0.5}


@pytest_asyncio.fixture(loop_scope="module")
async def http(gateway: RunningGateway) -> AsyncIterator[httpx.AsyncClient]:
    TOLD.answers, TOLD.waits = WRITTEN, False
    options: dict[str, Any] = {"base_url": gateway.url, "trust_env": False, "timeout": 30}
    async with httpx.AsyncClient(headers=HEADERS, **options) as http:
        yield http
    await until(lambda: not TOLD.at_work)


def refused(answer: httpx.Response, status: int) -> dict[str, Any]:
    """The error, which has to be of OpenAI's shape."""
    assert answer.status_code == status, answer.text
    assert answer.headers["x-request-id"]
    error: dict[str, Any] = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"} and error["message"]
    return error


def events_in(text: str) -> list[Any]:
    parts = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    return [part if part == "[DONE]" else json.loads(part) for part in parts]


async def test_models_and_voices_are_listed_with_their_aliases(http: httpx.AsyncClient) -> None:
    listed = (await http.get("/v1/models")).json()
    ids = [model["id"] for model in listed["data"]]
    assert {"visavis", "double", "tts-1", "whisper-1"} <= set(ids) and listed["object"] == "list"
    assert (await http.get("/v1/models/whisper-1")).json() == listed["data"][ids.index("whisper-1")]
    error = refused(await http.get("/v1/models/a/b"), 404)
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    voices = (await http.get("/v1/audio/voices")).json()["voices"]
    assert {"ada", "alloy"} <= {voice["id"] for voice in voices}


async def test_a_conversation_is_asked_and_answered_whole(http: httpx.AsyncClient) -> None:
    schema = {"type": "object", "properties": {"at": {"type": "integer"}}}
    called = {"id": "c0", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    body = {
        "model": "double",
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
            {"role": "user", "content": [{"type": "text", "text": said} for said in "ab"]},
            {"role": "assistant", "content": None, "tool_calls": [called]},
            {"role": "tool", "tool_call_id": "c0", "content": "a cat"},
        ],
        "max_completion_tokens": 9000,
        "temperature": 0,
        "top_p": 0.5,
        "stop": "END",
        "seed": -1,
        "tools": [{"type": "function", "function": {"name": "look", "parameters": schema}}],
        "tool_choice": {"type": "function", "function": {"name": "look"}},
        "parallel_tool_calls": False,
        "a field of next year": {"x": 1},
    }
    answer = await http.post(CHAT, json=body, headers={"x-request-id": "mine-1"})
    assert answer.headers["x-request-id"] == "mine-1"
    told = answer.json()
    assert (told["object"], told["model"]) == ("chat.completion", "double")
    message = told["choices"][0]["message"]
    assert (message["role"], message["content"]) == ("assistant", "Hello you.")
    assert told["choices"][0]["finish_reason"] == "stop"
    assert told["usage"] == {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
    asked = TOLD.asked
    roles = llm_pb2.Message
    assert [(m.role, m.content) for m in asked.messages] == [
        (roles.SYSTEM, "Be kind.\n\nBe brief."),
        (roles.USER, "a\nb"),
        (roles.ASSISTANT, ""),
        (roles.TOOL, "a cat"),
    ]
    assert asked.messages[2].tool_calls[0].name == "look"
    assert asked.messages[3].tool_call_id == "c0"
    assert (asked.max_tokens, asked.temperature, asked.top_p) == (2048, 0.0, 0.5)
    assert (list(asked.stop), asked.seed, asked.one_call_at_most) == (["END"], 2**32 - 1, True)
    assert json.loads(asked.tools[0].parameters_json) == schema
    assert (asked.tool_choice.mode, asked.tool_choice.name) == (llm_pb2.ToolChoice.REQUIRED, "look")


async def test_an_answer_streams_in_the_order_that_clients_know(http: httpx.AsyncClient) -> None:
    body = {**HELLO, "stream": True, "stream_options": {"include_usage": True}}
    answer = await http.post(CHAT, json=body)
    assert answer.headers["content-type"].startswith("text/event-stream")
    *chunks, usage, done = events_in(answer.text)
    assert done == "[DONE]"
    assert len({(c["id"], c["created"], c["model"]) for c in (*chunks, usage)}) == 1
    assert [c["choices"][0]["delta"] for c in chunks] == [
        {"role": "assistant", "content": ""},
        {"content": "Hello"},
        {"content": " you."},
        {},
    ]
    assert [c["choices"][0]["finish_reason"] for c in chunks] == [None, None, None, "stop"]
    assert usage["choices"] == [] and usage["usage"]["total_tokens"] == 9


async def test_calls_of_tools_come_whole_and_in_pieces(http: httpx.AsyncClient) -> None:
    TOLD.answers = CALLED
    choice = (await http.post(CHAT, json=HELLO)).json()["choices"][0]
    assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] is None
    call = {"id": "c1", "type": "function"}
    function = {"name": "look", "arguments": '{"at": 1}'}
    assert choice["message"]["tool_calls"] == [{**call, "function": function}]
    chunks = events_in((await http.post(CHAT, json={**HELLO, "stream": True})).text)[1:-2]
    assert [c["choices"][0]["delta"]["tool_calls"][0] for c in chunks] == [
        {"index": 0, **call, "function": {**function, "arguments": '{"at"'}},
        {"index": 0, "function": {"arguments": ": 1}"}},
    ]


async def test_some_of_the_tools_may_be_allowed(http: httpx.AsyncClient) -> None:
    tools = [LOOK, {"type": "function", "function": {"name": "walk"}}]
    answer = await http.post(CHAT, json={**HELLO, "tools": tools, "tool_choice": allowing("look")})
    assert answer.status_code == 200
    assert [tool.name for tool in TOLD.asked.tools] == ["look"]
    assert TOLD.asked.tool_choice.mode == llm_pb2.ToolChoice.REQUIRED


def allowing(name: str) -> dict[str, Any]:
    some = {"mode": "required", "tools": [{"type": "function", "function": {"name": name}}]}
    return {"type": "allowed_tools", "allowed_tools": some}


async def test_what_cannot_be_honoured_is_refused_by_name(http: httpx.AsyncClient) -> None:
    image = {"role": "user", "content": [{"type": "image_url"}]}
    wrong: list[tuple[dict[str, Any], str, str]] = [
        ({"n": 2}, "n", "unsupported_parameter"),
        ({"response_format": {"type": "json_object"}}, "response_format", "unsupported_parameter"),
        ({"logprobs": True}, "logprobs", "unsupported_parameter"),
        ({"presence_penalty": 0.5}, "presence_penalty", "unsupported_parameter"),
        ({"functions": []}, "functions", "unsupported_parameter"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type", "unsupported_parameter"),
        ({"tool_choice": "required"}, "tool_choice", "invalid_value"),
        ({"tools": [LOOK], "tool_choice": allowing("go")}, "tool_choice", "invalid_value"),
        ({"temperature": 3}, "temperature", "invalid_value"),
        ({"messages": []}, "messages", "invalid_value"),
        ({"messages": [image]}, "messages[0].content", "unsupported_parameter"),
    ]
    for fields, param, code in wrong:
        error = refused(await http.post(CHAT, json={**HELLO, **fields}), 400)
        assert (error["param"], error["code"]) == (param, code)
        assert error["type"] == "invalid_request_error"


async def test_a_form_that_is_not_utf_8_says_where(http: httpx.AsyncClient) -> None:
    fields: dict[str, Any] = {"model": "whisper-1", "language": b"\xe9n"}
    answer = await http.post(TRANSCRIPTIONS, files={"file": ("x.wav", b"x")}, data=fields)
    told = answer.json()["error"]
    assert answer.status_code == 400 and told["param"] == "language"
    assert told["message"] == "language: not UTF-8, at byte 1"


async def test_who_finds_no_room_is_told_why(
    gateway: RunningGateway, http: httpx.AsyncClient, doubles: Doubles
) -> None:
    there_were, doubles.script.slots = doubles.script.slots, 0
    doubles.script.capacity["refusal"] = "answers would begin too late"
    await gateway.inside.registry.refresh()
    full = refused(await http.post(CHAT, json=HELLO), 429)
    assert "llm: answers would begin too late" in full["message"]
    doubles.script.slots = there_were
    del doubles.script.capacity["refusal"]
    await gateway.inside.registry.refresh()


async def test_faults_of_the_services_have_openais_shape(
    http: httpx.AsyncClient, doubles: Doubles
) -> None:
    counted = MetricGrowth("gateway_openai_requests_total", route=CHAT, status="429")
    doubles.script.refuse["llm"] = grpc.StatusCode.INVALID_ARGUMENT
    assert refused(await http.post(CHAT, json=HELLO), 400)["param"] == "messages[1].role"
    doubles.script.refuse["llm"] = grpc.StatusCode.RESOURCE_EXHAUSTED
    for stream in (False, True):
        full = await http.post(CHAT, json={**HELLO, "stream": stream})
        assert refused(full, 429)["type"] == "rate_limit_error"
        assert int(full.headers["retry-after"]) >= 1
    assert counted.value == 2
    doubles.script.refuse["llm"] = grpc.StatusCode.UNAVAILABLE
    assert refused(await http.post(CHAT, json=HELLO), 503)["type"] == "server_error"
    doubles.script.refuse.clear()
    doubles.script.silent.add("middle")
    *_, text, late = events_in((await http.post(CHAT, json={**HELLO, "stream": True})).text)
    assert text["choices"][0]["delta"] == {"content": "Hello"}
    assert "the engine failed" in late["error"]["message"]
    broken = await http.post(CHAT, content=b"{", headers=JSON)
    refused(broken, 400)
    for content in ("Cut: \ud83d", [{"type": "text", "text": "Cut: \ud83d"}]):
        body = json.dumps({**HELLO, "messages": [{"role": "user", "content": content}]})
        half = refused(await http.post(CHAT, content=body, headers=JSON), 400)
        assert half["param"].startswith("messages.0.content") and "unicode" in half["message"]
    assert refused(await http.post(CHAT, json={**HELLO, "model": "gpt-9"}), 404)["code"]


async def test_who_hangs_up_ends_the_work(http: httpx.AsyncClient, gateway: RunningGateway) -> None:
    """While the answer flows, and while it is waited for as a whole."""
    TOLD.waits = True
    for path, body in ((CHAT, {**HELLO, "stream": True}), (SPEECH, SPOKEN)):
        async with http.stream("POST", path, json=body) as answer:
            async for _ in answer.aiter_raw():
                assert TOLD.at_work == 1
                break
        await until(lambda: not TOLD.at_work)
    recording: dict[str, Any] = {"files": {"file": wav(1.0)}, "data": {"model": "whisper-1"}}
    left = MetricGrowth("gateway_openai_requests_total", route=CHAT, status="499")
    for path, sent in ((CHAT, {"json": HELLO}), (TRANSCRIPTIONS, recording)):
        asking = asyncio.create_task(http.post(path, **sent))
        await until(lambda: TOLD.at_work)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await until(lambda: not TOLD.at_work)
    await until(lambda: left.value == 1)


async def test_keys_and_their_limits_hold(http: httpx.AsyncClient, gateway: RunningGateway) -> None:
    """A request counts as a session while it lasts."""
    TOLD.waits = True
    async with http.stream("POST", CHAT, json={**HELLO, "stream": True}) as answer:
        pieces = answer.aiter_raw()  # kept: without it the connection would be closed
        await anext(pieces)
        over = await http.post(SPEECH, json=SPOKEN)
        assert refused(over, 429)["code"] == "rate_limit_exceeded"
        assert over.headers["retry-after"]
    await until(lambda: not TOLD.at_work)
    TOLD.waits = False
    assert (await http.post(CHAT, json=HELLO)).is_success
    async with httpx.AsyncClient(base_url=gateway.url, trust_env=False) as nobody:
        answer = await nobody.get("/v1/models")
    assert answer.status_code == 401 and answer.json()["error"]["code"] == "invalid_api_key"


def seconds_in(file: bytes) -> float:
    with av.open(io.BytesIO(file)) as container:
        stream = container.streams.audio[0]
        return sum(frame.samples for frame in container.decode(stream)) / stream.rate


@pytest.mark.parametrize("form", FORMATS)
async def test_a_text_becomes_a_file_of_each_format(http: httpx.AsyncClient, form: str) -> None:
    answer = await http.post(SPEECH, json={**SPOKEN, "response_format": form, "speed": 1.5})
    assert answer.headers["content-type"] == FORMATS[form].media_type
    config = TOLD.asked[0].config
    assert (config.voice, config.speed, TOLD.asked[1].text) == ("ada", 1.5, "Hello there.")
    if form == "pcm":
        assert len(answer.content) == round(TOLD.voice_s * RATE_HZ) * 2
        return
    # MPEG's encoders begin and end with whole frames of their own.
    tolerance_s = 0.1 if form in ("mp3", "aac") else 0.002
    assert seconds_in(answer.content) == pytest.approx(TOLD.voice_s, abs=tolerance_s)
    if form == "wav":
        with wave.open(io.BytesIO(answer.content)) as file:
            assert (file.getframerate(), file.getnchannels()) == (RATE_HZ, 1)
    if form in ("mp3", "opus", "flac", "wav"):
        assert b"trainedAlgorithmicMedia" in answer.content


async def test_a_file_comes_as_events_too(http: httpx.AsyncClient) -> None:
    spoken = MetricGrowth("gateway_openai_audio_seconds_total", direction="spoken")
    body = {**SPOKEN, "stream_format": "sse", "response_format": "wav", "instructions": "Happy"}
    *pieces, done = events_in((await http.post(SPEECH, json=body)).text)
    assert TOLD.asked[0].config.style == "happy"
    assert {piece["type"] for piece in pieces} == {"speech.audio.delta"} and len(pieces) > 2
    file = b"".join(base64.b64decode(piece["audio"]) for piece in pieces)
    assert seconds_in(file) == pytest.approx(TOLD.voice_s, abs=0.002)
    assert spoken.value == pytest.approx(TOLD.voice_s, abs=0.002)
    assert done["type"] == "speech.audio.done" and done["usage"]["total_tokens"] == 0


async def test_a_speech_that_cannot_be_is_refused(http: httpx.AsyncClient) -> None:
    for field, value, status in (
        ("voice", "bob", 400),
        ("voice", 5, 400),
        ("input", " ", 400),
        ("speed", 4.0, 400),
        ("response_format", "midi", 400),
        ("model", "gpt-4o", 404),
    ):
        answer = await http.post(SPEECH, json={**SPOKEN, field: value})
        assert refused(answer, status)["param"] == field


async def test_what_no_voice_can_speak_is_refused(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TOLD, "voice_s", 0.0)
    answer = await http.post(SPEECH, json={**SPOKEN, "input": "🙂"})
    assert refused(answer, 400)["param"] == "input"


async def test_openais_voices_are_shared_out_over_ours() -> None:
    def voice(name: str, gender: str, language: str = "en") -> Voice:
        return Voice(name, [language], gender, RATE_HZ, "", "", [], [])

    english = [voice("f", "female"), voice("m", "male"), voice("g", "female")]
    ours = [*english, voice("z", "male", "zh")]
    named = {name: voice_named(name, ours) for name in VOICES}
    assert named["alloy"] == "f" and named["coral"] == "g" and named["onyx"] == "m"
    assert "z" not in named.values() and voice_named("z", ours) == "z"
    assert {voice_named(name, ours[:1]) for name in VOICES} == {"f"}


def wav(seconds: float, says_hz: int = 8000) -> bytes:
    """says_hz: the rate that it claims."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(says_hz)
        writer.writeframes(tone(round(seconds * 8000), rate_hz=8000).tobytes())
    return file.getvalue()


async def transcribed(http: httpx.AsyncClient, file: bytes, **fields: Any) -> httpx.Response:
    data = {"model": "whisper-1", **fields}
    return await http.post(TRANSCRIPTIONS, files={"file": ("a.bin", file)}, data=data)


async def test_names_of_newer_and_of_dated_models_are_taken(http: httpx.AsyncClient) -> None:
    """Those that OpenAI's client of today knows."""
    for model in ("gpt-transcribe", "gpt-4o-mini-transcribe-2025-12-15"):
        assert (await transcribed(http, wav(0.2), model=model)).status_code == 200
        refused(await transcribed(http, wav(0.2), model=f"{model}-x"), 404)
    spoken = await http.post(SPEECH, json={**SPOKEN, "model": "gpt-4o-mini-tts-2025-12-15"})
    assert spoken.status_code == 200


async def test_a_recording_becomes_each_form_of_text(http: httpx.AsyncClient) -> None:
    text = "Hello there. How are you? 你好。"
    told = (await transcribed(http, wav(5.0), language="en")).json()
    assert told == {"text": text, "usage": {"type": "duration", "seconds": 5.0}}
    assert TOLD.asked.config.language == "en"
    await transcribed(http, wav(5.0), **{"languages[]": ["zh", "en"]})
    assert TOLD.asked.config.language == "zh"
    assert len(TOLD.asked.pcm_s16le) == pytest.approx(5 * 16_000 * 2, abs=200)
    plain = await transcribed(http, wav(5.0), response_format="text")
    assert plain.text.strip() == text and plain.headers["content-type"].startswith("text/plain")
    srt = await transcribed(http, wav(5.0), response_format="srt")
    assert srt.text.startswith("1\n00:00:00,500 --> 00:00:01,") and "\n\n3\n" in srt.text
    vtt = await transcribed(http, wav(5.0), response_format="vtt")
    assert vtt.headers["content-type"].startswith("text/vtt") and vtt.text.startswith("WEBVTT\n\n0")
    fields = {"response_format": "verbose_json", "timestamp_granularities[]": ["word", "segment"]}
    told = (await transcribed(http, wav(5.0), **fields)).json()
    assert (told["language"], told["duration"]) == ("english", 5.0)
    assert [s["text"] for s in told["segments"]] == ["Hello there.", "How are you?", "你好。"]
    times = [time for word in told["words"] for time in (word["start"], word["end"])]
    assert times == sorted(times) and 0.5 <= times[0] < times[-1] <= 4.0
    assert [w["word"] for w in told["words"]][-3:] == ["you?", "你", "好"]


async def test_a_recording_is_told_utterance_by_utterance(http: httpx.AsyncClient) -> None:
    answer = await transcribed(http, wav(2.5), stream="true")
    *deltas, done = events_in(answer.text)
    assert [delta["delta"] for delta in deltas] == ["One.", " Two."]
    assert done["type"] == "transcript.text.done" and done["text"] == "One. Two."
    sent = [len(r.pcm_s16le) for r in TOLD.asked if r.WhichOneof("request") == "pcm_s16le"]
    assert max(sent) <= 32_000 and sum(sent) == pytest.approx(80_000, abs=200)


async def test_a_recording_that_cannot_be_is_refused(http: httpx.AsyncClient) -> None:
    playlist = b"#EXTM3U\n#EXTINF:1,\n/etc/passwd\n#EXT-X-ENDLIST\n"
    # 160 samples that say that each is a second long.
    for file in (b"no sound at all", b"", playlist, wav(0.02, says_hz=1)):
        assert refused(await transcribed(http, file), 400)["param"] == "file"
    assert refused(await transcribed(http, b"x" * 600_000), 413)["code"] == "too_large"
    sound = wav(0.2)
    for status, param, fields in (
        (400, "timestamp_granularities", {"timestamp_granularities[]": "word"}),
        (400, "response_format", {"response_format": "diarized_json"}),
        (400, "include", {"include[]": "logprobs"}),
        (400, "language", {"language": "?"}),
        (404, "model", {"model": "tts-1"}),
    ):
        assert refused(await transcribed(http, sound, **fields), status)["param"] == param
    nothing = await http.post(TRANSCRIPTIONS, data={"model": "whisper-1"})
    refused(nothing, 400)


async def test_who_sends_too_long_a_recording_is_told_what_may_be_sent(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.stages.plain_calls.LONGEST_RECORDING_S", 0.1)
    told = refused(await transcribed(http, wav(0.2)), 400)
    assert told["param"] == "file" and "with stream, which takes an hour" in told["message"]
    monkeypatch.setattr("gateway.openai.sound_files.LONGEST_S", 0.1)
    assert refused(await transcribed(http, wav(0.2), stream="true"), 400)["param"] == "file"


async def test_subtitles_and_words_share_a_passages_time() -> None:
    long = Passage("word " * 40, 0.0, 20.0)
    cut = cues([long])
    assert max(len(cue.text) for cue in cut) <= 84 and cut[-1].end_s == 20.0
    assert all(a.end_s == b.start_s for a, b in itertools.pairwise(cut))
    assert len(words([long])) == 40
    arrow = [Passage("a --> b", 3600.0, 3661.5)]
    assert as_vtt(arrow) == "WEBVTT\n\n01:00:00.000 --> 01:01:01.500\na → b\n"
    listed = [Passage("Bread & butter:\n\n- if x < 5", 0.0, 1.0)]
    assert as_vtt(listed).endswith("01.000\nBread &amp; butter: - if x &lt; 5\n")
    assert as_srt(listed).endswith("01,000\nBread & butter: - if x < 5\n")
    assert as_srt([]) == "" and as_vtt([]) == "WEBVTT\n"
