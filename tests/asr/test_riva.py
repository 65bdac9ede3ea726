"""Riva's protocol over real gRPC, with networks that answer by rule."""

from __future__ import annotations

import asyncio
import contextlib
import io
import struct
import threading
import wave
from collections.abc import AsyncIterator
from fractions import Fraction
from typing import Any

import av
import grpc
import numpy as np
import pytest

from services.asr.riva.incoming import Encoding, Incoming
from services.asr.servicer import AsrService
from services.asr.settings import AsrSettings
from tests.asr.doubles import FakeHearing, loud, pcm16, quiet
from tests.serving.grpc_server import served
from visavis.serving.errors import InvalidInputError
from visavis.v1 import riva_asr_pb2 as pb
from visavis.v1 import riva_asr_pb2_grpc, riva_pb2

Stub = riva_asr_pb2_grpc.RivaSpeechRecognitionStub
Code = grpc.StatusCode
QUESTION = np.concatenate([quiet(10), loud(40), quiet(40)])


@contextlib.asynccontextmanager
async def serving(hearing: FakeHearing | None = None) -> AsyncIterator[Any]:
    service = AsrService(AsrSettings(), None, "asr-test", hearing=hearing or FakeHearing())
    async with served(service, "nvidia.riva.asr.RivaSpeechRecognition") as channel:
        yield Stub(channel)


def wav(sound: np.ndarray, rate: int = 16_000, channels: int = 1) -> bytes:
    written = io.BytesIO()
    with wave.open(written, "wb") as file:
        file.setparams((channels, 2, rate, 0, "NONE", ""))
        file.writeframes(np.repeat(pcm16(sound), channels).tobytes())
    return written.getvalue()


