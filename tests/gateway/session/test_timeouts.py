"""What ends by itself: sessions that nobody uses, answers that stand still."""

from __future__ import annotations

import asyncio
import itertools

import httpx
import numpy as np
import pytest

from gateway.session import sessions
from gateway.talk.actions import Action
from tests.gateway.conftest import RunningGateway, until
from tests.gateway.doubles import Doubles
from tests.gateway.visiting import collect, new_session, problem
from visavis.client import GatewayClient
from visavis.wire.media import TranscriptChunk, TranscriptEvent

SETTINGS = {"answer_timeout_s": 1.0}
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(autouse=True)
def sweeping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for the next look at all sessions."""
    monkeypatch.setattr(sessions, "SWEEP_S", 0.1)


async def test_a_session_that_nobody_uses_ends_though_others_cannot_close(
    gateway: RunningGateway,
    http: httpx.AsyncClient,
    doubles: Doubles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fail() -> None:
        raise RuntimeError("a fault of ours")

    for _ in range(2):
        broken = gateway.inside.sessions.get(await new_session(http))
        broken.audience.close = fail  # type: ignore[method-assign]
    session = await new_session(http)
    monkeypatch.setitem(gateway.inside.settings.__dict__, "session_idle_s", 0.1)
    await until(lambda: doubles.leases() == 0)
    assert "expired" in problem(await http.get(f"/v1/sessions/{session}"), 404)
    assert (await http.get("/v1/sessions")).json()["sessions"] == []


async def test_after_a_sleep_nobody_answers_what_was_said_before_it_nor_goes_on_with_an_answer(
    gateway: RunningGateway,
    client: GatewayClient,
    doubles: Doubles,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    doubles.script.voice_s, doubles.script.hears = 30.0, "What was I saying?"
    loud = np.full(1024, 20_000, np.int16)
    async with client.session() as session:
        inside = gateway.inside.sessions.get(session.id)
        await session.ask("How are you?")
        await until(lambda: inside.state == "speaking")
        await inside.take_microphone("test")
        inside.push_mic("test", loud)
        await until(lambda: inside._ears.newest)
        slept = itertools.accumulate(itertools.chain([0.0, 600.0], itertools.repeat(0.1)))
        monkeypatch.setattr(sessions, "through_sleep_s", slept.__next__)
        await gateway.inside.sessions._sweeper.stop()
        gateway.inside.sessions._sweeper.start()
        events = await collect(session, "interrupted")
        assert events[-1]["reason"] == "interrupt"
        before = inside.microphone.dropped_samples
        inside.push_mic("test", loud)
        assert inside.microphone.dropped_samples > before, "it was said before the sleep"
        # The recogniser ends what it had heard begin; no question comes of it.
        told: list[TranscriptEvent] = []
        tell = inside._incoming.transcript

        def transcript(chunk: TranscriptChunk, now: float) -> list[Action]:
            told.append(chunk.event)
            return tell(chunk, now)

        monkeypatch.setattr(inside._incoming, "transcript", transcript)
        inside._feed.send_mic(1024, np.zeros(16_000, np.int16))
        await until(lambda: TranscriptEvent.FINAL in told)
        assert inside.state == "idle"
        doubles.script.voice_s = 0.1
        await session.ask("And now?")
        await collect(session, "finished")


async def test_a_lease_that_dies_of_our_own_fault_ends_its_session(
    gateway: RunningGateway, client: GatewayClient, doubles: Doubles
) -> None:
    def fail(_service: str) -> None:
        raise RuntimeError("a fault of ours")

    async with client.session() as session:
        gateway.inside.sessions.get(session.id).news.stage_ready = fail  # type: ignore[method-assign]
        await doubles.stop("tts")
        await doubles.start("tts")
        async with asyncio.timeout(30):
            async for event in session.events():
                if event.get("code") == "session_closed":
                    break
    assert "internal error" in event["message"]


async def test_a_fault_in_one_session_ends_it_and_the_others_play_on(
    gateway: RunningGateway, client: GatewayClient, doubles: Doubles
) -> None:
    doubles.script.voice_s = 1.0
    async with client.session() as broken, client.session() as other:
        inside = gateway.inside.sessions.get(broken.id)
        await other.ask("Hello?")
        await until(lambda: gateway.inside.sessions.get(other.id)._playout.playing)
        inside.audience.push = "a fault of ours"  # type: ignore[assignment, method-assign]
        async with asyncio.timeout(6):
            async for event in broken.events():
                if event.get("code") == "session_closed":
                    break
        assert (await collect(other, "finished", "failed"))[-1]["event"] == "finished"
    assert "internal error" in event["message"]


@pytest.mark.parametrize("stage", ["llm", "tts"])
async def test_a_stage_that_falls_silent_is_named(
    client: GatewayClient, doubles: Doubles, stage: str
) -> None:
    doubles.script.silent = {stage}
    async with client.session() as session:
        await session.ask("Hello?")
        events = await collect(session, "failed")
    assert events[-1]["reason"].startswith(stage)
