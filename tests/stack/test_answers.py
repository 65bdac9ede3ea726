"""Known answers and the welcome phrase with the real stack."""

from __future__ import annotations

import asyncio
import json
import re
import wave
from pathlib import Path

import grpc.aio
import httpx
import numpy as np
from numpy.typing import NDArray

from tests.running_stack import KNOWN_ANSWER, KNOWN_QUESTION, WELCOME
from tests.stack.conftest import Ears, likeness
from tests.stack.test_conversation import answer_of, recorded_answer, until_turn
from visavis.tools.bench.visitor.clips import read_mono
from visavis.tools.client import MIC_RATE_HZ, GatewayClient
from visavis.v1 import tts_pb2, tts_pb2_grpc

VOICE_RATE_HZ = 24_000


async def words_read(gateway: GatewayClient) -> float:
    """Tokens that the language model has read and written so far."""
    targets = (await gateway.call("GET", "/v1/metrics-targets")).json()
    (target,) = [t["targets"][0] for t in targets if t["labels"]["service"] == "llm"]
    async with httpx.AsyncClient(trust_env=False) as http:
        text = (await http.get(f"http://{target}/metrics")).text
    return sum(map(float, re.findall(r"^llm_tokens_total\{.*\} (\S+)$", text, re.M)))


async def spoken(gateway: GatewayClient, text: str, folder: Path) -> NDArray[np.int16]:
    """A visitor's voice at 16 kHz."""
    services = (await gateway.call("GET", "/v1/services")).json()["services"]
    address = next(s["address"] for s in services if s["service"] == "tts")

    async def requests():  # type: ignore[no-untyped-def]
        yield tts_pb2.SynthesizeRequest(config=tts_pb2.SynthesisConfig(language="en", speed=1.01))
        yield tts_pb2.SynthesizeRequest(text=text)

    async with grpc.aio.insecure_channel(address) as channel:
        stub = tts_pb2_grpc.SpeechSynthesisStub(channel)
        answers = [a async for a in stub.Synthesize(requests())]
    path = folder / "question.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(VOICE_RATE_HZ)
        file.writeframes(b"".join(a.voice.pcm_s16le for a in answers if a.HasField("voice")))
    return read_mono(path, MIC_RATE_HZ)


async def test_a_known_question_typed_is_answered_aloud_without_the_language_model(
    gateway: GatewayClient, ears: Ears, tmp_path: Path
) -> None:
    warmed = [line async for line in gateway.lines("POST", "/v1/cache/warm", json={})]
    assert all(json.loads(line)["error"] == "" for line in warmed)
    before = await words_read(gateway)
    answer, video = await recorded_answer(gateway, tmp_path, "so what are your opening hours")
    assert answer == KNOWN_ANSWER
    assert await words_read(gateway) == before
    shown = (await gateway.call("GET", "/v1/cache")).json()
    assert shown["configured"][0]["hits"] >= 1
    assert shown["phrases"][0]["hits"] >= 1, "its sound was ready before it was asked for"
    heard = await ears.transcribe(read_mono(video, MIC_RATE_HZ).tobytes(), "en")
    assert likeness(heard.replace("9", "nine").replace("5", "five"), KNOWN_ANSWER) > 0.85


async def test_a_known_question_spoken_is_answered_from_the_cache(
    gateway: GatewayClient, tmp_path: Path
) -> None:
    pcm = await spoken(gateway, KNOWN_QUESTION, tmp_path)
    async with gateway.session(language="en") as session:
        stop = asyncio.Event()
        microphone = asyncio.create_task(session.speak(pcm, stop))
        events = await until_turn(session, "finished", "failed")
        stop.set()
        await microphone
        assert answer_of(events) == KNOWN_ANSWER
        turn = events[-1]["turn"]
        record = (await gateway.call("GET", f"/v1/sessions/{session.id}/turns/{turn}")).json()
        assert record["answered_by"] == "cache"
        assert record["voice_to_voice_ms"] > 0


async def test_the_avatar_greets_whoever_comes(
    gateway: GatewayClient, ears: Ears, tmp_path: Path
) -> None:
    async with gateway.session(language="en", welcome=True) as session:
        await gateway.call("POST", f"/v1/sessions/{session.id}/recording", json={"scope": "turn"})
        events = await until_turn(session, "finished")
        assert answer_of(events) == WELCOME
        path = tmp_path / "welcome.mp4"
        path.write_bytes(await session.recording())
    heard = await ears.transcribe(read_mono(path, MIC_RATE_HZ).tobytes(), "en")
    assert likeness(heard, WELCOME) > 0.85
