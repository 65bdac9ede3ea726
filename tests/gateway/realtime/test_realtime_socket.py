"""OpenAI's Realtime protocol through the real web server: WebSockets, ephemeral keys, calls."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import wave
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Self
from urllib.parse import quote

import grpc
import httpx
import numpy as np
import pytest
import pytest_asyncio
import websockets
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from numpy.typing import NDArray

from gateway.realtime.link import Link
from gateway.realtime.protocol.sound import LONGEST_APPEND_BYTES
from gateway.stages.plain_calls import RECORDINGS_AT_ONCE
from tests.fakes import MetricGrowth
from tests.gateway.conftest import Rig, RunningGateway, eventually, until
from tests.gateway.doubles import KINDS, AsrDouble, Doubles, FaceDouble, LlmDouble, TtsDouble
from tests.gateway.media import tone
from tests.gateway.visiting import Visitor
from tests.realtime_orders import Orders
from visavis.v1 import asr_pb2, face_pb2, llm_pb2, media_pb2, tts_pb2
from visavis.wire.media import Place, TokenChunk, TranscriptEvent
from visavis.wire.subjects import Kind

pytestmark = pytest.mark.asyncio(loop_scope="module")

APP = "the key of an app with sessions"
FILE = f'[[key]]\nname = "shop"\nkey = "{APP}"\nrole = "app"\n'
KEY = {"Authorization": f"Bearer {APP}"}
RATE_HZ = 24_000
CALL = "chatcmpl-tool-" + "c1" * 16
"""As vLLM has it."""
TOOL = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}


class Llm(LlmDouble):
    written = 0

    async def request(self, session: str, request: Any) -> None:
        """Says what it was asked, where that is what it answers."""
        if self.script.answer or request.WhichOneof("request") != "begin":
            await super().request(session, request)
            return
        place = Place(session, request.begin.turn, 0, 0, last=True)
        said = request.begin.request.messages[-1].content
        await self.bus.publish(Kind.TOKENS, TokenChunk(place, said))

    async def Generate(self, request: Any, context: Any) -> AsyncIterator[Any]:
        if not self.has_room_for(request.session):
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "all slots are taken")
        results = [m.content for m in request.messages if m.role == llm_pb2.Message.TOOL]
        if request.tools and not results:
            call = llm_pb2.ToolCallDelta(id=CALL, name="look", arguments_json='{"at": 1}')
            yield llm_pb2.GenerateResponse(tool_calls=[call])
        else:
            for piece in ("You see ", *results, "this."):
                yield llm_pb2.GenerateResponse(text=piece)
            if (code := self.script.shown) and request.spoken:
                yield llm_pb2.GenerateResponse(text=code, block=1, language="python")
        self.written += 1
        yield llm_pb2.GenerateResponse(finish_reason="stop", prompt_tokens=7, completion_tokens=2)


class Tts(TtsDouble):
    async def Synthesize(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        _ = [request async for request in requests]
        pcm = tone(RATE_HZ // 2, rate_hz=RATE_HZ)
        voice = media_pb2.PcmChunk(sample_rate_hz=RATE_HZ, pcm_s16le=pcm.tobytes())
        yield tts_pb2.SynthesizeResponse(voice=voice)


class Asr(AsrDouble):
    busy = 0
    """So many more calls find it reading as many recordings as it can."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.asked: list[str] = []
        """The language of each recording that was brought."""
        self.free_recordings: int | None = None
        """As it tells; None: it is one of before, which does not."""

    async def GetStatus(self, request: Any, context: Any) -> Any:
        status = await super().GetStatus(request, context)
        if self.free_recordings is not None:
            status.free_recordings = self.free_recordings
        return status

    async def Recognize(self, request: Any, context: Any) -> Any:
        self.asked.append(request.config.language)
        if self.busy:
            self.busy -= 1
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "recordings: 1 are answered")
        return asr_pb2.RecognizeResponse(text="What is it?", language="en")


class RIG(Rig):
    kinds = MappingProxyType({**KINDS, "llm": Llm, "tts": Tts, "asr": Asr})


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    file = tmp_path_factory.mktemp("realtime") / "access.toml"
    file.write_text(FILE)
    return {"access_file": file, "max_sessions": 30}


