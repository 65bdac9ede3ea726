"""Known answers with the real stack."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import httpx

from tests.running_stack import KNOWN_ANSWER, KNOWN_QUESTION
from tests.stack.conftest import Ears, likeness, spoken
from tests.stack.test_conversation import answer_of, recorded_answer, until_turn
from visavis.client import MIC_RATE_HZ, GatewayClient
from visavis.tools.bench.visitor.clips import read_mono


async def words_read(gateway: GatewayClient) -> float:
    """Tokens that the language model has read and written so far."""
    targets = (await gateway.call("GET", "/v1/metrics-targets")).json()
    (target,) = [t["targets"][0] for t in targets if t["labels"]["service"] == "llm"]
    async with httpx.AsyncClient(trust_env=False) as http:
        text = (await http.get(f"http://{target}/metrics")).text
    return sum(map(float, re.findall(r"^llm_tokens_total\{.*\} (\S+)$", text, re.M)))


async def test_a_known_question_typed_is_answered_aloud_without_the_language_model(
    gateway: GatewayClient, ears: Ears, tmp_path: Path
) -> None:
    warmed = [line async for line in gateway.lines("POST", "/v1/cache/warm", json={})]
    assert all(json.loads(line)["error"] == "" for line in warmed)
    before = await words_read(gateway)
    async with gateway.session(language="en") as session:
        question = "so what are your opening hours"
        answer, video = await recorded_answer(session, tmp_path, question)
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
    question = await spoken(gateway, KNOWN_QUESTION, tmp_path)
    pcm = read_mono(question, MIC_RATE_HZ)
    async with gateway.session(language="en") as session:
        for _ in range(3):  # of a machine that other tests keep busy a word may not be heard
            stop = asyncio.Event()
            microphone = asyncio.create_task(session.talk(pcm, stop))
            events = await until_turn(session, "finished", "failed")
            stop.set()
            await microphone
            told = " ".join(e["text"] for e in events if e["type"] == "transcript" and e["final"])
            if likeness(told, KNOWN_QUESTION) > 0.9:
                break
        assert answer_of(events) == KNOWN_ANSWER, told
        turn = events[-1]["turn"]
        record = (await gateway.call("GET", f"/v1/sessions/{session.id}/turns/{turn}")).json()
        assert record["answered_by"] == "cache"
        assert record["voice_to_voice_ms"] > 0
