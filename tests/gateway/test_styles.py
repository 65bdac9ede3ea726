"""How answers are said: options, single turns, tags in the text, and what cannot be done."""

from __future__ import annotations

import pytest

from tests.gateway.conftest import RunningGateway, until
from tests.gateway.doubles import Doubles
from tests.gateway.test_speech import Visitor
from tests.gateway.test_turns import collect
from visavis.client import GatewayClient, GatewayError
from visavis.v1 import control_pb2
from visavis.wire.media import TranscriptEvent, TurnChunk
from visavis.wire.subjects import Kind

pytestmark = pytest.mark.asyncio(loop_scope="module")


def lacking(turn: int) -> control_pb2.AttachEvent:
    notice = control_pb2.TurnNotice(turn=turn, code="unsupported", message="cannot whisper")
    return control_pb2.AttachEvent(turn_notice=notice)


async def test_the_sessions_style_reaches_the_voice(
    client: GatewayClient, doubles: Doubles
) -> None:
    async with client.session(style="happy") as session:
        (config,) = doubles.seen.of("tts", "config")
        assert config.config.synthesis.style == "happy"
        path = f"/v1/sessions/{session.id}"
        info = (await client.call("PATCH", path, json={"style": "sad"})).json()
        assert info["style"] == "sad"
        (change,) = await until(lambda: doubles.seen.of("tts", "synthesis"))
        assert change.synthesis.style == "sad"


async def test_one_turn_may_have_a_style_of_its_own(
    client: GatewayClient, doubles: Doubles
) -> None:
    async with client.session() as session, doubles.bus.subscribe(session.id, Kind.TURN) as turns:
        path = f"/v1/sessions/{session.id}/text"
        await client.call("POST", path, json={"text": "Hi.", "style": "excited"})
        await collect(session, "finished")
        await client.call("POST", path, json={"text": "Hi."})
        styles = []
        async for chunk in turns:
            assert isinstance(chunk, TurnChunk)
            styles.append(chunk.style)
            if len(styles) == 2:
                break
        assert styles == ["excited", ""]


async def test_an_unknown_style_is_refused_with_those_that_exist(client: GatewayClient) -> None:
    async with client.session() as session:
        for method, path, body in (
            ("POST", "", {}),
            ("PATCH", f"/{session.id}", {}),
            ("POST", f"/{session.id}/text", {"text": "Hi."}),
        ):
            with pytest.raises(GatewayError, match=r"style: .*'grumpy'; known are neutral, happy"):
                await client.call(method, f"/v1/sessions{path}", json={"style": "grumpy", **body})


async def test_tags_are_neither_shown_nor_remembered(
    client: GatewayClient, doubles: Doubles
) -> None:
    doubles.script.answer = "[happy] Hello there. [ sad ] I am [SAD] sorry [1]."
    async with client.session() as session:
        await session.ask("Hi.")
        events = await collect(session, "finished")
        answer = "".join(e["text"] for e in events if e["type"] == "answer")
        assert answer == "Hello there. [ sad ] I am sorry [1]."
        await session.ask("Why?")
        await collect(session, "finished")
        assert doubles.seen.prompts[-1][-2][1] == answer


async def test_what_the_voice_cannot_do_is_told(
    client: GatewayClient, gateway: RunningGateway, doubles: Doubles
) -> None:
    doubles.script.voice_s = 2.0
    async with client.session() as session:
        turn = await session.ask("Hi.")
        await collect(session, "speaking")
        inside = gateway.inside.sessions.get(session.id)
        inside.news.stage_event("tts", lacking(turn))
        inside.news.stage_event("tts", lacking(turn - 1))
        await session.interrupt()
        events = await collect(session, "interrupted")
        warnings = [e for e in events if e["type"] == "warning"]
        assert [(w["turn"], w["message"]) for w in warnings] == [(turn, "cannot whisper")]
        record = (await client.call("GET", f"/v1/sessions/{session.id}/turns/{turn}")).json()
        assert record["warnings"] == ["cannot whisper"]


async def test_of_a_prepared_answer_it_is_told_once_that_is_heard(
    client: GatewayClient, gateway: RunningGateway, doubles: Doubles
) -> None:
    async with client.session() as session:
        visitor = Visitor(doubles, session)
        inside = gateway.inside.sessions.get(session.id)
        await visitor.does(TranscriptEvent.SPEECH_STARTED)
        question = "How are you?"
        await visitor.does(TranscriptEvent.PAUSED, question, end_of_turn_probability=0.9)
        await until(lambda: doubles.seen.prompts)
        inside.news.stage_event("tts", lacking(1))
        assert inside.records.get(1) is None
        await visitor.does(TranscriptEvent.FINAL, question)
        events = await collect(session, "finished")
        assert [e["message"] for e in events if e["type"] == "warning"] == ["cannot whisper"]


async def test_voices_tell_what_they_can(client: GatewayClient) -> None:
    (voice,) = (await client.call("GET", "/v1/voices")).json()["voices"]
    assert (voice["controls"], voice["styles"]) == (["speed"], ["neutral"])
