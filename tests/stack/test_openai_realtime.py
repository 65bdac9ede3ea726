"""The Realtime protocol on the real stack: by a plain WebSocket, and by OpenAI's Python SDK where
that is installed (`make clients`).
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import websockets

from tests.realtime_orders import Orders
from tests.running_stack import RunningStack
from tests.stack.conftest import Ears, spoken
from visavis.client import GatewayClient

_ROOT = Path(__file__).parents[2]
_PYTHON = Path(os.environ.get("VISAVIS_CLIENTS", _ROOT / ".venv-clients")) / "bin" / "python"
_WITHIN_S = 170.0
QUESTION = "What is the capital of France?"


async def test_a_question_aloud_is_answered_aloud(
    stack: RunningStack, gateway: GatewayClient, ears: Ears, tmp_path: Path
) -> None:
    with wave.open(str(await spoken(gateway, QUESTION, tmp_path))) as file:
        question = file.readframes(file.getnframes()) + bytes(2 * 24_000)
    orders, sound = Orders(), b""
    url = f"ws{stack.url.removeprefix('http')}/v1/realtime?model=gpt-realtime"
    session = {"type": "realtime", "audio": {"input": {"transcription": {"language": "en"}}}}
    async with websockets.connect(url, proxy=None) as socket, asyncio.timeout(60):
        await socket.send(json.dumps({"type": "session.update", "session": session}))
        audio = base64.b64encode(question).decode()
        await socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
        while "response.done" not in orders.seen:
            event = json.loads(await socket.recv())
            orders.feed(event)
            if event["type"].endswith("transcription.completed"):
                assert "capital of france" in event["transcript"].lower()
            elif event["type"] == "response.output_audio.delta":
                sound += base64.b64decode(event["delta"])
    answer = event["response"]["output"][0]["content"][0]["transcript"]
    assert orders.quiet and orders.errors == [] and answer
    # A third of its samples are enough for words: 24 kHz to 8, and each twice.
    pcm = np.frombuffer(sound, "<i2")[::3].repeat(2)
    heard = await ears.transcribe(pcm.tobytes(), "en")
    first = "".join(c for c in answer.split()[0].lower() if c.isalpha())
    assert first in heard.lower() or len(heard) > len(answer) // 3


async def test_each_session_waits_as_long_as_its_client_wants(
    stack: RunningStack, gateway: GatewayClient, tmp_path: Path
) -> None:
    with wave.open(str(await spoken(gateway, QUESTION, tmp_path))) as file:
        question = file.readframes(file.getnframes())
    # A second between the two, and enough behind them.
    twice = question + bytes(2 * 24_000) + question + bytes(6 * 24_000)
    url = f"ws{stack.url.removeprefix('http')}/v1/realtime?intent=transcription"

    async def heard(silence_ms: int) -> list[str]:
        orders, texts = Orders(), list[str]()
        detection = {"type": "server_vad", "silence_duration_ms": silence_ms}
        listening = {"transcription": {"language": "en"}, "turn_detection": detection}
        session = {"type": "transcription", "audio": {"input": listening}}
        async with websockets.connect(url, proxy=None) as socket, asyncio.timeout(60):
            await socket.send(json.dumps({"type": "session.update", "session": session}))
            audio = base64.b64encode(twice).decode()
            await socket.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
            while " ".join(texts).lower().count("france") < 2:
                event = json.loads(await socket.recv())
                orders.feed(event)
                if event["type"].endswith("transcription.completed"):
                    texts.append(event["transcript"])
        assert orders.errors == [] and not orders.responses
        assert any(kind.endswith("transcription.segment") for kind in orders.seen)
        return texts

    hasty, patient = await asyncio.gather(heard(400), heard(1800))
    assert (len(hasty), len(patient)) == (2, 1), (hasty, patient)


@pytest.fixture(scope="module")
def seen(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the SDK has heard: all events of each part."""
    folder = tmp_path_factory.mktemp("realtime")

    async def say() -> Path:
        async with GatewayClient(stack.url) as client:
            return await spoken(client, QUESTION, folder)

    path = asyncio.run(say())
    script = Path(__file__).with_name("openai_realtime.py")
    command = [str(part) for part in (_PYTHON, script, stack.url, path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_WITHIN_S)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


installed = pytest.mark.skipif(
    not _PYTHON.exists(), reason="OpenAI's SDK is not installed: `make clients` installs it"
)


def done_in(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [event["response"] for event in events if event["type"] == "response.done"]


@pytest.mark.client(
    "openai", "Realtime: a text, an answer apart from the conversation, a cancel of nothing"
)
@installed
def test_text_and_an_answer_apart(seen: dict[str, Any]) -> None:
    orders = Orders().feed_all(seen["text"])
    first, apart = done_in(seen["text"])
    assert first["output"][0]["content"][0]["text"] and first["usage"]["output_tokens"] > 0
    assert apart["metadata"] == {"topic": "apart"} and apart.get("conversation_id") is None
    assert [error["code"] for error in orders.errors] == ["response_cancel_not_active"]


@pytest.mark.client("openai", "Realtime: a spoken question; its answer truncated")
@installed
def test_a_spoken_question_and_what_was_heard_of_its_answer(seen: dict[str, Any]) -> None:
    orders = Orders().feed_all(seen["spoken"])
    (done,) = done_in(seen["spoken"])
    said = done["output"][0]["content"][0]["transcript"]
    shown = seen["spoken"][-1]["item"]["content"][0]["transcript"]
    assert said.startswith(shown) and len(shown) < len(said)
    assert orders.transcribed and orders.errors == []


@pytest.mark.client("openai", "Realtime: a tool called, its result spoken")
@installed
def test_a_tools_result_is_spoken(seen: dict[str, Any]) -> None:
    orders = Orders().feed_all(seen["tool"])
    called, answered = done_in(seen["tool"])
    assert called["output"][0]["name"] == "get_weather"
    assert "city" in json.loads(called["output"][0]["arguments"])
    assert answered["output"][0]["content"][0]["transcript"] and orders.errors == []


@pytest.mark.client("openai", "Realtime: a session of transcription")
@installed
def test_a_session_of_transcription(seen: dict[str, Any]) -> None:
    orders = Orders().feed_all(seen["transcription"])
    assert "capital of france" in seen["transcription"][-1]["transcript"].lower()
    assert not orders.responses and orders.errors == []
