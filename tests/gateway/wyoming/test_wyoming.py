"""Wyoming: every flow of its table over a socket, what is refused, and what a hang-up ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from ipaddress import ip_network
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from gateway.settings import GatewaySettings, check_exposure
from gateway.wyoming.events import Event, encoded, read_head, read_rest
from gateway.wyoming.remembering import LIFE_S, MOST_CONVERSATIONS, MOST_EXCHANGES, Conversations
from gateway.wyoming.server import WyomingServer, may_come
from tests.gateway.conftest import Rig, RunningGateway, until
from tests.gateway.doubles import KINDS, AsrDouble, LlmDouble, TtsDouble
from tests.gateway.media import tone
from visavis.serving.errors import SettingsError
from visavis.v1 import asr_pb2, llm_pb2, media_pb2, tts_pb2

pytestmark = pytest.mark.asyncio(loop_scope="module")

RATE_HZ = 24_000
AUDIO = {"rate": 16_000, "width": 2, "channels": 1}


class Told:
    """What the doubles were asked, and how many are at work."""

    config: Any = None
    samples = 0
    messages: tuple[tuple[int, str], ...] = ()
    text = ""
    at_work = 0
    waits = False


TOLD = Told()


class Llm(LlmDouble):
    async def Generate(self, request: Any, context: Any) -> AsyncIterator[Any]:
        TOLD.messages = tuple((m.role, m.content) for m in request.messages)
        TOLD.at_work += 1
        try:
            yield llm_pb2.GenerateResponse(text="It is ")
            while TOLD.waits:  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            yield llm_pb2.GenerateResponse(text="late.")
            yield llm_pb2.GenerateResponse(finish_reason="stop")
        finally:
            TOLD.at_work -= 1


class Tts(TtsDouble):
    """A quarter of a second for each piece of text, as it comes."""

    async def Synthesize(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        TOLD.text = ""
        async for request in requests:
            if request.WhichOneof("request") == "config":
                TOLD.config = request.config
                continue
            TOLD.text += request.text
            pcm = tone(RATE_HZ // 4, rate_hz=RATE_HZ).tobytes()
            voice = media_pb2.PcmChunk(sample_rate_hz=RATE_HZ, pcm_s16le=pcm)
            yield tts_pb2.SynthesizeResponse(voice=voice)


class Asr(AsrDouble):
    """Each second of sound is an utterance."""

    async def StreamingRecognize(self, requests: Any, context: Any) -> AsyncIterator[Any]:
        TOLD.samples, told = 0, 0
        async for request in requests:
            if request.WhichOneof("request") == "config":
                TOLD.config = request.config
                continue
            TOLD.samples += len(request.pcm_s16le) // 2
            while TOLD.samples // 16_000 > told:
                told += 1
                chunk = media_pb2.TranscriptChunk(event=3, text=f"word {told}.", language="en")
                yield asr_pb2.StreamingRecognizeResponse(transcript=chunk)


class RIG(Rig):
    kinds = MappingProxyType({**KINDS, "llm": Llm, "tts": Tts, "asr": Asr})


SETTINGS = {"persona": "You are the house."}


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, kind: str, payload: bytes = b"", **data: Any) -> None:
        self.writer.write(encoded(Event(kind, data, payload)))

    async def receive(self, last: str) -> list[Event]:
        """Events up to the first of type `last`."""
        events: list[Event] = []
        async with asyncio.timeout(30):
            while not events or events[-1].type != last:
                head = await read_head(self.reader)
                assert head is not None, [event.type for event in events]
                events.append(await read_rest(self.reader, head))
        return events

    async def closed(self) -> bool:
        async with asyncio.timeout(30):
            return await self.reader.read() == b""


@pytest_asyncio.fixture(loop_scope="module")
async def connect(gateway: RunningGateway) -> AsyncIterator[Any]:
    """Opens connections to a Wyoming port of the gateway's; settings may be others."""
    servers: list[WyomingServer] = []
    writers: list[asyncio.StreamWriter] = []
    TOLD.waits = False

    async def open_one(server: WyomingServer | None = None) -> Client:
        server = server or servers[0]
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writers.append(writer)
        return Client(reader, writer)

    async def listening(**settings: Any) -> WyomingServer:
        wanted = gateway.inside.settings.model_copy(update={"wyoming_port": 0, **settings})
        servers.append(WyomingServer(replace(gateway.inside, settings=wanted)))
        await servers[-1].start()
        return servers[-1]

    await listening()
    open_one.listening = listening  # type: ignore[attr-defined]
    yield open_one
    for writer in writers:
        writer.close()
    for server in servers:
        await server.stop()


def kinds(events: list[Event]) -> list[str]:
    """Types, of those that follow each other once."""
    return [e.type for i, e in enumerate(events) if not i or e.type != events[i - 1].type]