@pytest_asyncio.fixture(loop_scope="module")
async def http(gateway: RunningGateway) -> AsyncIterator[httpx.AsyncClient]:
    options: dict[str, Any] = {"base_url": gateway.url, "trust_env": False, "timeout": 30}
    async with httpx.AsyncClient(headers=KEY, **options) as http:
        yield http


class Client:
    """A client that holds all that it hears against the orders."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self.orders = Orders()
        self.heard: list[dict[str, Any]] = []

    async def say(self, kind: str, **fields: Any) -> None:
        await self._socket.send(json.dumps({"type": kind, **fields}))

    async def until(self, kind: str) -> dict[str, Any]:
        """The next event of this kind."""
        async with asyncio.timeout(20):
            while True:
                event: dict[str, Any] = json.loads(await self._socket.recv())
                self.orders.feed(event)
                self.heard.append(event)
                if event["type"] == kind:
                    return event

    async def closed(self) -> tuple[int, str]:
        """With which code and reason the gateway closes, whatever else it says first."""
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await self.until("nothing")
        assert closed.value.rcvd is not None
        return closed.value.rcvd.code, closed.value.rcvd.reason

    async def update(self, **session: Any) -> dict[str, Any]:
        await self.say("session.update", session={"type": "realtime", **session})
        return await self.until("session.updated")

    async def ask(self, text: str, **response: Any) -> dict[str, Any]:
        content = [{"type": "input_text", "text": text}]
        item = {"type": "message", "role": "user", "content": content}
        await self.say("conversation.item.create", item=item)
        await self.say("response.create", response=response)
        done = await self.until("response.done")
        return dict(done["response"])

    async def speak(self) -> None:
        """A loud sound and the silence behind it."""
        await self.sound_out(tone(RATE_HZ // 4, rate_hz=RATE_HZ))
        await self.sound_out(np.zeros(RATE_HZ // 2, np.int16))

    async def sound_out(self, pcm: NDArray[np.int16]) -> None:
        """In pieces."""
        for at in range(0, len(pcm), 480):
            audio = base64.b64encode(pcm[at : at + 480].astype("<i2").tobytes()).decode()
            await self.say("input_audio_buffer.append", audio=audio)

    def sound(self, response: str) -> int:
        """Bytes of a response's voice."""
        deltas = (e for e in self.heard if e["type"] == "response.output_audio.delta")
        mine = (e["delta"] for e in deltas if e["response_id"] == response)
        return sum(len(base64.b64decode(delta)) for delta in mine)

    @classmethod
    @asynccontextmanager
    async def connect(
        cls, gateway: RunningGateway, path: str = "/v1/realtime?model=gpt-realtime", **how: Any
    ) -> AsyncIterator[Self]:
        url = f"ws{gateway.url.removeprefix('http')}{path}"
        options = {"additional_headers": KEY} | how
        async with websockets.connect(url, proxy=None, compression=None, **options) as socket:
            yield cls(socket)


async def test_what_is_said_is_answered_aloud_and_remembered_as_it_was_heard(
    gateway: RunningGateway, doubles: Doubles
) -> None:
    def heeded() -> list[Any]:
        return [one.listening.endpointing for one in doubles.seen.of("asr", "listening")]

    doubles.script.hears = "How are you?"
    async with Client.connect(gateway) as client:
        created = await client.until("session.created")
        assert created["session"]["model"] == "gpt-realtime"
        transcription = {"transcription": {"model": "whisper-1", "language": "en"}}
        await client.update(instructions="Be brief.", audio={"input": transcription})
        await client.speak()
        done = (await client.until("response.done"))["response"]
        assert done["output"][0]["content"][0]["transcript"] == doubles.script.answer
        assert client.sound(done["id"]) == pytest.approx(2 * 0.4 * RATE_HZ, abs=8)
        told = [e for e in client.heard if e["type"].endswith("transcription.completed")]
        assert told[0]["transcript"] == "How are you?"
        (limits,) = [e for e in client.heard if e["type"] == "rate_limits.updated"]
        most = gateway.inside.settings.max_sessions
        rate = {"name": "requests", "limit": most, "remaining": most - 1, "reset_seconds": 0}
        assert limits["rate_limits"] == [rate], "of a key without limits: the gateway's"
        wanted = doubles.seen.of("asr", "config")[-1].config.recognition.endpointing
        assert (wanted.silence_ms, wanted.lead_ms) == (500, 300)
        calm = {"turn_detection": {"type": "semantic_vad", "eagerness": "low"}}
        await client.update(audio={"input": calm})
        # asr is told of each utterance that was answered, too, before the change or behind it.
        await until(lambda: heeded()[-1:] and heeded()[-1].patience_ms == 8000)
        assert not heeded()[-1].HasField("silence_ms")
        cut = {"item_id": done["output"][0]["id"], "content_index": 0, "audio_end_ms": 200}
        await client.say("conversation.item.truncate", **cut)
        await client.until("conversation.item.truncated")
        assert (await client.ask("And now?"))["status"] == "completed"
        heard = doubles.seen.prompts[-1]
        assert heard[0][1] == "Be brief. Answer in English."
        assert [content for _, content in heard[1:]] == ["How are you?", "Hello", "And now?"]
    await until(lambda: not gateway.inside.sessions.all())