def flac(sound: np.ndarray) -> bytes:
    written = io.BytesIO()
    with av.open(written, "w", format="flac") as container:
        stream: Any = container.add_stream("flac", rate=16_000, layout="mono")
        frame = av.AudioFrame.from_ndarray(pcm16(sound)[None, :], format="s16", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = 16_000, 0, Fraction(1, 16_000)
        container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return written.getvalue()


def config(interim: bool = False, **fields: Any) -> Any:
    streaming = pb.StreamingRecognitionConfig(
        config=pb.RecognitionConfig(**fields), interim_results=interim
    )
    return pb.StreamingRecognizeRequest(streaming_config=streaming)


def audio(data: bytes, size: int = 3200) -> list[Any]:
    pieces = [data[i : i + size] for i in range(0, len(data), size)]
    return [pb.StreamingRecognizeRequest(audio_content=piece) for piece in pieces]


async def results(stub: Any, *requests: Any) -> list[Any]:
    async with asyncio.timeout(30):
        answers = [answer async for answer in stub.StreamingRecognize(iter(requests))]
    return [result for answer in answers for result in answer.results]


@pytest.mark.parametrize("size", [3, 3200, 1_000_000])
async def test_a_file_is_streamed_as_it_is_and_its_header_says_the_rate(size: int) -> None:
    data = wav(np.full(48_000, 0.5, np.float32), 24_000, channels=2)
    # What stands behind the samples is no sound.
    data += b"LIST" + struct.pack("<I", 80_000) + b"\x3f" * 80_000
    if size == 3:  # the header in small parts, the rest as it is
        requests = [*audio(data[:60], 3), *audio(data[60:])]
    else:
        requests = audio(data, size)
    async with serving() as stub:
        (final,) = await results(stub, config(), *requests)
    assert final.is_final and final.stability == 1.0
    (alternative,) = final.alternatives
    assert alternative.transcript.endswith(" "), "clients print finals one behind the other"
    assert int(alternative.transcript) == pytest.approx(62, abs=2)
    assert list(alternative.language_code) == ["en"]


async def test_looks_at_unfinished_speech_are_not_stable() -> None:
    raw = pcm16(np.concatenate([loud(100), quiet(20)])).tobytes()
    wanted = {"encoding": riva_pb2.LINEAR_PCM, "sample_rate_hertz": 16_000}
    async with serving() as stub:
        told = await results(stub, config(interim=True, **wanted), *audio(raw))
        plain = await results(stub, config(language_code="en-US", **wanted), *audio(raw))
    assert [result.is_final for result in plain] == [True]
    assert len(told) > 1 and told[-1].is_final
    assert all(not look.is_final and look.stability < 1 for look in told[:-1])
    assert all(result.alternatives[0].transcript for result in told)


async def test_an_utterance_ends_where_the_client_says_so() -> None:
    going_on = asyncio.Event()

    async def requests() -> AsyncIterator[Any]:
        yield config(sample_rate_hertz=16_000)
        for request in audio(pcm16(loud(40)).tobytes()):
            yield request
        yield pb.StreamingRecognizeRequest(runtime_config={"force_eou": "true"})
        await going_on.wait()
        for request in audio(pcm16(loud(20)).tobytes()):
            yield request

    async with serving() as stub, asyncio.timeout(30):
        answers = aiter(stub.StreamingRecognize(requests()))
        first = await anext(answers)
        assert first.results[0].is_final, "while the stream is open"
        going_on.set()
        (second,) = [answer async for answer in answers]
    assert second.results[0].is_final


@pytest.mark.parametrize(
    ("requests", "code", "word"),
    [
        ([], Code.INVALID_ARGUMENT, "config"),
        (audio(b"\0\0"), Code.INVALID_ARGUMENT, "config"),
        ([config(), *audio(b"\0\0\0\0")], Code.INVALID_ARGUMENT, "sample_rate_hertz"),
        ([config(), *audio(b"RIFF\0\0\0\0AVI ")], Code.INVALID_ARGUMENT, "WAV"),
        ([config(), *audio(b"fLaCfLaCfLaC")], Code.INVALID_ARGUMENT, "FLAC"),
        ([config(sample_rate_hertz=16_000), config()], Code.INVALID_ARGUMENT, "audio_content"),
        ([config(sample_rate_hertz=400), *audio(bytes(8))], Code.INVALID_ARGUMENT, "400"),
        ([config(language_code="tlh")], Code.NOT_FOUND, "tlh"),
        ([config(model="parakeet")], Code.NOT_FOUND, "fake"),
        (
            [config(diarization_config={"enable_speaker_diarization": True})],
            Code.INVALID_ARGUMENT,
            "diarization",
        ),
    ],
)
async def test_a_bad_stream_says_what_is_wrong(requests: list[Any], code: Code, word: str) -> None:
    async with serving() as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await results(stub, *requests)
    assert caught.value.code() is code
    assert word in (caught.value.details() or "")


@pytest.mark.parametrize("made", [wav, flac])
async def test_a_recording_is_a_file_and_its_words_have_times(made: Any) -> None:
    request = pb.RecognizeRequest(
        config=pb.RecognitionConfig(enable_word_time_offsets=True),
        audio=made(QUESTION),
        id={"value": "mine"},
    )
    async with serving() as stub:
        answer = await stub.Recognize(request)
        silence = await stub.Recognize(pb.RecognizeRequest(audio=made(quiet(40))))
    assert answer.id.value == "mine"
    (result,) = answer.results
    assert result.audio_processed == pytest.approx(len(QUESTION) / 16_000)
    (alternative,) = result.alternatives
    assert alternative.transcript == "40"
    (word,) = alternative.words
    assert (word.word, word.end_time) == ("40", len(QUESTION) // 16)
    assert not silence.results


async def test_others_do_not_wait_while_a_large_message_is_decoded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decode, threads = Incoming.feed, set[int]()

    def noted(incoming: Incoming, data: bytes) -> Any:
        threads.add(threading.get_ident())
        return decode(incoming, data)

    monkeypatch.setattr(Incoming, "feed", noted)
    large = wav(np.concatenate([QUESTION, quiet(400)]))
    async with serving() as stub:
        assert (await stub.Recognize(pb.RecognizeRequest(audio=large))).results
        assert await results(stub, config(), *audio(large, len(large)))
    assert threads and threading.get_ident() not in threads


async def test_recognisers_are_listed_as_scripts_read_them() -> None:
    request = pb.RivaSpeechRecognitionConfigRequest()
    async with serving() as stub:
        told = (await stub.GetRivaSpeechRecognitionConfig(request)).model_config
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            request.model_name = "parakeet"
            await stub.GetRivaSpeechRecognitionConfig(request)
    assert caught.value.code() is Code.NOT_FOUND
    kinds = {(c.model_name, c.parameters["language_code"], c.parameters["type"]) for c in told}
    assert kinds == {("fake", tag, kind) for tag in ("en", "zh") for kind in ("online", "offline")}


def test_telephone_codes_are_what_they_stand_for() -> None:
    """ITU-T G.711: silence, the loudest of both signs, a small one."""
    for encoding, codes, samples in (
        (Encoding.MULAW, [0xFF, 0x7F, 0x80, 0x00, 0xEF], [0, 0, 32124, -32124, 132]),
        (Encoding.ALAW, [0xD5, 0x55, 0xAA, 0x2A, 0xC5], [8, -8, 32256, -32256, 264]),
    ):
        incoming = Incoming(encoding, 8000)
        assert incoming.feed(bytes(codes)).tolist() == samples
        assert (incoming.sample_rate_hz, len(incoming.finish())) == (8000, 0)


def test_channels_are_mixed_and_a_header_without_end_is_refused() -> None:
    incoming = Incoming(Encoding.PCM, 8000, channels=2)
    pcm = np.array([[100, 300], [-7, -9]], "<i2").tobytes()
    assert [*incoming.feed(pcm[:3]), *incoming.feed(pcm[3:])] == [200, -8]
    damaged = Incoming(Encoding.UNKNOWN, 0)
    with pytest.raises(InvalidInputError, match="header"):
        damaged.feed(b"RIFF\0\0\0\0WAVEjunk" + struct.pack("<I", 2**31) + bytes(70_000))