async def test_discovery_tells_three_programs_and_what_is_unknown_is_passed_over(
    connect: Any,
) -> None:
    client = await connect()
    client.send("select-program", name="visavis")
    client.send("what-is-this", b"\0" * 999, more=1)
    client.send("describe")
    client.send("ping", text="there?")
    (info, pong) = await client.receive("pong")
    assert pong.data == {"text": "there?"}
    (tts,), (handle,) = info.data["tts"], info.data["handle"]
    assert [voice["name"] for voice in tts["voices"]] == ["ada"]
    assert tts["supports_synthesize_streaming"] and handle["supports_handled_streaming"]
    assert not handle["supports_home_control"]
    for program in (*info.data["asr"], tts, handle):
        assert program["installed"] and program["attribution"]["name"] and program["version"]
    assert info.data["wake"] == info.data["mic"] == []


async def test_sound_becomes_text_while_it_is_spoken(connect: Any) -> None:
    client = await connect()
    form = {"rate": 48_000, "width": 2, "channels": 2}
    second = np.repeat(tone(48_000, rate_hz=48_000), 2).tobytes()
    client.send("transcribe", language="en-US", name="visavis")
    client.send("audio-start", **form)
    for start in range(0, len(second), 9_601):  # pieces need not end with a sample
        client.send("audio-chunk", second[start : start + 9_601], **form)
    client.send("audio-chunk", second[:48_000], **form)
    early = await client.receive("transcript-chunk")
    assert kinds(early) == ["transcript-start", "transcript-chunk"]
    client.send("audio-chunk", second[48_000:], **form)
    client.send("audio-stop")
    late = await client.receive("transcript-stop")
    assert kinds(late) == ["transcript-chunk", "transcript", "transcript-stop"]
    assert late[-2].data == {"text": "word 1. word 2.", "language": "en"}
    chunks = [e.data["text"] for e in early + late if e.type == "transcript-chunk"]
    assert "".join(chunks) == "word 1. word 2."
    assert TOLD.samples == pytest.approx(32_000, abs=2)
    assert (TOLD.config.language, TOLD.config.recorded) == ("en-US", False)


async def test_text_becomes_sound_request_after_request(connect: Any) -> None:
    client = await connect()
    for voice in ({"name": "ada", "speaker": "1"}, {"language": "en"}):
        client.send("synthesize", text="Good evening.", voice=voice)
        events = await client.receive("audio-stop")
        assert kinds(events) == ["audio-start", "audio-chunk", "audio-stop"]
        start, stop = events[0].data, events[-1].data
        assert (start["rate"], start["width"], start["channels"]) == (RATE_HZ, 2, 1)
        assert sum(len(e.payload) for e in events) == RATE_HZ // 4 * 2
        assert stop["timestamp"] == 250
        assert TOLD.config.voice == ("ada" if "name" in voice else "")
    client.send("synthesize", text="")
    assert kinds(await client.receive("audio-stop")) == ["audio-start", "audio-stop"]


async def test_text_that_is_still_written_is_spoken_already(connect: Any) -> None:
    client = await connect()
    client.send("synthesize-start", voice={"name": "ada"})
    client.send("synthesize-chunk", text="Good ")
    await client.receive("audio-chunk")
    client.send("synthesize-chunk", text="evening.")
    client.send("synthesize", text="Good evening.")  # for servers that know no streams
    client.send("synthesize-stop")
    events = await client.receive("synthesize-stopped")
    assert kinds(events)[-2:] == ["audio-stop", "synthesize-stopped"]
    assert TOLD.text == "Good evening."
    client.send("synthesize", text="Again.")
    assert kinds(await client.receive("audio-stop"))[0] == "audio-start"


async def test_a_conversation_goes_on_by_its_id(connect: Any) -> None:
    roles = llm_pb2.Message
    client = await connect()
    client.send("transcript", text="What time is it?", context={"conversation_id": "a"})
    events = await client.receive("handled-stop")
    assert kinds(events) == ["handled-start", "handled-chunk", "handled", "handled-stop"]
    assert events[-2].data == {"text": "It is late.", "context": {"conversation_id": "a"}}
    assert TOLD.messages[0][0] == roles.SYSTEM and "You are the house." in TOLD.messages[0][1]
    again = await connect()  # Home Assistant opens one for each request
    again.send("transcript", text="Sure?", context={"conversation_id": "a"})
    await again.receive("handled-stop")
    before = ((roles.USER, "What time is it?"), (roles.ASSISTANT, "It is late."))
    assert TOLD.messages[1:] == (*before, (roles.USER, "Sure?"))
    again.send("transcript", text="Who?", language="en")
    fresh = (await again.receive("handled-stop"))[0].data["context"]["conversation_id"]
    assert TOLD.messages[1:] == ((roles.USER, "Who?"),) and fresh not in ("", "a")
    again.send("transcript", text=" ")
    assert (await again.receive("not-handled"))[0].data["text"] == ""


async def test_who_hangs_up_ends_the_work(connect: Any) -> None:
    TOLD.waits = True
    client = await connect()
    client.send("transcript", text="Tell me everything.")
    await client.receive("handled-chunk")
    assert TOLD.at_work == 1
    client.writer.close()
    await until(lambda: TOLD.at_work == 0)