async def test_text_tools_push_to_talk_and_answers_apart(
    gateway: RunningGateway, doubles: Doubles
) -> None:
    async with Client.connect(gateway) as client:
        detection: dict[str, Any] = {"turn_detection": None, "transcription": {}}
        await client.update(output_modalities=["text"], audio={"input": detection})
        done = await client.ask("What is it?")
        assert done["output"][0]["content"][0]["text"] == "You see this."
        assert done["usage"]["total_tokens"] == 9
        await client.update(output_modalities=["audio"], tools=[TOOL])
        audio = base64.b64encode(tone(RATE_HZ, rate_hz=RATE_HZ).astype("<i2").tobytes()).decode()
        await client.say("input_audio_buffer.append", audio=audio)
        await client.say("input_audio_buffer.commit")
        await client.say("response.create")
        called = (await client.until("response.done"))["response"]["output"][0]
        assert (called["name"], called["arguments"]) == ("look", '{"at": 1}')
        assert len(called["call_id"]) <= 32, "LiveKit gives a longer one back as another"
        result = {"call_id": called["call_id"], "output": "a cat, "}
        output = {"type": "function_call_output", **result}
        await client.say("conversation.item.create", item=output)
        await client.say("response.create")
        spoken = (await client.until("response.done"))["response"]
        assert spoken["output"][0]["content"][0]["transcript"] == "You see a cat, this."
        assert client.sound(spoken["id"]) == pytest.approx(2 * 0.4 * RATE_HZ, abs=8)
        apart = await client.ask("Of which mood?", conversation="none", tool_choice="none")
        assert apart["conversation_id"] is None
        assert client.sound(apart["id"]) == pytest.approx(2 * 0.5 * RATE_HZ, abs=8)
        assert client.orders.errors == [] and client.orders.quiet


async def test_code_is_not_said_of_an_answer_that_a_plain_call_writes(
    gateway: RunningGateway, doubles: Doubles
) -> None:
    doubles.script.shown = "x = 1\n"
    async with Client.connect(gateway) as client:
        ways: tuple[dict[str, Any], ...] = ({"max_output_tokens": 99}, {"conversation": "none"})
        for way in ways:
            done = await client.ask("Assign one to x.", **way)
            spoken, shown = done["output"][0]["content"]
            assert spoken["transcript"] == "You see this."
            assert shown == {"type": "output_text", "text": "```python\nx = 1\n```"}
        written = await client.ask("Assign one to x.", output_modalities=["text"])
        assert len(written["output"][0]["content"]) == 1


async def test_who_has_taken_the_last_place_is_answered_in_text_and_heard_whole(
    gateway: RunningGateway, doubles: Doubles
) -> None:
    async with Client.connect(gateway) as client:
        await client.until("session.created")
        there_were, doubles.script.slots = doubles.script.slots, 1
        try:
            await gateway.inside.registry.refresh()
            detection: dict[str, Any] = {"turn_detection": None, "transcription": {}}
            await client.update(output_modalities=["text"], audio={"input": detection})
            assert (await client.ask("What is it?"))["status"] == "completed"
            apart = {"conversation": "none", "output_modalities": ["audio"]}
            assert (await client.ask("And this?", **apart))["status"] == "completed"
            await client.speak()
            await client.say("input_audio_buffer.commit")
            heard = await client.until("conversation.item.input_audio_transcription.completed")
            assert heard["transcript"] == "What is it?"
        finally:
            doubles.script.slots = there_were
            await gateway.inside.registry.refresh()


