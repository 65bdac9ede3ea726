"""What the tests of the whole stack share: sessions, and ears of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from difflib import SequenceMatcher

import grpc.aio
import pytest

from tests.running_stack import RunningStack
from visavis.tools.client import GatewayClient
from visavis.v1 import asr_pb2, asr_pb2_grpc


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
    services = (await gateway.call("GET", "/v1/services")).json()["services"]
    address = next(s["address"] for s in services if s["service"] == "asr")
    async with grpc.aio.insecure_channel(address) as channel:
        yield Ears(channel)


def likeness(heard: str, said: str) -> float:
    """0 to 1: how alike two texts are, letters and digits only."""

    def letters(text: str) -> str:
        return "".join(c for c in text.lower() if c.isalnum())

    return SequenceMatcher(None, letters(heard), letters(said), autojunk=False).ratio()