async def test_what_is_too_much_at_once_is_refused_and_may_be_asked_again(connect: Any) -> None:
    server = await connect.listening(wyoming_requests=1)
    TOLD.waits = True
    first, second = await connect(server), await connect(server)
    first.send("transcript", text="Tell me everything.")
    await first.receive("handled-chunk")
    second.send("synthesize", text="Hello.")
    (error,) = await second.receive("error")
    assert error.data["code"] == "over_limit"
    assert await second.closed(), "all that Home Assistant takes for an error"
    TOLD.waits = False
    await first.receive("handled-stop")
    third = await connect(server)
    third.send("synthesize", text="Hello.")
    await third.receive("audio-stop")


@pytest.mark.parametrize(
    ("events", "word"),
    [
        ([Event("synthesize", {"text": 7})], "text"),
        ([Event("synthesize", {"text": "<b/>", "text_format": "ssml"})], "text_format"),
        ([Event("synthesize", {"text": "x", "voice": "ada"})], "voice"),
        ([Event("synthesize", {"text": "x" * 100_001})], "characters"),
        ([Event("transcript", {"text": "x" * 10_001})], "characters"),
        ([Event("audio-start", AUDIO), Event("audio-chunk", AUDIO | {"width": 4}, b"\0")], "4"),
        ([Event("audio-start", AUDIO), Event("audio-chunk", {}, b"\0")], "rate"),
        (
            [Event("audio-start", AUDIO), *[Event("audio-chunk", AUDIO, bytes(960_000))] * 5],
            "120 s",
        ),
    ],
)
async def test_a_request_that_cannot_be_answered_says_why(
    connect: Any, events: list[Event], word: str
) -> None:
    client = await connect()
    for event in events:
        client.writer.write(encoded(event))
    error = (await client.receive("error"))[-1]
    assert word in error.data["text"] and error.data["code"] == "invalid_input"
    client.send("ping")  # is answered no more
    assert await client.closed()


@pytest.mark.parametrize(
    "frame",
    [
        b"what\n",
        b"[1]\n",
        b'{"data": {}}\n',
        b'{"type": "describe", "data": []}\n',
        b"[" * 60_000 + b"\n",
        b'{"type": "synthesize", "data": {"text": "Cut: \\ud83d"}}\n',
        b"x" * 80_000,
        b'{"type": "describe", "data_length": 300000}\n',
        b'{"type": "audio-chunk", "payload_length": 2000000}\n',
        b'{"type": "audio-chunk", "payload_length": -1}\n',
        b'{"type": "describe", "data_length": true}\n',
        json.dumps({"type": "describe", "data_length": 4}).encode() + b"\n\xff\xfe\0{",
    ],
)
async def test_what_is_no_frame_ends_the_connection(connect: Any, frame: bytes) -> None:
    client = await connect()
    client.writer.write(frame)
    (error,) = await client.receive("error")
    assert error.data["text"]
    assert await client.closed()


async def test_strangers_are_not_answered_and_nobody_takes_all_places(
    connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.wyoming.server.CONNECTIONS_OF_ONE", 1)
    first = await connect()
    first.send("ping")
    await first.receive("pong")
    second = await connect()
    with pytest.raises((ConnectionError, AssertionError)):
        second.send("ping")
        await second.receive("pong")


async def test_off_unless_asked_for(gateway: RunningGateway) -> None:
    server = WyomingServer(gateway.inside)
    await server.start()
    assert server.port == 0
    await server.stop()


async def test_who_may_come() -> None:
    networks = [ip_network("192.168.1.0/24"), ip_network("fd00::/8")]
    for address in ("127.0.0.1", "::1", "192.168.1.9", "::ffff:192.168.1.9", "fd00::1%eth0"):
        assert may_come(address, networks), address
    for address in ("192.168.2.9", "10.0.0.1", "2001:db8::1", "", "house"):
        assert not may_come(address, networks), address
    reached = GatewaySettings(wyoming_port=10300, wyoming_host="0.0.0.0")
    with pytest.raises(SettingsError, match="wyoming-clients"):
        check_exposure(reached)
    check_exposure(reached.model_copy(update={"wyoming_clients": ["192.168.1.0/24"]}))


async def test_conversations_are_bounded_forgotten_and_apart() -> None:
    known = Conversations()
    for number in range(MOST_EXCHANGES + 3):
        known.add(("ann", "a"), f"q{number}", f"a{number}", 0.0)
    said = known.said(("ann", "a"), 0.0)
    assert len(said) == 2 * MOST_EXCHANGES and said[0].content == "q3"
    assert known.said(("bob", "a"), 0.0) == ()
    for number in range(MOST_CONVERSATIONS):
        known.add(("bob", str(number)), "q", "a", 1.0)
    assert len(known) == MOST_CONVERSATIONS and known.said(("ann", "a"), 1.0) == ()
    assert known.said(("bob", "1"), LIFE_S) and not known.said(("bob", "1"), 1.0 + LIFE_S)
    assert len(known) == 0