async def test_what_is_written_for_a_session_is_asked_of_the_replica_that_has_it(
    gateway: RunningGateway, doubles: Doubles
) -> None:
    async with Client.connect(gateway) as client:
        await client.until("session.created")
        has_it = doubles.running["llm"]
        assert isinstance(has_it, Llm)
        await doubles.start("llm")  # which has more room
        await gateway.inside.registry.refresh()
        before = has_it.written
        await client.ask("What is it?", output_modalities=["text"])
        assert has_it.written == before + 1


async def test_what_a_visitor_has_said_is_read_however_many_files_are(
    gateway: RunningGateway, doubles: Doubles
) -> None:
    asr = doubles.running["asr"]
    assert isinstance(asr, Asr)
    detection: dict[str, Any] = {"turn_detection": None, "transcription": {}}
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(Client.connect(gateway))
        await client.update(output_modalities=["text"], audio={"input": detection})
        for _ in range(RECORDINGS_AT_ONCE):
            stack.enter_context(gateway.inside.plain.recordings.hold())
        asr.busy = 2
        await client.speak()
        await client.say("input_audio_buffer.commit")
        await client.say("response.create")
        done = await client.until("response.done")
        assert done["response"]["status"] == "completed"
        told = [e for e in client.heard if e["type"].endswith("transcription.completed")]
        assert told[0]["transcript"] == "What is it?" and asr.busy == 0


