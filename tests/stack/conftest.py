"""What the tests of the whole stack share: sessions, ears and a voice of their own, commands."""

from __future__ import annotations

import sys
import wave
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

import grpc.aio
import pytest

from tests.running_stack import RunningStack
from visavis.client import GatewayClient
from visavis.serving.authentication.access import Access
from visavis.serving.authentication.channel import ServiceChannel
from visavis.tools.cli.main import main
from visavis.tools.stack.keys import stack_secret
from visavis.v1 import asr_pb2, asr_pb2_grpc, tts_pb2, tts_pb2_grpc

_VOICE_RATE_HZ = 24_000


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """No stack is there beside another one, or while nobody needs it: first comes the large
    machine's, then what needs none, then the one of all others. Late is who needs it `rested`, and
    those that kill its parts are last.
    """

    def turn(item: pytest.Item) -> int:
        used = getattr(item, "fixturenames", ())
        if "gpu_stack" in used:
            return 0
        late = ("stack", "rested", "fragile")
        return max((number for number, name in enumerate(late, 2) if name in used), default=1)

    items.sort(key=turn)


@pytest.fixture
def rested(stack: RunningStack) -> RunningStack:
    """The stack, when most others have done with it: beside them its face has drawn idle life,
    which waits as long as anybody needs a core."""
    return stack


@pytest.fixture
async def gateway(stack: RunningStack) -> AsyncIterator[GatewayClient]:
    async with GatewayClient(stack.url) as client:
        yield client


class Ears:
    """The stack's own recogniser, for hearing what the avatar has said."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._stub = asr_pb2_grpc.SpeechRecognitionStub(channel)

    async def transcribe(self, pcm_s16le: bytes, language: str) -> str:
        """Text of mono sound at 16 kHz."""
        config = asr_pb2.RecognitionConfig(sample_rate_hz=16_000, language=language)
        request = asr_pb2.RecognizeRequest(config=config, pcm_s16le=pcm_s16le)
        return str((await self._stub.Recognize(request)).text)


@pytest.fixture
async def ears(gateway: GatewayClient) -> AsyncIterator[Ears]:
    async with channel_to(gateway, "asr") as channel:
        yield Ears(channel)


@asynccontextmanager
async def channel_to(gateway: GatewayClient, service: str) -> AsyncIterator[grpc.aio.Channel]:
    """To the stack's replica of a service, as the gateway knows it."""
    services = (await gateway.call("GET", "/v1/services")).json()["services"]
    address = next(s["address"] for s in services if s["service"] == service)
    async with ServiceChannel(address, Access(stack_secret(gateway.url)), service) as channel:
        yield channel


async def spoken(gateway: GatewayClient, text: str, folder: Path) -> Path:
    """A WAV of the stack's own English voice, as a visitor's."""

    async def requests() -> AsyncIterator[tts_pb2.SynthesizeRequest]:
        # Not as the avatar speaks: that would come out of its phrase cache.
        yield tts_pb2.SynthesizeRequest(config=tts_pb2.SynthesisConfig(language="en", speed=1.01))
        yield tts_pb2.SynthesizeRequest(text=text)

    async with channel_to(gateway, "tts") as channel:
        stub = tts_pb2_grpc.SpeechSynthesisStub(channel)
        answers = [a async for a in stub.Synthesize(requests())]
    path = folder / "question.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(_VOICE_RATE_HZ)
        file.writeframes(b"".join(a.voice.pcm_s16le for a in answers if a.HasField("voice")))
    return path


@dataclass(frozen=True)
class Done:
    """What a command has ended with and written."""

    status: int
    output: str
    error: str


Run = Callable[..., Done]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `visavis` with the arguments given, in this process: to start one takes longer."""

    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["visavis", *arguments])
        capsys.readouterr()
        status = 0
        try:
            main()
        except SystemExit as exit:
            status = exit.code if isinstance(exit.code, int) else 1
        return Done(status, *capsys.readouterr())

    return run


def likeness(heard: str, said: str) -> float:
    """0 to 1: how alike two texts are, letters and digits only."""

    def letters(text: str) -> str:
        return "".join(c for c in text.lower() if c.isalnum())

    return SequenceMatcher(None, letters(heard), letters(said), autojunk=False).ratio()
