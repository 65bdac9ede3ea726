"""The service over real gRPC and a real bus, with networks that answer by rule."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import pytest

from services.asr.servicer import AsrService, rules_with
from services.asr.settings import AsrSettings
from services.asr.turns.endpointing import EndpointRules
from tests.asr.doubles import COUGH, FakeHearing, loud, pcm16, quiet
from tests.fakes import MetricGrowth
from tests.serving.grpc_server import served
from visavis.serving import lease
from visavis.serving.errors import EngineError, InvalidInputError
from visavis.tools.stack.nats_server import NatsServer
from visavis.v1 import asr_pb2, asr_pb2_grpc, control_pb2, media_pb2
from visavis.wire.bus import Bus
from visavis.wire.media import PcmChunk, Place, TranscriptChunk, TranscriptEvent
from visavis.wire.subjects import Kind

Stub = asr_pb2_grpc.SpeechRecognitionStub
QUESTION = np.concatenate([quiet(10), loud(40), quiet(40)])
Code = grpc.StatusCode


@contextlib.asynccontextmanager
async def serving(
    hearing: FakeHearing | None = None, bus: Bus | None = None, **settings: Any
) -> AsyncIterator[Stub]:
    chosen = AsrSettings(**{"admission": "slots", "slots": 4, **settings})
    service = AsrService(chosen, bus, "asr-test", hearing=hearing or FakeHearing())
    async with served(service, "visavis.v1.SpeechRecognition") as channel:
        yield Stub(channel)


def config(
    rate: int = 16_000,
    language: str = "",
    interim: bool = False,
    endpointing: Any = None,
    foresight: bool = False,
) -> Any:
    return asr_pb2.RecognitionConfig(
        sample_rate_hz=rate,
        language=language,
        interim_results=interim,
        endpointing=endpointing,
        foresight=foresight,
    )


def recording(sound: np.ndarray, **fields: Any) -> Any:
    return asr_pb2.RecognizeRequest(config=config(**fields), pcm_s16le=pcm16(sound).tobytes())


async def stream(stub: Stub, *messages: Any) -> list[Any]:
    """Transcripts of one StreamingRecognize call to which `messages` are sent."""
    requests = [
        asr_pb2.StreamingRecognizeRequest(pcm_s16le=m)
        if isinstance(m, bytes)
        else asr_pb2.StreamingRecognizeRequest(config=m)
        for m in messages
    ]
    async with asyncio.timeout(30):
        return [response.transcript async for response in stub.StreamingRecognize(iter(requests))]


def pieces(sound: np.ndarray, n_samples: int = 320) -> list[bytes]:
    pcm = pcm16(sound)
    return [pcm[i : i + n_samples].tobytes() for i in range(0, len(pcm), n_samples)]


def names(transcripts: list[Any]) -> list[str]:
    return [media_pb2.TranscriptChunk.Event.Name(t.event) for t in transcripts]


async def status(stub: Stub) -> Any:
    return await stub.GetStatus(control_pb2.GetStatusRequest())


async def test_a_recording_is_recognised() -> None:
    audio = MetricGrowth("asr_audio_seconds_total")
    async with serving() as stub:
        response = await stub.Recognize(recording(QUESTION, language="en-GB"))
    assert (response.text, response.language) == ("40", "en")
    assert response.audio_ms == len(QUESTION) // 16
    assert response.words[0].end_ms == response.audio_ms
    assert audio.value == pytest.approx(len(QUESTION) / 16_000)


@pytest.mark.parametrize("rate", [8_000, 44_100])
async def test_any_common_rate_is_resampled(rate: int) -> None:
    n = rate * 2
    sound = np.full(n, 0.5, np.float32)
    async with serving() as stub:
        response = await stub.Recognize(recording(sound, rate=rate))
        transcripts = await stream(stub, config(rate), *pieces(sound, rate // 50))
    assert response.audio_ms == 2000
    assert int(response.text) == pytest.approx(62, abs=2)
    assert int(transcripts[-1].text) == pytest.approx(62, abs=2)


@pytest.mark.parametrize(
    ("request_", "code", "word"),
    [
        (recording(QUESTION, rate=7999), Code.INVALID_ARGUMENT, "sample_rate_hz"),
        (recording(QUESTION, rate=0), Code.INVALID_ARGUMENT, "sample_rate_hz"),
        (recording(QUESTION, language="tlh"), Code.NOT_FOUND, "tlh"),
        (
            asr_pb2.RecognizeRequest(config=config(), pcm_s16le=b"abc"),
            Code.INVALID_ARGUMENT,
            "pcm_s16le",
        ),
        (asr_pb2.RecognizeRequest(), Code.INVALID_ARGUMENT, "sample_rate_hz"),
        (
            asr_pb2.RecognizeRequest(config=config(8000), pcm_s16le=bytes(8000 * 2 * 601)),
            Code.INVALID_ARGUMENT,
            "600 s",
        ),
    ],
)
async def test_a_bad_recording_says_what_is_wrong(request_: Any, code: Code, word: str) -> None:
    async with serving() as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Recognize(request_)
    assert caught.value.code() is code
    assert word in caught.value.details()


async def test_recordings_are_limited_and_free_their_place() -> None:
    hearing = FakeHearing()
    hearing.hold.clear()
    async with serving(hearing, slots=1) as stub:
        first = stub.Recognize(recording(QUESTION))
        await asyncio.wait_for(hearing.asked.wait(), 30)
        assert (await status(stub)).free_recordings == 0
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Recognize(recording(QUESTION))
        assert caught.value.code() is Code.RESOURCE_EXHAUSTED
        hearing.hold.set()
        assert (await first).text == "40"
        assert (await status(stub)).free_recordings == 1
        assert (await stub.Recognize(recording(QUESTION))).text == "40"


@pytest.mark.parametrize("n_samples", [100, 513, 16_000])
async def test_a_stream_is_recognised_whatever_its_chunks(n_samples: int) -> None:
    async with serving() as stub:
        transcripts = await stream(stub, config(), *pieces(QUESTION, n_samples))
    assert names(transcripts) == ["SPEECH_STARTED", "PAUSED", "FINAL"]
    final = transcripts[-1]
    assert (final.text, final.language, final.utterance) == ("40", "en", 1)
    assert final.speech_end_samples == 50 * 512
    assert [t.header.seq for t in transcripts] == [0, 1, 2]


async def test_interim_results_come_only_when_wanted() -> None:
    sound = np.concatenate([loud(100), quiet(20)])
    async with serving() as stub:
        with_them = names(await stream(stub, config(interim=True), *pieces(sound)))
        without = names(await stream(stub, config(), *pieces(sound)))
    assert "PARTIAL" in with_them
    assert "PARTIAL" not in without


async def test_half_closing_ends_what_is_being_said() -> None:
    async with serving(slots=3) as stub:
        told = await status(stub)
        assert (told.service, told.slots, list(told.languages)) == ("asr", 3, ["en", "zh"])
        assert names(await stream(stub, config(), *pieces(loud(40))))[-1] == "FINAL"
        assert await stream(stub, config()) == []
        assert names(await stream(stub, config(), *pieces(loud(10, COUGH))))[-1] == "DISCARDED"


@pytest.mark.parametrize(
    ("messages", "code"),
    [
        ([], Code.FAILED_PRECONDITION),
        ([b"\0\0"], Code.FAILED_PRECONDITION),
        ([config(), config()], Code.FAILED_PRECONDITION),
        ([config(96_000)], Code.INVALID_ARGUMENT),
        ([config(), b"abc"], Code.INVALID_ARGUMENT),
        ([config(), bytes(2 * 16_001)], Code.INVALID_ARGUMENT),
        ([config(language="xx")], Code.NOT_FOUND),
        ([config(language="xx"), *[bytes(32_000)] * 40], Code.NOT_FOUND),  # who still sends hears
        ([config(8_000), *[bytes(32_000)] * 40], Code.INVALID_ARGUMENT),
    ],
)
async def test_a_bad_stream_says_what_is_wrong(
    messages: list[Any], code: Code, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "_HEAR_OUT_S", 20.0)  # all that is sent, on a busy machine too
    async with serving() as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream(stub, *messages)
        assert caught.value.code() is code
        assert caught.value.details()
        assert (await status(stub)).free_slots == 4


async def test_marks_without_words_are_no_text() -> None:
    hearing = FakeHearing()
    async with serving(hearing) as stub:
        for marks in ("...", ".", "?", "—"):
            hearing.transcriber.text = marks
            transcripts = await stream(stub, config(interim=True), *pieces(QUESTION))
            assert names(transcripts) == ["SPEECH_STARTED", "DISCARDED"]


async def test_a_failing_engine_ends_the_stream_with_its_error() -> None:
    hearing = FakeHearing()
    hearing.error = EngineError("decoder.onnx: out of memory")
    async with serving(hearing) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream(stub, config(), pcm16(loud(20)).tobytes())
    assert caught.value.code() is Code.UNAVAILABLE
    assert "out of memory" in caught.value.details()


async def test_a_client_that_vanishes_frees_its_slot() -> None:
    hearing = FakeHearing()
    hearing.hold.clear()
    async with serving(hearing, slots=1) as stub:
        call = stub.StreamingRecognize()
        await call.write(asr_pb2.StreamingRecognizeRequest(config=config()))
        for piece in pieces(QUESTION):
            await call.write(asr_pb2.StreamingRecognizeRequest(pcm_s16le=piece))
        await call.read()
        assert (await status(stub)).free_slots == 0
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stream(stub, config())
        assert caught.value.code() is Code.RESOURCE_EXHAUSTED
        call.cancel()
        async with asyncio.timeout(30):
            while (await status(stub)).free_slots == 0:
                pass


@contextlib.asynccontextmanager
async def attached(stub: Stub, session: str, **fields: Any) -> AsyncIterator[Any]:
    call = stub.Attach()
    await call.write(
        asr_pb2.AsrAttachRequest(
            config=asr_pb2.AsrAttachConfig(session=session, recognition=config(**fields))
        )
    )
    assert (await call.read()).ready.instance == "asr-test"
    yield call
    call.cancel()


class Microphone:
    """Publishes sound of one session, all that is said at once.

    In chunks of 100 ms, of which a service takes any number that a test says: were it to wait for
    some of them, a busy machine could make it wait as long as for somebody who has fallen silent.
    """

    def __init__(self, bus: Bus, session: str, *, pts: int = 0) -> None:
        self.bus = bus
        self.session = session
        self.pts = pts
        self.seq = 0

    async def say(self, sound: np.ndarray) -> None:
        pcm = pcm16(sound)
        for start in range(0, len(pcm), 1600):
            piece = pcm[start : start + 1600]
            place = Place(self.session, 0, self.seq, self.pts)
            await self.bus.publish(Kind.MIC, PcmChunk(place, 16_000, piece))
            self.pts += len(piece)
            self.seq += 1
        await self.bus.flush()


async def until(transcripts: Any, event: TranscriptEvent) -> list[TranscriptChunk]:
    heard: list[TranscriptChunk] = []
    async with asyncio.timeout(30):
        async for chunk in transcripts:
            heard.append(chunk)
            if chunk.event is event:
                return heard
    raise AssertionError("the transcript ended")


async def test_an_attached_session_hears_and_tells_over_the_bus_and_is_measured(bus: Bus) -> None:
    samples = ("asr_final_seconds_count", "asr_partial_seconds_count", "asr_audio_seconds_total")
    finals, partials, audio = (MetricGrowth(sample) for sample in samples)
    async with (
        serving(bus=bus) as stub,
        bus.subscribe("attached", Kind.TRANSCRIPT) as transcripts,
        attached(stub, "attached", interim=True),
    ):
        await Microphone(bus, "attached", pts=1_024_000).say(QUESTION)
        heard = await until(transcripts, TranscriptEvent.FINAL)
    final = heard[-1]
    assert final.text == "40"
    assert final.place.turn == 0
    assert final.speech_end_samples == 1_024_000 + 50 * 512
    assert [s.stage for s in final.place.stamps] == [
        "asr.ready", "asr.started", "asr.finished", "asr.certain", "asr.final",
    ]  # fmt: skip
    assert [chunk.place.seq for chunk in heard] == list(range(len(heard)))
    assert finals.value == 1 and partials.value >= 1 and audio.value >= 1.0


@pytest.mark.parametrize(
    ("foresight", "idle_cores", "told"), [(True, 0, True), (False, 0, False), (True, 1000, False)]
)
async def test_a_lease_is_told_how_likely_partial_words_are_all_where_it_asks_and_cores_are_idle(
    bus: Bus, foresight: bool, idle_cores: float, told: bool
) -> None:
    async with (
        serving(bus=bus, foresight_idle_cores=idle_cores) as stub,
        bus.subscribe("foreseen", Kind.TRANSCRIPT) as transcripts,
        attached(stub, "foreseen", interim=True, foresight=foresight),
    ):
        await Microphone(bus, "foreseen").say(QUESTION)
        heard = await until(transcripts, TranscriptEvent.FINAL)
    partials = [chunk for chunk in heard if chunk.event is TranscriptEvent.PARTIAL]
    assert partials
    assert all((chunk.end_of_turn_probability > 0) is told for chunk in partials)


async def test_a_microphone_that_falls_silent_still_gets_its_answer(bus: Bus) -> None:
    async with (
        serving(bus=bus) as stub,
        bus.subscribe("muted", Kind.TRANSCRIPT) as transcripts,
        attached(stub, "muted"),
    ):
        microphone = Microphone(bus, "muted")
        await microphone.say(loud(40))
        assert (await until(transcripts, TranscriptEvent.FINAL))[-1].text == "40"
        # Its count has stood still meanwhile, as where a button is held to speak.
        await microphone.say(np.concatenate([quiet(5), loud(20)]))
        final = (await until(transcripts, TranscriptEvent.FINAL))[-1]
    assert (final.text, final.speech_end_samples) == ("20", microphone.pts)


async def test_what_came_while_the_service_stood_still_is_no_silence(
    bus: Bus, nats_server: NatsServer
) -> None:
    def go_on_from_another_thread(microphone: Microphone) -> None:
        async def go_on() -> None:
            microphone.bus = await Bus.connect(nats_server.url, name="microphone")
            await microphone.say(np.concatenate([loud(20), quiet(40)]))
            await microphone.bus.close()

        began_s = time.monotonic()
        asyncio.run(go_on())
        time.sleep(max(0.0, began_s + 0.4 - time.monotonic()))

    async with (
        serving(bus=bus) as stub,
        bus.subscribe("late", Kind.TRANSCRIPT) as transcripts,
        attached(stub, "late", interim=True),
    ):
        microphone = Microphone(bus, "late")
        await microphone.say(np.concatenate([quiet(10), loud(20)]))
        await until(transcripts, TranscriptEvent.SPEECH_STARTED)
        with ThreadPoolExecutor(1) as pool:  # and until it has done so the loop stands still
            pool.submit(go_on_from_another_thread, microphone).result()
        final = (await until(transcripts, TranscriptEvent.FINAL))[-1]
    assert (final.text, final.speech_end_samples) == ("40", 50 * 512)


async def test_lost_chunks_count_as_silence(bus: Bus) -> None:
    async with (
        serving(bus=bus) as stub,
        bus.subscribe("lossy", Kind.TRANSCRIPT) as transcripts,
        attached(stub, "lossy"),
    ):
        microphone = Microphone(bus, "lossy")
        await microphone.say(np.concatenate([quiet(10), loud(40)]))
        microphone.pts += 3 * 512
        await microphone.say(np.concatenate([loud(20), quiet(30)]))
        final = (await until(transcripts, TranscriptEvent.FINAL))[-1]
    assert final.speech_end_samples == 73 * 512


async def test_two_sessions_hear_only_themselves(bus: Bus) -> None:
    async with (
        serving(bus=bus) as stub,
        bus.subscribe("one", Kind.TRANSCRIPT) as of_one,
        bus.subscribe("two", Kind.TRANSCRIPT) as of_two,
        attached(stub, "one"),
        attached(stub, "two", language="zh"),
    ):
        await asyncio.gather(
            Microphone(bus, "one").say(np.concatenate([quiet(10), loud(30), quiet(30)])),
            Microphone(bus, "two").say(np.concatenate([quiet(10), loud(50), quiet(30)])),
        )
        one = (await until(of_one, TranscriptEvent.FINAL))[-1]
        two = (await until(of_two, TranscriptEvent.FINAL))[-1]
    assert (one.text, one.language, one.place.session) == ("30", "en", "one")
    assert (two.text, two.language, two.place.session) == ("50", "zh", "two")


async def test_each_session_ends_utterances_by_rules_of_its_own(bus: Bus) -> None:
    sound = np.concatenate([quiet(10), loud(30), quiet(25), loud(30), quiet(100)])
    hasty, patient = (asr_pb2.Endpointing(silence_ms=ms) for ms in (320, 1600))
    changed = asr_pb2.Listening(language="en", endpointing=patient)
    async with (
        serving(bus=bus, slots=3) as stub,
        bus.subscribe("hasty", Kind.TRANSCRIPT) as of_hasty,
        bus.subscribe("patient", Kind.TRANSCRIPT) as of_patient,
        attached(stub, "hasty", endpointing=hasty) as call,
        attached(stub, "patient", endpointing=patient),
    ):
        microphone = Microphone(bus, "hasty")
        await asyncio.gather(microphone.say(sound), Microphone(bus, "patient").say(sound))
        texts = [(await until(of_hasty, TranscriptEvent.FINAL))[-1].text for _ in range(2)]
        assert texts == ["30", "30"]
        assert (await until(of_patient, TranscriptEvent.FINAL))[-1].text == "60"
        await call.write(asr_pb2.AsrAttachRequest(listening=changed))
        async with asyncio.timeout(30):
            while texts[-1] != "60":
                await microphone.say(sound)
                texts.append((await until(of_hasty, TranscriptEvent.FINAL))[-1].text)
    for wrong in ({"silence_ms": 0}, {"speech_probability": 1.0}, {"lead_ms": 5001}):
        with pytest.raises(InvalidInputError, match=next(iter(wrong))):
            rules_with(EndpointRules(), asr_pb2.Endpointing(**wrong))


async def test_the_language_of_a_session_can_change(bus: Bus) -> None:
    async with (
        serving(bus=bus) as stub,
        bus.subscribe("polyglot", Kind.TRANSCRIPT) as transcripts,
        attached(stub, "polyglot") as call,
    ):
        await call.write(asr_pb2.AsrAttachRequest(listening=asr_pb2.Listening(language="zh")))
        microphone = Microphone(bus, "polyglot")
        async with asyncio.timeout(30):
            while True:
                await microphone.say(QUESTION)
                final = (await until(transcripts, TranscriptEvent.FINAL))[-1]
                if final.language == "zh":
                    break


async def test_bad_attachments_are_refused(bus: Bus) -> None:
    async def refused(stub: Stub, *requests: Any) -> Code:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            async for _ in stub.Attach(iter(requests)):
                pass
        return caught.value.code()

    def to(session: str, **fields: Any) -> Any:
        recognition = config(**fields)
        return asr_pb2.AsrAttachRequest(
            config=asr_pb2.AsrAttachConfig(session=session, recognition=recognition)
        )

    async with serving(bus=bus) as stub, attached(stub, "taken"):
        assert await refused(stub) is Code.FAILED_PRECONDITION
        language = asr_pb2.AsrAttachRequest(listening=asr_pb2.Listening(language="en"))
        assert await refused(stub, language) is Code.FAILED_PRECONDITION
        assert await refused(stub, to("taken")) is Code.ALREADY_EXISTS
        assert await refused(stub, to("no spaces")) is Code.INVALID_ARGUMENT
        assert await refused(stub, to("x", language="xx")) is Code.NOT_FOUND
        assert await refused(stub, to("x"), to("x")) is Code.FAILED_PRECONDITION
        unknown = asr_pb2.AsrAttachRequest(listening=asr_pb2.Listening(language="xx"))
        assert await refused(stub, to("x"), unknown) is Code.NOT_FOUND
        assert (await status(stub)).free_slots == 3
    async with serving() as stub:
        assert await refused(stub, to("x")) is Code.UNAVAILABLE
