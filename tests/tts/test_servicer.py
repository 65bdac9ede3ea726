"""The wire: Synthesize, Attach, ListVoices, GetStatus against a server in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import grpc
import grpc.aio
import pytest

from services.tts.phrase_feed import MAX_TEXT_CHARACTERS
from services.tts.servicer import TtsService
from services.tts.settings import TtsSettings
from tests.fakes import MetricGrowth
from tests.serving.grpc_server import served
from tests.tts.fakes import word_synthesizer
from visavis.serving.settings import load_settings
from visavis.v1 import control_pb2, tts_pb2, tts_pb2_grpc
from visavis.wire.bus import Bus

Stub = tts_pb2_grpc.SpeechSynthesisStub


@asynccontextmanager
async def serving(bus: Bus | None = None) -> AsyncIterator[Stub]:
    synthesizer, _ = word_synthesizer()
    settings = load_settings(TtsSettings, ["--slots", "1"], prog="tts")
    service = TtsService(settings, bus, "tts-test", synthesizer=synthesizer)
    async with served(service, "visavis.v1.SpeechSynthesis") as channel:
        yield Stub(channel)


async def requests(
    texts: Iterable[str], **config: object
) -> AsyncIterator[tts_pb2.SynthesizeRequest]:
    yield tts_pb2.SynthesizeRequest(config=tts_pb2.SynthesisConfig(**config))  # type: ignore[arg-type]
    for text in texts:
        yield tts_pb2.SynthesizeRequest(text=text)


async def test_synthesize_streams_voice_and_mel_and_ends_them() -> None:
    first_sounds = MetricGrowth("tts_ttfa_seconds_count")
    audio = MetricGrowth("tts_audio_seconds_total", language="en")
    async with serving() as stub:
        answers = [a async for a in stub.Synthesize(requests(["Hel", "lo the", "re. Bye."]))]
    voice = [a.voice for a in answers if a.HasField("voice")]
    mel = [a.mel for a in answers if a.HasField("mel")]
    assert [chunk.header.seq for chunk in voice] == list(range(len(voice)))
    assert [chunk.header.last for chunk in voice] == [False] * (len(voice) - 1) + [True]
    assert mel[-1].header.last
    assert first_sounds.value == 2, "one for each phrase"
    assert audio.value == pytest.approx(voice[-1].header.pts / 24_000)
    assert voice[-1].header.pts == sum(len(chunk.pcm_s16le) // 2 for chunk in voice)
    assert mel[-1].header.pts == sum(len(chunk.mel_f16le) // 160 for chunk in mel)
    assert "".join(span.symbol + " " for chunk in mel for span in chunk.phonemes) == (
        "Hello there. sil Bye. "
    )


async def test_sound_comes_before_the_text_is_complete() -> None:
    async with serving() as stub:
        more = asyncio.Event()

        async def slowly() -> AsyncIterator[tts_pb2.SynthesizeRequest]:
            async for request in requests(["Hello! And"]):
                yield request
            await more.wait()

        call = stub.Synthesize(slowly())
        assert (await anext(aiter(call))).HasField("voice")
        more.set()
        assert [answer async for answer in call]


@pytest.mark.parametrize(
    ("config", "code", "says"),
    [
        ({"voice": "bob"}, grpc.StatusCode.NOT_FOUND, "heart, baker"),
        ({"language": "fr"}, grpc.StatusCode.NOT_FOUND, "fr"),
        ({"speed": 3.0}, grpc.StatusCode.INVALID_ARGUMENT, "speed"),
        ({"speed": float("nan")}, grpc.StatusCode.INVALID_ARGUMENT, "speed"),
        ({"volume": 9.0}, grpc.StatusCode.INVALID_ARGUMENT, "volume"),
    ],
)
async def test_bad_config(config: dict[str, object], code: grpc.StatusCode, says: str) -> None:
    async with serving() as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            [a async for a in stub.Synthesize(requests(["Hi."] * 3, **config))]
    assert caught.value.code() == code
    assert says in (caught.value.details() or "")


async def test_too_much_text_is_refused() -> None:
    async with serving() as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            [a async for a in stub.Synthesize(requests(["\n" * 1000, "\n" * MAX_TEXT_CHARACTERS]))]
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_text_before_config_and_second_config_are_out_of_order() -> None:
    async def text_first() -> AsyncIterator[tts_pb2.SynthesizeRequest]:
        yield tts_pb2.SynthesizeRequest(text="Hi.")

    async def two_configs() -> AsyncIterator[tts_pb2.SynthesizeRequest]:
        for _ in range(2):
            async for request in requests([]):
                yield request

    async with serving() as stub:
        for wrong in (text_first(), two_configs()):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                [a async for a in stub.Synthesize(wrong)]
            assert caught.value.code() == grpc.StatusCode.FAILED_PRECONDITION


async def test_voices_are_listed_with_licence() -> None:
    async with serving() as stub:
        everyone = await stub.ListVoices(tts_pb2.ListVoicesRequest())
        chinese = await stub.ListVoices(tts_pb2.ListVoicesRequest(language="zh-CN"))
    assert [voice.name for voice in everyone.voices] == ["heart", "baker"]
    assert [voice.name for voice in chinese.voices] == ["baker"]
    assert "non-commercial" in chinese.voices[0].licence


Request = tts_pb2.TtsAttachRequest


async def test_attach_holds_a_slot_until_the_stream_ends(bus: Bus) -> None:
    async with serving(bus) as stub:

        async def lease(session: str, done: asyncio.Event) -> AsyncIterator[Request]:
            yield Request(config=tts_pb2.TtsAttachConfig(session=session))
            await done.wait()

        async def refusal_of(session: str) -> grpc.aio.AioRpcError:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                [e async for e in stub.Attach(lease(session, asyncio.Event()))]
            return caught.value

        for told_wait in (False, True):
            done = asyncio.Event()
            events = aiter(stub.Attach(lease("s1", done)))
            assert (await anext(events)).ready.instance == "tts-test"
            status = await stub.GetStatus(control_pb2.GetStatusRequest())
            assert (status.service, status.slots, status.free_slots) == ("tts", 1, 0)
            assert (await refusal_of("s1")).code() is grpc.StatusCode.ALREADY_EXISTS
            full = await refusal_of("s2")
            assert full.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            # By how long sessions were here, so not before one has left.
            trailing = dict(full.trailing_metadata() or ())
            assert ("retry-after" in trailing) is told_wait
            assert int(trailing.get("retry-after", "1")) >= 1
            done.set()
            assert [event async for event in events] == []
            status = await stub.GetStatus(control_pb2.GetStatusRequest())
            assert status.free_slots == 1
