"""Known answers and welcome phrases through the public API, with doubles of the services."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from websockets.asyncio.client import ClientConnection

from tests.gateway.conftest import Rig, RunningGateway, eventually, meets, until
from tests.gateway.doubles import Doubles
from tests.gateway.visiting import Visitor, collect
from visavis.client import GatewayClient, GatewayError
from visavis.wire.media import TranscriptEvent, TurnChunk
from visavis.wire.subjects import Kind

pytestmark = pytest.mark.asyncio(loop_scope="module")

BOOK = """
[[answers]]
language = "en"
questions = ["When are you open?"]
answer = "From nine to five."

[[welcome]]
language = "en"
text = "Welcome!"
"""


def write(file: Path, text: str = BOOK) -> None:
    file.write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("answers") / "answers.toml"
    write(path)
    return path


@pytest.fixture(scope="module")
def settings(file: Path) -> dict[str, Any]:
    return {"answers": file, "learn_answers": True, "answer_cache_dir": file.parent}


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def fresh(client: GatewayClient, file: Path) -> AsyncIterator[None]:
    yield
    write(file)
    await client.call("DELETE", "/v1/cache", params={"what": "learned"})


async def watch(media: ClientConnection) -> None:
    async for _ in media:
        pass


async def asked(client: GatewayClient, question: str, **options: str) -> dict[str, object]:
    """The record of the turn that answers `question` as a session's first."""
    async with client.session(**options) as session:
        turn = await session.ask(question)
        await collect(session, "finished")
        answer = await client.call("GET", f"/v1/sessions/{session.id}/turns/{turn}")
        return dict(answer.json())


async def test_a_known_question_is_answered_without_the_language_model(
    client: GatewayClient, doubles: Doubles
) -> None:
    async with client.session() as session:
        await session.ask("um, when are you OPEN")
        events = await collect(session, "finished")
        answer = "".join(e["text"] for e in events if e["type"] == "answer")
        assert answer == "From nine to five."
        states = [e["state"] for e in events if e["type"] == "state"]
        assert states == ["idle", "thinking", "speaking"]
        assert doubles.seen.prompts == []
        await session.ask("And on Sunday?")
        await collect(session, "finished")
        said = [text for _, text in doubles.seen.prompts[0]]
        assert said == ["um, when are you OPEN", "From nine to five.", "And on Sunday?"]
        turns = (await client.call("GET", f"/v1/sessions/{session.id}/turns")).json()
        assert [t["answered_by"] for t in turns] == ["cache", "llm"]


async def test_a_comment_in_a_room_has_its_known_answer_and_nothing_is_learned_from_one(
    client: GatewayClient, http: httpx.AsyncClient, doubles: Doubles
) -> None:
    async with client.session() as session:
        path = f"/v1/sessions/{session.id}"
        await http.post(f"{path}/room", json={})
        for text in ("When are you open?", "Why?"):
            comment = {"author": {"name": "Anna"}, "text": text}
            await http.post(f"{path}/room/comments", json=comment)
            await collect(session, "finished")
        turns = (await client.call("GET", f"{path}/turns")).json()
        assert [t["answered_by"] for t in turns] == ["cache", "llm"]
        assert doubles.seen.prompts[0][-1][1] == "Anna asks: “Why?”"
        assert (await client.call("GET", "/v1/cache")).json()["learned"] == []


async def test_a_known_question_is_prepared_in_the_pause_and_interrupted_like_any(
    client: GatewayClient, doubles: Doubles
) -> None:
    doubles.script.voice_s = 3.0
    async with (
        client.session() as session,
        doubles.bus.subscribe(session.id, Kind.TURN) as announced,
    ):
        visitor = Visitor(doubles, session)
        await visitor.does(TranscriptEvent.SPEECH_STARTED)
        question = "When are you open?"
        await visitor.does(TranscriptEvent.PAUSED, question, end_of_turn_probability=0.9)
        await visitor.does(TranscriptEvent.FINAL, question)
        await collect(session, "speaking")
        told = [await anext(announced) for _ in range(2)]
        assert [(t.place.turn, t.held) for t in told if isinstance(t, TurnChunk)] == [
            (1, True),
            (1, False),
        ], "once it is wanted the stages are told so"
        visitor.utterance = 2
        await visitor.does(TranscriptEvent.SPEECH_STARTED)
        await visitor.does(TranscriptEvent.PARTIAL, "Stop")
        events = await collect(session, "interrupted")
        assert len(events[-1]["heard"]) < len("From nine to five.")
        assert doubles.seen.prompts == []


async def test_another_language_or_persona_asks_the_language_model(
    client: GatewayClient, doubles: Doubles
) -> None:
    for options in ({"language": "zh"}, {"persona": "You are somebody else."}):
        record = await asked(client, "When are you open?", **options)
        assert record["answered_by"] == "llm"
    assert len(doubles.seen.prompts) == 2


async def test_the_first_answer_of_a_session_is_learned_when_it_was_heard(
    gateway: RunningGateway, client: GatewayClient, doubles: Doubles, file: Path
) -> None:
    async with gateway.inside.answers._saving:  # the file is still written when the session ends
        assert (await asked(client, "Who made you?"))["answered_by"] == "llm"
    saved = file.parent / "learned-answers.json"
    await until(saved.exists)
    doubles.script.answer = "Somebody else."
    again = await asked(client, "who made you")
    assert (again["answered_by"], again["answer"]) == ("cache", "Hello there. I am fine.")
    async with client.session() as session:
        await session.ask("Something.")
        await collect(session, "finished")
        await session.ask("Who made you?")
        await collect(session, "finished")
        assert doubles.seen.prompts[-1][-1][1] == "Who made you?", "not a session's first question"
    await until(lambda: "Something." in saved.read_text(encoding="utf-8"))


