"""Riva's protocol over real gRPC, with voices without weights."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import av
import grpc
import pytest

from services.tts.servicer import TtsService
from services.tts.settings import TtsSettings
from tests.serving.grpc_server import served
from tests.tts.fakes import HOPS_PER_WORD, word_synthesizer
from visavis.v1 import riva_pb2, riva_tts_pb2_grpc
from visavis.v1 import riva_tts_pb2 as pb

Code = grpc.StatusCode
WORD_S = HOPS_PER_WORD * 300 / 24_000


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[Any, dict[str, Any]]]:
    synthesizer, voices = word_synthesizer()
    service = TtsService(TtsSettings(), None, "tts-test", synthesizer=synthesizer)
    async with served(service, "nvidia.riva.tts.RivaSpeechSynthesis") as channel:
        for voice in voices.values():
            voice.heard.clear()
        yield riva_tts_pb2_grpc.RivaSpeechSynthesisStub(channel), voices


def request(text: str, **fields: Any) -> Any:
    return pb.SynthesizeSpeechRequest(text=text, language_code="en-US", **fields)


async def test_the_whole_voice_comes_at_the_rate_that_is_asked_for() -> None:
    async with serving() as (stub, _):
        answers = {
            rate: await stub.Synthesize(
                request("Hello there.", sample_rate_hz=rate, id={"value": "mine"})
            )
            for rate in (0, 8000, 22_050, 44_100)
        }
    own = len(answers[0].audio) / 2 / 24_000
    assert own >= 2 * WORD_S
    for rate, answer in answers.items():
        assert answer.id.value == "mine" and answer.meta.text == "Hello there."
        assert len(answer.audio) / 2 / (rate or 24_000) == pytest.approx(own, abs=0.002)


async def test_words_are_timed_where_that_is_wanted() -> None:
    wanted = {"voice_name": "visavis.heart", "enable_word_time_offsets": True}
    async with serving() as (stub, _):
        words = (
            await stub.Synthesize(request("[happy] Hello there. [sad] Bye.", **wanted))
        ).meta.words
    assert [word.word for word in words] == ["Hello", "there.", "Bye."]
    times = [time for word in words for time in (word.start_time, word.end_time)]
    assert times == sorted(times) and times[1] == pytest.approx(1000 * WORD_S, abs=30)


async def test_text_that_comes_in_messages_is_spoken_before_it_ends() -> None:
    more = asyncio.Event()

    async def requests() -> AsyncIterator[Any]:
        yield request("Hello! And", sample_rate_hz=16_000)
        await more.wait()
        yield request(" so o")
        yield request("n.")
        yield request("Bye.")

    async with serving() as (stub, voices), asyncio.timeout(30):
        answers = aiter(stub.SynthesizeOnline(requests()))
        assert (await anext(answers)).audio
        more.set()
        assert [answer async for answer in answers]
    assert " ".join(voices["en"].heard).split() == ["Hello!", "And", "so", "on.", "Bye."]


async def test_opus_comes_as_a_file_in_pieces() -> None:
    async with serving() as (stub, _):
        asked = iter([request("Hello there, all of you.", encoding=riva_pb2.OGGOPUS)])
        pieces = [answer.audio async for answer in stub.SynthesizeOnline(asked)]
    with av.open(io.BytesIO(b"".join(pieces))) as container:
        samples = sum(frame.samples for frame in container.decode(audio=0))
        assert "Synthetic" in container.streams.audio[0].metadata["comment"]
    assert samples / 48_000 >= 5 * WORD_S


async def test_voices_are_listed_as_scripts_read_them() -> None:
    asked = pb.RivaSynthesisConfigRequest()
    async with serving() as (stub, _):
        told = (await stub.GetRivaSynthesisConfig(asked)).model_config
        asked.model_name = "visavis-zh"
        (chinese,) = (await stub.GetRivaSynthesisConfig(asked)).model_config
    voices = {c.parameters["language_code"]: c.parameters["subvoices"] for c in told}
    assert voices == {"en-US": "heart:0", "zh-CN": "baker:0"}
    assert chinese.parameters["voice_name"] == "visavis"


@pytest.mark.parametrize(
    ("asked", "code", "word"),
    [
        (request("  "), Code.INVALID_ARGUMENT, "text"),
        (request("<speak>Hi</speak>"), Code.INVALID_ARGUMENT, "SSML"),
        (request("Hi.", voice_name="visavis.bob"), Code.NOT_FOUND, "heart"),
        (request("Hi.", sample_rate_hz=96_000), Code.INVALID_ARGUMENT, "96000"),
        (request("Hi.", encoding=riva_pb2.FLAC), Code.INVALID_ARGUMENT, "encoding"),
        (request("Hi.", zero_shot_data={"audio_prompt": b"x"}), Code.INVALID_ARGUMENT, "zero"),
        (pb.SynthesizeSpeechRequest(text="Hi.", language_code="fr"), Code.NOT_FOUND, "fr"),
    ],
)
async def test_what_cannot_be_done_is_refused(asked: Any, code: Code, word: str) -> None:
    async with serving() as (stub, _):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Synthesize(asked)
        assert caught.value.code() is code
        assert word in (caught.value.details() or "")
        if asked.text.strip():
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                [answer async for answer in stub.SynthesizeOnline(iter([asked] * 3))]
            assert caught.value.code() is code
