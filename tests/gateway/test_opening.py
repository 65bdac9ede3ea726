"""Turns that begin with an opener, through the public API with doubles of the services."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from gateway.answers.opener_cue import AnswerPace
from tests.fakes import MetricGrowth
from tests.gateway.conftest import Rig, RunningGateway, until
from tests.gateway.doubles import OPENER_S, VOICE_RATE_HZ, Doubles
from tests.gateway.test_speech import Visitor
from tests.gateway.test_turns import collect
from visavis.tools.client import GatewayClient, GatewaySession
from visavis.wire.media import TranscriptEvent
from visavis.wire.subjects import Kind

pytestmark = pytest.mark.asyncio(loop_scope="module")

BOOK = """
[[openers]]
language = "en"
texts = ["Well,"]

[[answers]]
language = "en"
questions = ["When are you open?"]
answer = "From nine to five."
"""
QUESTION = "What is the capital of France?"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    folder = tmp_path_factory.mktemp("openers")
    file = folder / "answers.toml"
    file.write_text(BOOK, encoding="utf-8")
    rig = Rig(folder)
    await rig.start(answers=file)
    yield rig
    await rig.stop()


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def inexperienced(gateway: RunningGateway) -> None:
    """Nothing is known of how soon answers come."""
    gateway.inside.desk.pace = AnswerPace()


async def record_of(client: GatewayClient, session: GatewaySession, turn: int) -> dict[str, Any]:
    answer = await client.call("GET", f"/v1/sessions/{session.id}/turns/{turn}")
    return dict(answer.json())


def shown(events: list[dict[str, Any]]) -> str:
    return "".join(e["text"] for e in events if e["type"] == "answer")


async def test_an_answer_that_is_late_begins_with_an_opener(
    client: GatewayClient, doubles: Doubles
) -> None:
    doubles.script.answer = "The capital is Paris."
    doubles.script.think_s = OPENER_S + 0.15
    async with client.session() as session:
        turn = await session.say(QUESTION)
        events = await collect(session, "finished")
        assert shown(events) == "Well, the capital is Paris."
        record = await record_of(client, session, turn)
        assert (record["opener"], record["answer"]) == ("Well, ", "Well, the capital is Paris.")
        path = f"/v1/sessions/{session.id}/turns/{turn}/timeline"
        timeline = (await client.call("GET", path)).json()
        assert timeline["underruns"] == 0, "the wait for the answer is no gap in it"
        assert timeline["overhead_ms"] is None
        played = [s for s in timeline["spans"] if (s["stage"], s["chunk"]) == ("playout", "first")]
        spans = {s["kind"]: s for s in played}
        first_ms, proper_ms = timeline["voice_to_voice_ms"], timeline["answer_proper_ms"]
        assert spans["opener"]["start_ms"] == first_ms
        assert spans["opener"]["end_ms"] == spans["wait"]["start_ms"]
        assert spans["wait"]["end_ms"] == proper_ms == record["answer_proper_ms"]
        assert proper_ms - first_ms > OPENER_S * 1000
        await session.say("And of Italy, I wonder?")
        await collect(session, "finished")
        said = [text for _, text in doubles.seen.prompts[-1]]
        assert "The capital is Paris." in said, "or the language model would say openers, too"


async def test_an_answer_that_is_there_in_time_does_not(
    client: GatewayClient, doubles: Doubles
) -> None:
    for question in (QUESTION, "When are you open?"):
        async with client.session() as session:
            turn = await session.say(question)
            events = await collect(session, "finished")
            assert not shown(events).startswith("Well")
            assert (await record_of(client, session, turn))["opener"] == ""


async def test_a_greeting_gets_none(client: GatewayClient, doubles: Doubles) -> None:
    doubles.script.think_s = 0.2
    unfit = MetricGrowth("visavis_openers_total", reason="unfit")
    async with client.session() as session:
        await session.say("Hello!")
        assert shown(await collect(session, "finished")) == doubles.script.answer
        assert unfit.value == 1


async def test_one_that_meets_the_answer_at_tts_is_not_shown_either(
    client: GatewayClient, doubles: Doubles
) -> None:
    doubles.script.think_s = 0.2
    doubles.script.opener_refused = True
    not_needed = MetricGrowth("visavis_openers_total", reason="not_needed")
    async with client.session() as session:
        await session.say(QUESTION)
        assert shown(await collect(session, "finished")) == doubles.script.answer
        assert doubles.seen.openers == ["Well, "]
        assert not_needed.value == 1


async def test_who_interrupts_it_has_heard_it_and_no_more(
    client: GatewayClient, doubles: Doubles
) -> None:
    doubles.script.silent.add("llm")
    async with client.session() as session:
        async with doubles.bus.subscribe(session.id, Kind.CLOCK) as clocks:
            turn = await session.say(QUESTION)
            async with asyncio.timeout(5):
                async for clock in clocks:
                    if clock.place.pts >= (OPENER_S - 0.02) * VOICE_RATE_HZ:
                        break
        await session.interrupt()
        events = await collect(session, "interrupted")
        assert events[-1]["heard"] == "Well,"
        assert (await record_of(client, session, turn))["answer"] == "Well, "


async def test_a_held_turn_says_nothing_before_the_words_are_final(
    client: GatewayClient, doubles: Doubles
) -> None:
    doubles.script.silent.add("llm")
    async with client.session() as session:
        visitor = Visitor(doubles, session)
        await visitor.does(TranscriptEvent.SPEECH_STARTED)
        await visitor.does(TranscriptEvent.PAUSED, QUESTION, end_of_turn_probability=0.9)
        await until(lambda: doubles.seen.prompts)
        async with doubles.bus.subscribe(session.id, Kind.VIDEO) as pictures:
            for _ in range(5):  # idle ones: longer than the patience
                await anext(pictures)
        assert doubles.seen.openers == []
        await visitor.does(TranscriptEvent.FINAL, QUESTION)
        events = await collect(session, "speaking")
        assert shown(events) == "Well, "
        assert doubles.seen.openers == ["Well, "]


async def test_a_failure_behind_it_fails_the_turn(client: GatewayClient, doubles: Doubles) -> None:
    doubles.script.silent.add("llm")
    async with client.session() as session:
        await session.say(QUESTION)
        await collect(session, "speaking")
        await doubles.stop("llm")
        events = await collect(session, "failed")
        assert "llm" in events[-1]["reason"]


async def test_openers_are_ready_in_the_voice_of_the_session(
    client: GatewayClient, doubles: Doubles
) -> None:
    async with client.session(speed=1.25) as session:
        await until(lambda: ("", "Well,", 1.25) in doubles.seen.prerendered)
        change = {"voice": "ada", "speed": 1.5}
        await client.call("PATCH", f"/v1/sessions/{session.id}", json=change)
        await until(lambda: ("ada", "Well,", 1.5) in doubles.seen.prerendered)
        others = [seen for seen in doubles.seen.prerendered if seen[2] != 1.0]
        assert [text for _, text, _ in others] == ["Well,", "Well,"], "openers alone"
