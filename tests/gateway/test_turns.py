"""Whole turns through the public API, with doubles of the services."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from tests.gateway.conftest import RunningGateway, until
from tests.gateway.doubles import Doubles
from tests.gateway.media import film
from visavis.client import GatewayClient, GatewaySession

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def collect(session: GatewaySession, *until_turn: str) -> list[dict[str, Any]]:
    """Events up to the first turn event of one of these kinds."""
    seen = []
    async with asyncio.timeout(30):
        async for event in session.events():
            seen.append(event)
            if event["type"] == "turn" and event["event"] in until_turn:
                return seen
    return seen


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [e["type"] for e in events]


async def test_a_typed_question_is_answered(client: GatewayClient, doubles: Doubles) -> None:
    async with client.session() as session:
        turn = await session.ask("How are you?")
        events = await collect(session, "finished")
        assert kinds(events[:2]) == ["session", "state"]
        answer = "".join(e["text"] for e in events if e["type"] == "answer")
        assert answer == doubles.script.answer
        states = [e["state"] for e in events if e["type"] == "state"]
        assert states == ["idle", "thinking", "speaking"]
        assert {e["turn"] for e in events if e["type"] == "turn"} == {turn}
        record = (await client.call("GET", f"/v1/sessions/{session.id}/turns/{turn}")).json()
        assert record["transcript"] == "How are you?"
        assert record["answer"] == doubles.script.answer
        assert record["state"] == "finished"
        assert [s["name"] for s in record["stages"]] == ["llm", "tts", "face", "playout"]
        assert record["voice_to_voice_ms"] > 0
        assert doubles.seen.prompts[0][-1][1] == "How are you?"


async def test_code_is_shown_and_remembered(client: GatewayClient, doubles: Doubles) -> None:
    doubles.script.shown = "x = 1\n"
    async with client.session() as session:
        turn = await session.ask("Assign one to x.")
        events = await collect(session, "finished")
        assert [e["text"] for e in events if e["type"] == "answer.shown"] == ["x =", " 1\n"]
        answer = doubles.script.answer
        assert "".join(e["text"] for e in events if e["type"] == "answer") == answer
        record = (await client.call("GET", f"/v1/sessions/{session.id}/turns/{turn}")).json()
        block = {"block": 1, "language": "python", "text": "x = 1\n", "chars": len(answer)}
        assert (record["answer"], record["shown"]) == (answer, [block])
        await session.ask("And two?")
        await collect(session, "finished")
    assert doubles.seen.prompts[-1][-2][1] == f"{answer}\n```python\nx = 1\n```"


async def test_a_turn_is_recorded_from_first_to_last_picture(
    client: GatewayClient, doubles: Doubles
) -> None:
    async with client.session() as session:
        await session.record_turn()
        await session.ask("Sing.")
        await collect(session, "finished")
        recorded = await session.recording()
    with film(recorded) as container:
        frames = list(container.decode(video=0))
        picture_s = float((frames[-1].pts + frames[-1].duration) * frames[-1].time_base)
    with film(recorded) as container:
        sound = np.concatenate([f.to_ndarray()[0] for f in container.decode(audio=0)])
    assert len(frames) == pytest.approx(doubles.script.voice_s * 25, abs=1)
    assert len(sound) / 48_000 == pytest.approx(picture_s, abs=0.04)
    assert np.abs(sound[2000:12_000]).max() > 0.3


async def test_the_media_socket_plays(gateway: RunningGateway, client: GatewayClient) -> None:
    async with client.session() as session:
        payloads: list[Any] = []
        async with client.connect(f"/v1/sessions/{session.id}/media?role=viewer") as media:
            async with asyncio.timeout(30):
                while len(payloads) < 25:
                    payloads.append(await media.recv())
    assert payloads[0][4:8] == b"ftyp"
    with film(b"".join(payloads)) as container:
        assert len(list(container.decode(video=0))) > 5


async def test_nothing_is_left_behind(
    gateway: RunningGateway, client: GatewayClient, doubles: Doubles
) -> None:
    before = len(asyncio.all_tasks())
    for _ in range(2):
        async with client.session() as session:
            await session.ask("Hello?")
            await collect(session, "speaking")
    await until(lambda: doubles.leases() == 0)
    await until(lambda: len(asyncio.all_tasks()) <= before + 4)