async def test_an_answer_that_was_cut_off_is_not_learned(
    client: GatewayClient, doubles: Doubles
) -> None:
    doubles.script.voice_s = 3.0
    async with client.session() as session:
        await session.ask("Who made you?")
        await collect(session, "speaking")
        await session.interrupt()
        await collect(session, "interrupted")
    doubles.script.voice_s = 0.2
    assert (await asked(client, "Who made you?"))["answered_by"] == "llm"


async def test_the_welcome_is_said_once_somebody_watches(
    client: GatewayClient, doubles: Doubles
) -> None:
    created = (await client.call("POST", "/v1/sessions", json={"welcome": True})).json()
    path = f"/v1/sessions/{created['id']}"
    assert created["welcome"] == "Welcome!"
    async with client.connect(f"{path}/events") as events:
        async with client.connect(f"{path}/media") as media:
            watching = asyncio.create_task(watch(media))
            seen = [json.loads(await events.recv())]
            while (seen[-1]["type"], seen[-1].get("event")) != ("turn", "finished"):
                seen.append(json.loads(await events.recv()))
            watching.cancel()
    kinds = [e["type"] for e in seen]
    assert "transcript" not in kinds, "nobody asked"
    assert [e["text"] for e in seen if e["type"] == "answer"] == ["Welcome!"]
    info = (await client.call("GET", path)).json()
    assert (info["state"], info["welcome"]) == ("idle", "")
    (turn,) = (await client.call("GET", f"{path}/turns")).json()
    assert (turn["answered_by"], turn["transcript"]) == ("welcome", "")
    assert doubles.seen.prompts == []


async def test_a_welcome_of_ones_own_and_none_for_a_visitor_who_speaks_first(
    client: GatewayClient,
) -> None:
    body = {"welcome": "Hello, Anna."}
    created = (await client.call("POST", "/v1/sessions", json=body)).json()
    path = f"/v1/sessions/{created['id']}"
    assert created["welcome"] == "Hello, Anna."
    await client.call("POST", f"{path}/text", json={"text": "Hi."})

    async def given_up() -> bool:
        return not (await client.call("GET", path)).json()["welcome"]

    await eventually(given_up)
    created = (await client.call("POST", "/v1/sessions", json={})).json()
    assert created["welcome"] == ""


async def test_new_voices_are_made_ready_in_the_background(doubles: Doubles, rig: Rig) -> None:
    await doubles.stop("tts")
    await doubles.start("tts")
    await meets(rig.running, doubles)
    await until(lambda: len(doubles.seen.prerendered) >= 2)
    assert doubles.seen.prerendered[:2] == [("", "Welcome!", 1.0), ("", "From nine to five.", 1.0)]


async def test_warming_reads_the_file_anew_and_tells_how_it_goes(
    client: GatewayClient, doubles: Doubles, file: Path
) -> None:
    write(file, BOOK.replace("nine", "ten"))
    answer = await client.call("POST", "/v1/cache/warm", json={"voice": "ada", "speed": 1.5})
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [(x["text"], x["done"], x["total"]) for x in lines] == [
        ("Welcome!", 1, 2),
        ("From ten to five.", 2, 2),
    ]
    assert ("ada", "From ten to five.", 1.5) in doubles.seen.prerendered
    assert (await asked(client, "When are you open?"))["answer"] == "From ten to five."
    doubles.script.prerender_fails = True
    answer = await client.call("POST", "/v1/cache/warm", json={})
    assert {json.loads(line)["error"] for line in answer.text.splitlines()} == {
        "the engine is down"
    }


async def test_what_cannot_be_warmed_is_refused(client: GatewayClient, file: Path) -> None:
    with pytest.raises(GatewayError, match="nothing to warm in 'de'"):
        await client.call("POST", "/v1/cache/warm", json={"language": "de"})
    with pytest.raises(GatewayError, match="there is no 'nobody'"):
        await client.call("POST", "/v1/cache/warm", json={"voice": "nobody"})
    write(file, "[[answer]]")
    with pytest.raises(GatewayError, match=r"answers\.toml"):
        await client.call("POST", "/v1/cache/warm", json={})
    assert (await asked(client, "When are you open?"))["answered_by"] == "cache"


async def test_the_cache_is_listed_and_cleared(client: GatewayClient, doubles: Doubles) -> None:
    await asked(client, "Who made you?")
    await asked(client, "When are you open?")
    await client.call("POST", "/v1/cache/warm", json={})
    shown = (await client.call("GET", "/v1/cache")).json()
    (configured,) = shown["configured"]
    assert configured["questions"] == ["When are you open?"]
    assert configured["hits"] >= 1
    assert [a["question"] for a in shown["learned"]] == ["Who made you?"]
    assert shown["welcome"] == {"en": ["Welcome!"]}
    assert shown["phrases"][0]["entries"] == len(doubles.seen.prerendered)
    metrics = (await client.call("GET", "/metrics")).text
    assert 'gateway_answer_cache_entries{kind="learned"} 1.0' in metrics
    assert 'gateway_answer_cache_lookups_total{result="exact"}' in metrics
    cleared = (await client.call("DELETE", "/v1/cache")).json()
    assert cleared["learned"] == 1
    assert cleared["phrases"] >= 2
    assert (await client.call("GET", "/v1/cache")).json()["learned"] == []
