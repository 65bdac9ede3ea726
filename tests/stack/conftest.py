"""What the tests of the whole stack share: sessions, ears and a voice of their own, commands."""

from __future__ import annotations

import shutil
import sys
import wave
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

import grpc.aio
import pytest

from tests.running_stack import RunningStack
from visavis.bundles.compile.plans.cache import plan_dir
from visavis.bundles.store import profile
from visavis.client import GatewayClient
from visavis.serving.authentication.access import Access
from visavis.serving.authentication.channel import ServiceChannel
from visavis.tools.cli.main import main
from visavis.tools.stack.keys import stack_secret
from visavis.v1 import asr_pb2, asr_pb2_grpc, tts_pb2, tts_pb2_grpc

COMPILED = {"asr", "tts", "face"}
"""Services whose networks are compiled where there is a GPU."""
_VOICE_RATE_HZ = 24_000
_ROOT = Path(__file__).parents[2]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that kill parts of the stack come last."""
    items.sort(key=lambda item: "fragile" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def gpu_stack(
    tmp_path_factory: pytest.TempPathFactory, bundle: Callable[[str], Path]
) -> Iterator[RunningStack]:
    """A large machine's stack: its networks run by plans, on doubles of a GPU and of TensorRT, and
    there are two faces, which keep avatars in its folder `avatars`, and two gateways.
    """
    for bundles in profile("tiny").values():
        for name in bundles:
            bundle(name)
    folder = tmp_path_factory.mktemp("gpu")
    # The language model's weights, if they are laid out for the processor: its plans are no GPU's.
    for laid_out in plan_dir().glob("*/weights.*"):
        kept = folder / "plans" / laid_out.parent.name
        kept.mkdir(parents=True, exist_ok=True)
        shutil.copy2(laid_out, kept)
    environ = {
        "PYTHONPATH": f"{_ROOT / 'tests/engine/tensorrt/machine'}:{_ROOT}",
        "VISAVIS_PLAN_DIR": str(folder / "plans"),
        "VISAVIS_LLM_MAX_TOKENS": "12",
        "VISAVIS_FACE_AVATAR_DIR": str(folder / "avatars"),
        # Compiling takes up and gives back blocks of a hundred megabytes: to have them from the
        # system anew each time, page by page, takes as long as the work itself.
        "MALLOC_MMAP_THRESHOLD_": "4000000000",
        "MALLOC_TRIM_THRESHOLD_": "4000000000",
    }
    for service in sorted(COMPILED):
        environ[f"VISAVIS_{service.upper()}_DEVICE"] = "cuda:0"
        # A CPU computes on 32 bits; the shapes are the same.
        environ[f"VISAVIS_{service.upper()}_PRECISION"] = "fp32"
    replicas = ("--replicas", "face=2,gateway=2")
    running = RunningStack(folder, *replicas, environ=environ, ready_timeout_s=380)
    yield running
    alive = running.stop()
    assert alive == [], f"left behind after Ctrl-C: {alive}"
    assert running.bus_lost() == [], "Ctrl-C ends the bus before those who need it"
    assert running.faults() == []


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
