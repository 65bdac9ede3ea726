"""Spoken turns: what asr says goes in on the bus, what the face does comes out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from gateway.session.session import Session
from tests.gateway.conftest import RunningGateway, until
from tests.gateway.doubles import Doubles
from tests.gateway.visiting import Visitor, collect
from visavis.client import GatewayClient, GatewaySession
from visavis.wire.media import ClockChunk, TranscriptEvent, TurnChunk
from visavis.wire.subjects import Kind

pytestmark = pytest.mark.asyncio(loop_scope="module")

E = TranscriptEvent


@pytest_asyncio.fixture(loop_scope="module")
async def session(client: GatewayClient) -> AsyncIterator[GatewaySession]:
    async with client.session() as session:
        yield session


@pytest.fixture
def visitor(doubles: Doubles, session: GatewaySession) -> Visitor:
    return Visitor(doubles, session)


async def test_the_question_is_read_while_it_is_spoken(
    visitor: Visitor, session: GatewaySession, doubles: Doubles
) -> None:
    await visitor.does(E.SPEECH_STARTED)
    await visitor.does(E.PARTIAL, "How far is the mo")
    (ahead,) = await until(lambda: doubles.seen.of("llm", "read_ahead"))
    assert ahead.read_ahead.request.messages[-1].content == "How far is the mo"
    assert doubles.seen.prompts == []


async def test_the_answer_is_prepared_in_the_pause(
    visitor: Visitor, session: GatewaySession, doubles: Doubles, client: GatewayClient
) -> None:
    await visitor.does(E.SPEECH_STARTED)
    await visitor.does(E.PAUSED, "How are you?", end_of_turn_probability=0.9)
    await until(lambda: doubles.seen.prompts)
    await visitor.does(E.FINAL, "How are you?")
    events = await collect(session, "finished")
    assert [e["text"] for e in events if e["type"] == "transcript"] == ["How are you?"]
    assert len(doubles.seen.prompts) == 1
    record = (await client.call("GET", f"/v1/sessions/{session.id}/turns/1")).json()
    assert record["stages"][0]["name"] == "asr"


async def test_the_face_is_told_to_wait_and_then_that_it_may_speak(
    visitor: Visitor, session: GatewaySession, doubles: Doubles
) -> None:
    async with (
        doubles.bus.subscribe(session.id, Kind.TURN) as turns,
        doubles.bus.subscribe(session.id, Kind.CLOCK) as clocks,
    ):
        await visitor.does(E.PAUSED, "How are you?", end_of_turn_probability=0.9)
        told = await anext(turns)
        assert isinstance(told, TurnChunk) and told.held
        await visitor.does(E.FINAL, "How are you?")
        wanted = await anext(clocks)
        assert (wanted.place.turn, wanted.place.pts) == (told.place.turn, 0)


async def test_while_an_answer_waits_for_the_visitor_the_face_is_told_to_live_on(
    visitor: Visitor, session: GatewaySession, doubles: Doubles
) -> None:
    doubles.script.silent = {"llm"}
    async with doubles.bus.subscribe(session.id, Kind.CLOCK) as clocks:
        await visitor.does(E.SPEECH_STARTED)
        await visitor.does(E.FINAL, "How far is the moon?")
        await until(lambda: doubles.seen.prompts)
        visitor.utterance = 2
        await visitor.does(E.SPEECH_STARTED)
        waits = await anext(clocks)
        assert isinstance(waits, ClockChunk) and (waits.place.pts, waits.paused) == (0, True)
        await visitor.does(E.DISCARDED)
        goes_on = await anext(clocks)
        assert isinstance(goes_on, ClockChunk) and not goes_on.paused


async def test_a_question_that_goes_on_is_one_question(
    visitor: Visitor, session: GatewaySession, doubles: Doubles, client: GatewayClient
) -> None:
    doubles.script.silent = {"llm"}
    await visitor.does(E.SPEECH_STARTED)
    await visitor.does(E.FINAL, "How far is the moon.")
    await until(lambda: doubles.seen.prompts)
    visitor.utterance = 2
    await visitor.does(E.SPEECH_STARTED)
    await visitor.does(E.PARTIAL, "and the")
    doubles.script.silent = set()
    await visitor.does(E.FINAL, "and the sun?")
    events = await collect(session, "finished")
    whole = "How far is the moon, and the sun?"
    turns = [(e["turn"], e["event"]) for e in events if e["type"] == "turn"]
    assert turns[:2] == [(1, "opened"), (1, "replaced")]
    assert [event for _, event in turns[2:]] == ["opened", "speaking", "finished"]
    captions = {e["utterance"]: e["text"] for e in events if e["type"] == "transcript"}
    assert captions == {1: whole}
    assert [m[1] for m in doubles.seen.prompts[-1]][-1] == whole
    path = f"/v1/sessions/{session.id}/turns"
    records = (await client.call("GET", path)).json()
    assert [r["transcript"] for r in records] == [whole]
    assert {e["turn"] for e in events if e["type"] == "latency"} == {records[0]["turn"]}


async def spoken_over(
    visitor: Visitor, session: GatewaySession, gateway: RunningGateway
) -> Session:
    """An answer that stands still, for a voice was heard over it."""
    await session.ask("Tell me a story.")
    await collect(session, "speaking")
    inside = gateway.inside.sessions.get(session.id)
    await visitor.does(E.SPEECH_STARTED)
    await until(lambda: inside._playout.paused)
    return inside


async def test_speech_cuts_the_answer_off(
    visitor: Visitor, session: GatewaySession, doubles: Doubles, gateway: RunningGateway
) -> None:
    doubles.script.voice_s = 5.0
    inside = await spoken_over(visitor, session, gateway)
    await visitor.does(E.PARTIAL, "Stop")
    events = await collect(session, "interrupted")
    assert events[-1]["reason"] == "speech"
    await until(lambda: not inside._playout.playing)
    doubles.script.voice_s = 0.2
    await visitor.does(E.FINAL, "Stop.")
    events = await collect(session, "finished")
    assert [m[1] for m in doubles.seen.prompts[-1]][-1].endswith("Stop.")


async def test_a_listener_s_word_does_not_end_the_answer(
    visitor: Visitor, session: GatewaySession, doubles: Doubles, gateway: RunningGateway
) -> None:
    doubles.script.voice_s = 1.0
    inside = await spoken_over(visitor, session, gateway)
    stood = inside._playout.played_samples
    await visitor.does(E.PAUSED, "Uh-huh.", end_of_turn_probability=0.5)
    await until(lambda: not inside._playout.paused)
    await visitor.does(E.FINAL, "Uh-huh.")
    events = await collect(session, "finished")
    assert [e["event"] for e in events if e["type"] == "turn"] == ["finished"]
    states = [e["state"] for e in events if e["type"] == "state"]
    assert states == ["speaking", "listening", "speaking"]
    assert len(doubles.seen.prompts) == 1
    assert stood < inside._playout.played_samples == 48_000


async def test_a_contradicted_answer_leaves_no_trace(
    visitor: Visitor, session: GatewaySession, doubles: Doubles, client: GatewayClient
) -> None:
    await visitor.does(E.SPEECH_STARTED)
    await visitor.does(E.PAUSED, "Tell me", end_of_turn_probability=0.9)
    await until(lambda: doubles.seen.prompts)
    await visitor.does(E.PARTIAL, "Tell me about Peru")
    await visitor.does(E.FINAL, "Tell me about Peru.")
    events = await collect(session, "finished")
    records = (await client.call("GET", f"/v1/sessions/{session.id}/turns")).json()
    answered = [e["turn"] for e in events if e["type"] == "answer"]
    turns = [e["event"] for e in events if e["type"] == "turn"]
    assert turns == ["opened", "speaking", "finished"], "he is not spoken over"
    assert {e["turn"] for e in events if e.get("turn")} == set(answered) == {answered[0]}
    assert [r["turn"] for r in records] == [answered[0]]
    assert [m[1] for m in doubles.seen.prompts[-1]] == ["Tell me about Peru."]


async def test_the_sound_goes_silent_at_once(
    visitor: Visitor, session: GatewaySession, doubles: Doubles, gateway: RunningGateway
) -> None:
    doubles.script.voice_s = 5.0
    await session.ask("Tell me a story.")
    await collect(session, "speaking")
    inside = gateway.inside.sessions.get(session.id)
    levels: list[int] = []
    push = inside.audience.push

    def spy(tick: Any) -> None:
        levels.append(int(np.abs(tick.pcm).max()))
        push(tick)

    inside.audience.push = spy  # type: ignore[method-assign]
    await until(lambda: any(levels[-1:]))
    inside.interrupt()  # itself: until a request is answered a tick or more go by
    count = len(levels)
    await until(lambda: len(levels) > count + 3)
    # One tick holds the fade, what follows is silence.
    assert levels[count + 1 :] == [0] * (len(levels) - count - 1)


async def test_asr_is_asked_for_foresight_and_what_it_tells_is_acted_upon(
    client: GatewayClient, doubles: Doubles
) -> None:
    async with client.session() as session:
        (asr,) = doubles.seen.of("asr", "config")
        assert asr.config.recognition.foresight
        visitor = Visitor(doubles, session)
        await visitor.does(E.SPEECH_STARTED)
        await visitor.does(E.PARTIAL, "How are you?", end_of_turn_probability=0.97)
        (prompt,) = await until(lambda: doubles.seen.prompts)
        assert prompt[-1][1] == "How are you?"