async def test_no_file_takes_the_place_that_what_a_visitor_has_said_waits_for(
    gateway: RunningGateway, doubles: Doubles, http: httpx.AsyncClient
) -> None:
    asr, file = doubles.running["asr"], io.BytesIO()
    assert isinstance(asr, Asr)
    with wave.open(file, "wb") as written:
        written.setparams((1, 2, RATE_HZ, 0, "NONE", ""))
        written.writeframes(tone(RATE_HZ // 4, rate_hz=RATE_HZ).tobytes())

    async def upload() -> httpx.Response:
        files, german = {"file": file.getvalue()}, {"model": "whisper-1", "language": "de"}
        return await http.post("/v1/audio/transcriptions", data=german, files=files)

    async def waits() -> bool:
        refused = await upload()
        assert refused.status_code == 429
        return "visitors" in refused.json()["error"]["message"]

    async with Client.connect(gateway) as client:
        detection: dict[str, Any] = {"turn_detection": None, "transcription": {}}
        await client.update(audio={"input": detection})
        before = len(asr.asked)
        asr.free_recordings = 0
        try:
            await client.speak()
            await client.say("input_audio_buffer.commit")
            await eventually(waits)
            assert len(asr.asked) == before, "sound was sent to a replica that has no place for it"
        finally:
            asr.free_recordings = None
        await client.until("conversation.item.input_audio_transcription.completed")
        assert "de" not in asr.asked
        assert (await upload()).json()["text"] == "What is it?" and asr.asked[-1] == "de"


async def test_an_answer_that_is_written_apart_waits_for_a_voice_that_comes_back(
    gateway: RunningGateway, doubles: Doubles
) -> None:
    async with Client.connect(gateway) as client:
        await client.until("session.created")
        [session] = gateway.inside.sessions.all()
        await doubles.stop("tts")
        await until(lambda: session.stages.instances["tts"] is None)
        llm = doubles.running["llm"]
        assert isinstance(llm, Llm)
        before = llm.written
        await client.say("response.create", response={"max_output_tokens": 100})
        await until(lambda: llm.written > before)
        await doubles.start("tts")
        assert (await client.until("response.done"))["response"]["status"] == "completed"


async def test_a_voice_interrupts_and_nothing_of_the_answer_comes_after(
    gateway: RunningGateway, doubles: Doubles
) -> None:
    doubles.script.hears, doubles.script.voice_s = "Stop.", 3.0
    doubles.script.silent.add("tts")
    ended = MetricGrowth("gateway_realtime_responses_total", status="cancelled")
    clients = MetricGrowth("gateway_realtime_sessions", transport="websocket")
    async with Client.connect(gateway) as client:
        await client.until("session.created")
        assert clients.value == 1
        await client.say("response.create")
        await client.until("response.output_audio_transcript.delta")
        await client.speak()
        await client.until("input_audio_buffer.speech_started")
        done = (await client.until("response.done"))["response"]
        assert done["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
        assert ended.value == 1
        doubles.script.silent.clear()
        assert (await client.until("response.done"))["response"]["status"] == "completed"
        assert client.orders.quiet


async def test_a_question_that_goes_on_is_one_item_and_its_half_answer_may_be_cut_once_more(
    gateway: RunningGateway, doubles: Doubles
) -> None:
    first, whole = "How far is the moon.", "How far is the moon, and the sun?"
    doubles.script.voice_s = 20.0  # of which no word is heard for long
    async with Client.connect(gateway) as client:
        by_meaning = {"turn_detection": {"type": "semantic_vad"}, "transcription": {}}
        await client.update(audio={"input": by_meaning})
        [session] = gateway.inside.sessions.all()
        visitor = Visitor(doubles, session)
        await visitor.does(TranscriptEvent.SPEECH_STARTED)
        await visitor.does(TranscriptEvent.FINAL, first)
        half = await client.until("response.output_audio.delta")
        visitor.utterance = 2
        await visitor.does(TranscriptEvent.SPEECH_STARTED)
        await visitor.does(TranscriptEvent.PARTIAL, "and the")
        await client.until("input_audio_buffer.speech_started")
        cut = {"item_id": half["item_id"], "content_index": 0, "audio_end_ms": 20}
        await client.say("conversation.item.truncate", **cut)
        gone = await client.until("conversation.item.deleted")
        assert gone["item_id"] == half["item_id"]
        doubles.script.voice_s = 0.4
        await visitor.does(TranscriptEvent.FINAL, "and the sun?")
        assert (await client.until("response.done"))["response"]["status"] == "completed"
        told = [e for e in client.heard if e["type"].endswith("transcription.completed")]
        assert [event["transcript"] for event in told] == [first, whole]
        assert [*client.orders.items][:-1] == [told[1]["item_id"]], "beside the answer"
        assert doubles.seen.prompts[-1][-1][1] == whole
        assert client.orders.errors == [] and client.orders.quiet


async def test_who_says_that_he_has_finished_need_not_wait_for_the_silence(
    gateway: RunningGateway, doubles: Doubles
) -> None:
    async with Client.connect(gateway) as client:
        patient = {"type": "server_vad", "silence_duration_ms": 5000}
        await client.update(audio={"input": {"turn_detection": patient}})
        await client.sound_out(tone(RATE_HZ // 4, rate_hz=RATE_HZ))
        await client.until("input_audio_buffer.speech_started")
        await client.say("input_audio_buffer.commit")
        await client.until("input_audio_buffer.committed")
        told = doubles.seen.of
        await until(lambda: len(told("asr", "listening")) == 3)
        waits = [one.listening.endpointing.silence_ms for one in told("asr", "listening")]
        assert waits == [5000, 500, 5000]


async def test_the_face_is_one_that_there_is_and_stays_the_clients_choice_by_whatever_name(
    gateway: RunningGateway, doubles: Doubles
) -> None:
    faces = doubles.running["face"]
    assert isinstance(faces, FaceDouble)
    async with Client.connect(gateway) as client:
        await client.until("session.created")
        [session] = gateway.inside.sessions.all()
        wrong = {"type": "realtime", "avatar": "nobody", "instructions": "Be rude."}
        await client.say("session.update", session=wrong, event_id="mine")
        error = (await client.until("error"))["error"]
        told = (error["param"], error["code"], error["event_id"])
        assert told == ("session.avatar", "invalid_value", "mine") and "eve" in error["message"]
        faces.created["bob"] = face_pb2.Avatar(name="bob")  # since the session began
        told_of = (await client.update(avatar="bob"))["session"]
        assert told_of["avatar"] == session.options.avatar == "bob"
        assert told_of["instructions"] != "Be rude."
        for name in ("robert", ""):  # as it is renamed, and as it is deleted
            session.avatar_renamed(name)
            await client.update(instructions=f"Be {name or 'nobody'}.")
            assert session.options.avatar == name
        del faces.created["bob"]
        assert (await client.update(avatar="bob"))["session"]["avatar"] == "bob"
        assert session.options.avatar == "", "it is its choice, and gone"
        faces.created["bob"] = face_pb2.Avatar(name="bob")  # it is put in again
        await client.update(avatar="bob")
        assert session.options.avatar == "bob"
        await session.update(replace(session.options, avatar="eve"))  # by its owner
        await client.update(instructions="Be eve.")
        assert session.options.avatar == "eve"
        await client.update(avatar="bob")
        assert session.options.avatar == "bob"


async def test_speech_whose_end_nobody_hears_ends_with_the_recogniser(
    gateway: RunningGateway, doubles: Doubles
) -> None:
    async with Client.connect(gateway) as client:
        await client.sound_out(np.zeros(RATE_HZ, np.int16))
        await client.sound_out(tone(RATE_HZ // 4, rate_hz=RATE_HZ))
        started = await client.until("input_audio_buffer.speech_started")
        await doubles.stop("asr")
        stopped = await client.until("input_audio_buffer.speech_stopped")
        assert stopped["item_id"] == started["item_id"]
        assert stopped["audio_end_ms"] >= started["audio_start_ms"] > 0
        item = (await client.until("conversation.item.done"))["item"]
        assert item["content"] == [{"type": "input_audio", "transcript": None}]
    await doubles.start("asr")


async def test_large_and_wrong_messages(gateway: RunningGateway) -> None:
    told = MetricGrowth("gateway_realtime_errors_total", code="invalid_event")
    async with Client.connect(gateway) as client:
        as_it_is_heard = {"type": "audio/pcm", "rate": 16_000}
        await client.update(audio={"input": {"turn_detection": None, "format": as_it_is_heard}})
        sound = base64.b64encode(bytes(LONGEST_APPEND_BYTES)).decode()
        await client.say("input_audio_buffer.append", audio=sound)
        deep = '{"type": "session.update", "session": ' + '{"a": ' * 999 + "1" + "}" * 1000
        half = '{"type": "conversation.item.retrieve", "item_id": "\\ud800"}'
        for wrong, where in (
            ("{", "line 1 column 1"),
            ("[]", "object"),
            (deep, "recursion"),
            (half, "hex escape"),
            (b'{"type": "\xff"}', "column 11"),
        ):
            await client._socket.send(wrong)
            error = (await client.until("error"))["error"]
            assert error["code"] == "invalid_event" and where in error["message"]
        assert told.value == 5
        await client.say("input_audio_buffer.clear")
        await client.until("input_audio_buffer.cleared")


async def test_who_says_a_lot_at_once_lets_others_in(gateway: RunningGateway) -> None:
    answered = MetricGrowth("gateway_realtime_errors_total", code="invalid_event")
    async with Client.connect(gateway) as client:
        await client.until("session.created")
        [session] = gateway.inside.sessions.all()
        [link] = [one for one in session.followers if isinstance(one, Link)]
        for _ in range(100):
            link.said_at_once("{")  # as by a data channel
        seen = [0.0]
        async with asyncio.timeout(20):
            while seen[-1] < 100:
                await asyncio.sleep(0)
                seen.append(answered.value)
        assert max(now - before for before, now in pairwise(seen)) == 1
        for _ in range(100):
            await client.until("error")


async def test_many_sessions_at_once(gateway: RunningGateway, doubles: Doubles) -> None:
    doubles.script.slots, doubles.script.answer, doubles.script.voice_s = 30, "", 0.1
    await gateway.inside.registry.refresh()
    barrier = asyncio.Barrier(5)

    async def one(number: int) -> set[str]:
        async with Client.connect(gateway) as client:
            await client.until("session.created")
            await barrier.wait()
            for count in range(2):
                text = f"This is visitor {number}, for the {count}th time."
                done = await client.ask(text)
                assert done["output"][0]["content"][0]["transcript"] == text
            return set(client.orders.responses) | set(client.orders.items)

    async with asyncio.timeout(40), asyncio.TaskGroup() as all_of_them:
        talks = [all_of_them.create_task(one(number)) for number in range(5)]
    seen = [talk.result() for talk in talks]
    assert len(set().union(*seen)) == sum(map(len, seen)), "an id in two streams"


async def test_who_is_refused_hears_why_and_whether_to_come_again(gateway: RunningGateway) -> None:
    async def refused(path: str) -> tuple[str, int]:
        async with Client.connect(gateway, path) as client:
            error = (await client.until("error"))["error"]
            code, _ = await client.closed()
            assert "session.created" not in client.orders.seen
            return str(error["code"]), code

    assert await refused("/v1/realtime?model=gpt-2") == ("model_not_found", 1008)
    assert await refused("/v1/realtime?call_id=nobody") == ("not_found", 1008)
    long = quote("谁" * 60)  # of three bytes each: more than a close has room for
    assert await refused(f"/v1/realtime?call_id={long}") == ("not_found", 1008)
    async with AsyncExitStack() as stack:
        for _ in range(4):  # so many slots there are
            client = await stack.enter_async_context(Client.connect(gateway))
            await client.until("session.created")
        assert await refused("/v1/realtime") == ("at_capacity", 1013)


async def test_a_gateway_that_is_about_to_end_answers_what_was_begun_and_takes_no_more(
    gateway: RunningGateway, http: httpx.AsyncClient, doubles: Doubles
) -> None:
    doubles.script.hears = "Still there?"
    leaving = gateway.inside.sessions.leaving
    async with Client.connect(gateway) as idle, Client.connect(gateway) as talking:
        await idle.until("session.created")
        await talking.until("session.created")
        await talking.sound_out(tone(RATE_HZ // 4, rate_hz=RATE_HZ))
        await talking.until("input_audio_buffer.speech_started")
        leaving.set()
        try:
            code, reason = await idle.closed()
            assert code == 1012 and "about to end" in reason and idle.orders.errors == []
            async with Client.connect(gateway) as late:
                assert (await late.until("error"))["error"]["code"] == "at_capacity"
                assert (await late.closed())[0] == 1013
                assert "session.created" not in late.orders.seen
            kind = {"Content-Type": "application/sdp"}
            refused = await http.post("/v1/realtime/calls", content="v=0", headers=kind)
            assert refused.status_code == 429 and int(refused.headers["Retry-After"]) > 0
            assert refused.json()["error"]["type"] == "rate_limit_error"
            await talking.sound_out(np.zeros(RATE_HZ // 2, np.int16))
            done = (await talking.until("response.done"))["response"]
            assert done["status"] == "completed" and talking.sound(done["id"])
            assert (await talking.closed())[0] == 1012
        finally:
            leaving.clear()
    await until(lambda: not gateway.inside.sessions.all())


async def test_an_ephemeral_key_begins_the_apps_sessions_and_nothing_else(
    gateway: RunningGateway, http: httpx.AsyncClient
) -> None:
    path = "/v1/realtime/client_secrets"
    session = {"type": "realtime", "instructions": "Be kind.", "model": "gpt-realtime-mini"}
    made = await http.post(path, json={"session": session, "expires_after": {"seconds": 60}})
    secret = made.json()
    assert secret["value"].startswith("ek_") and secret["session"]["instructions"] == "Be kind."
    wrong = await http.post(path, json={"expires_after": {"seconds": 9}})
    assert wrong.status_code == 400
    assert wrong.json()["error"]["param"] == "expires_after.seconds"
    offered = ["realtime", f"openai-insecure-api-key.{secret['value']}", "openai-agents-sdk.0.20.0"]
    options: dict[str, Any] = {"additional_headers": {}, "subprotocols": offered}
    async with Client.connect(gateway, "/v1/realtime", **options) as client:
        told = (await client.until("session.created"))["session"]
        assert client._socket.subprotocol == "realtime"
        assert (told["instructions"], told["model"]) == ("Be kind.", "gpt-realtime-mini")
        assert gateway.inside.sessions.get(told["id"]).owner == "key:shop"
        lent = {"Authorization": f"Bearer {secret['value']}"}
        assert (await http.get(f"/v1/sessions/{told['id']}", headers=lent)).status_code == 403
        assert (await http.post(path, json={}, headers=lent)).status_code == 403
        other = (await http.post(path, json={"session": session})).json()["value"]
        by_other = {"Authorization": f"Bearer {other}"}
        hang_up = f"/v1/realtime/calls/{told['id']}/hangup"
        assert (await http.post(hang_up, headers=by_other)).status_code == 404
        assert (await http.post(hang_up, headers=lent)).status_code == 200
    forged = {"Authorization": f"Bearer {secret['value'][:-2]}xx"}
    assert (await http.post("/v1/realtime/calls", headers=forged)).status_code == 401


class Caller:
    """A browser's end of a call, with a channel for events and the face in return."""

    def __init__(self) -> None:
        self.pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.tracks: dict[str, Any] = {}
        self.pc.on("track", lambda track: self.tracks.setdefault(track.kind, track))
        self.channel = self.pc.createDataChannel("oai-events")
        self.orders, self.heard = Orders(), list[dict[str, Any]]()
        self.channel.on("message", self._heard)

    def _heard(self, message: str) -> None:
        event = json.loads(message)
        self.orders.feed(event)
        self.heard.append(event)

    async def call(self, http: httpx.AsyncClient, *, video: bool) -> str:
        """The call's address."""
        self.pc.addTransceiver("audio", direction="sendrecv")
        if video:
            self.pc.addTransceiver("video", direction="recvonly")
        await self.pc.setLocalDescription(await self.pc.createOffer())
        session = json.dumps({"type": "realtime", "instructions": "Be kind."})
        form = {"sdp": (None, self.pc.localDescription.sdp), "session": (None, session)}
        answer = await http.post("/v1/realtime/calls", files=form)
        assert answer.status_code == 201, answer.text
        assert answer.headers["Content-Type"].startswith("application/sdp")
        await self.pc.setRemoteDescription(RTCSessionDescription(answer.text, "answer"))
        return str(answer.headers["Location"])

    async def until(self, kind: str) -> dict[str, Any]:
        """The first event of this kind."""
        found = await until(lambda: [event for event in self.heard if event["type"] == kind])
        return dict(found[0])


async def test_a_call_is_answered_with_voice_and_where_it_is_asked_for_with_the_face(
    gateway: RunningGateway, http: httpx.AsyncClient, doubles: Doubles
) -> None:
    caller = Caller()
    try:
        where = await caller.call(http, video=True)
        await caller.until("session.created")
        call_id = where.rpartition("/")[2]
        async with Client.connect(gateway, f"/v1/realtime?call_id={call_id}") as beside:
            await beside.until("session.created")
            await beside.say("response.create")
            done = await caller.until("response.done")
            assert (await beside.until("response.done"))["response"] == done["response"]
        answered = done["response"]["output"][0]["content"][0]["transcript"]
        assert answered == doubles.script.answer
        await caller.until("output_audio_buffer.stopped")
        kinds = [event["type"] for event in caller.heard]
        assert "response.output_audio.delta" not in kinds
        assert "output_audio_buffer.started" in kinds
        assert set(caller.tracks) == {"audio", "video"}
        assert (await caller.tracks["video"].recv()).width == 64
        assert (await http.post(f"{where}/hangup")).status_code == 200
        await until(lambda: not gateway.inside.sessions.all())
        assert (await http.post(f"{where}/hangup")).status_code == 404
    finally:
        await caller.pc.close()


async def test_who_hangs_up_leaves_nothing_behind(
    gateway: RunningGateway, http: httpx.AsyncClient
) -> None:
    caller = Caller()
    await caller.call(http, video=False)
    await caller.until("session.created")
    assert set(caller.tracks) == {"audio"}, "no face: nobody asked for it"
    await caller.pc.close()
    await until(lambda: not gateway.inside.sessions.all())
    broken = await http.post(
        "/v1/realtime/calls", content="v=0", headers={"Content-Type": "application/sdp"}
    )
    assert broken.status_code == 400 and not gateway.inside.sessions.all()
