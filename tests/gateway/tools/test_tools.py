"""Tools that an answer calls: the rounds of a turn, pure; and through the public API, with doubles
of the services.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import httpx
import pytest

from gateway.api.events import ErrorEvent, StateEvent, TurnEvent, WarningEvent
from gateway.talk.actions import (
    BeginAnswer,
    CallTool,
    CloseTurn,
    ConfirmTurn,
    ContinueAnswer,
    Message,
    PauseTurn,
    ResumeAnswer,
    ResumeTurn,
    SayMeanwhile,
)
from gateway.talk.conversation import Conversation
from gateway.talk.history import SpokenMark
from gateway.tools.offers import Call
from gateway.tools.rounds import MOST_CALLS, ToolLimits
from tests.gateway.conftest import Rig, eventually, until
from tests.gateway.doubles import Doubles
from tests.gateway.talk.test_conversation import of
from tests.gateway.visiting import collect
from visavis.client import GatewayClient, GatewayError
from visavis.serving.errors import UnknownNameError
from visavis.v1 import control_pb2, llm_pb2

WEATHER = Call("c1", "get_weather", '{"city": "Rome"}')
LIMITS = ToolLimits(timeout_s=20, result_chars=40, rounds=2, filler_after_s=1)


@pytest.fixture
def talk() -> Conversation:
    return Conversation("Be brief.", tools=LIMITS)


def asked(talk: Conversation, *calls: Call, text: str = "", now: float = 0.0) -> list[Any]:
    """A question whose answer begins with these calls."""
    talk.submit_text("How is the weather in Rome?", now)
    if text:
        talk.token(talk.epoch, text, last=False, now=now)
    return talk.tools_called(talk.epoch, text, calls, now)


def said_next(talk: Conversation) -> list[tuple[str, str]]:
    """What the model would be told with the next question."""
    (begin,) = of(talk.submit_text("And?", 99), BeginAnswer)
    return [(m.role, m.content) for m in begin.messages[1:]]


def test_an_answer_goes_on_with_the_results_and_remembers_them(talk: Conversation) -> None:
    two = Call("c2", "get_time", "")
    assert of(asked(talk, WEATHER, two, text="Let me look."), CallTool) == [
        CallTool(1, WEATHER),
        CallTool(1, two),
    ]
    assert of(talk.tool_result("c2", "noon", 1), ContinueAnswer) == []
    (on,) = of(talk.tool_result("c1", "sunny", 1), ContinueAnswer)
    assert (on.turn, on.last) == (1, False)
    assert on.messages[1:] == (
        Message("user", "How is the weather in Rome?"),
        Message("assistant", "Let me look.", (WEATHER, Call("c2", "get_time", ""))),
        Message("tool", "sunny", (), "c1"),
        Message("tool", "noon", (), "c2"),
    )
    talk.token(1, "It is sunny.", last=True, now=2)
    talk.voice(1, 2.0, last=True, now=2)
    talk.started(1)
    talk.finished(1, 4)
    assert said_next(talk)[1:] == [
        ("assistant", ""),
        ("tool", "sunny"),
        ("tool", "noon"),
        ("assistant", "Let me look.It is sunny."),
        ("user", "And?"),
    ]


def test_nothing_is_done_for_an_answer_that_nobody_has_asked_for_yet(talk: Conversation) -> None:
    talk.speech_started(1, 0)
    (begin,) = of(talk.paused(1, "Order a pizza", 0.9, 0), BeginAnswer)
    assert talk.tools_called(begin.turn, "", [WEATHER], 0.1) == []
    assert talk.check(60) == []
    actions = talk.final(1, "Order a pizza.", 61)
    assert of(actions, ConfirmTurn) and of(actions, CallTool) == [CallTool(begin.turn, WEATHER)]
    assert of(talk.check(70), ContinueAnswer) == []  # its time runs from then on


def test_an_interruption_ends_the_wait_and_what_was_done_is_remembered(talk: Conversation) -> None:
    asked(talk, WEATHER)
    assert of(talk.interrupt(), TurnEvent)[-1].event == "interrupted"
    with pytest.raises(UnknownNameError, match="'c1' waits"):
        talk.tool_result("c1", "sunny", 1)
    assert said_next(talk) == [("user", "And?")]
    talk.interrupt()
    (again,) = of(asked(talk, WEATHER), CallTool)
    with pytest.raises(UnknownNameError, match="'c1' waits"):
        talk.tool_result("c1", "rainy", 1)  # of the first one, though the model calls both "c1"
    talk.tool_result(again.call.id, "sunny", 1)
    assert said_next(talk)[1:] == [("assistant", ""), ("tool", "sunny"), ("user", "And?")]


def test_another_model_goes_on_with_the_results_of_what_the_lost_one_called(
    talk: Conversation,
) -> None:
    asked(talk, WEATHER)
    assert talk.turn is not None
    talk.turn.source = "llm"
    talk.token(1, "Let me see. ", last=False, now=0)
    assert talk.stage_lost("llm", "gone", 0) == talk.stage_back("llm", 0) == []
    (on,) = of(talk.tool_result("c1", "sunny", 1), ResumeAnswer)
    assert (on.messages[-1].content, on.so_far, on.chars) == ("sunny", "", 12)
    talk.token(1, "It is", last=False, now=1)
    talk.stage_lost("llm", "gone", 1)
    again = of(talk.stage_back("llm", 1), ResumeAnswer)
    assert again == [replace(on, run=2, so_far="It is")]
    assert talk.tools_called(1, "It is", [WEATHER], 1, run=1) == [], "it was given up"
    assert talk.tools_called(1, "It is", [WEATHER], 1, run=2)


def test_a_tool_is_waited_for_while_the_bus_is_away_if_what_was_said_before_is_here(
    talk: Conversation,
) -> None:
    asked(talk, WEATHER, text="Let me see.")
    assert of(talk.bus_lost("gone", 1), ErrorEvent) == []
    assert of(talk.tool_result("c1", "sunny", 1), ContinueAnswer)
    talk.submit_text("And now?", 2)
    talk.token(2, "Let me", last=False, now=2)
    talk.tools_called(2, "Let me see.", [WEATHER], 2)
    assert of(talk.bus_lost("gone", 1), CloseTurn) == [CloseTurn(2, "failed")]


def test_a_tool_has_its_time_and_its_room(talk: Conversation) -> None:
    two = Call("c2", "get_time", "{}")
    asked(talk, WEATHER, two)
    talk.tool_result("c2", "x" * 100, 1)
    assert of(talk.check(19.9), ContinueAnswer) == []
    (on,) = of(talk.check(20), ContinueAnswer)
    assert [m.content for m in on.messages[-2:]] == [
        "failed: no result within 20 s",
        "x" * 40 + " […] (cut: 40 of 100 characters)",
    ]
    assert talk.check(39) == [] and talk.turn is not None  # the answer has its own time now
    actions = talk.tools_called(1, "", [Call("c1", "get_weather", "{}")], 39)
    (call,) = of(actions, CallTool)
    assert call.call.id != "c1"
    (on,) = of(talk.tool_result(call.call.id, "rain", 40), ContinueAnswer)
    assert on.last and len(on.messages) == 2 + 3 + 2
    assert on.messages[-1].content == "rain"


def test_calls_that_cannot_be_done_are_told_in_words(talk: Conversation) -> None:
    (on,) = of(asked(talk, Call("c1", "get_weather", '{"ci')), ContinueAnswer)
    assert on.messages[-2].calls == (Call("c1", "get_weather", "{}"),)
    assert on.messages[-1].content == "not done: the arguments are no JSON object"
    talk.interrupt()
    many = [Call("", "get_time", f'{{"zone": {n}}}') for n in range(MOST_CALLS + 3)]
    calls = [action.call.id for action in of(asked(talk, *many), CallTool)]
    assert len(set(calls)) == MOST_CALLS


def test_what_is_called_again_at_once_is_not_done_again() -> None:
    talk = Conversation("Be brief.", tools=replace(LIMITS, rounds=9))
    book = Call("c1", "book", '{"seats": 2, "row": 1}')
    assert len(of(asked(talk, book, replace(book, id="c2")), CallTool)) == 1
    talk.tool_result("c1", "booked", 1)
    # Laid out otherwise it is the same; what else is called beside it is done.
    again = Call("c3", "book", '{ "row": 1, "seats": 2 }')
    weather = replace(WEATHER, id="c4")
    assert of(talk.tools_called(1, "", [again, weather], 2), CallTool) == [CallTool(1, weather)]
    (on,) = of(talk.tool_result("c4", "sunny", 3), ContinueAnswer)
    assert not on.last
    # Behind another call it may come to something else.
    (done,) = of(talk.tools_called(1, "", [replace(book, id="c5")], 4), CallTool)
    talk.tool_result(done.call.id, "booked", 5)
    # Where it is all that is wanted, the answer has to end in words.
    actions = talk.tools_called(1, "Let me see.", [replace(book, id="c6")], 6)
    (on,) = of(actions, ContinueAnswer)
    assert on.last and of(actions, CallTool) == []
    assert [call.id for message in on.messages for call in message.calls] == ["c1", "c4", "c5"]


def test_an_answer_without_a_word_is_told_of(talk: Conversation) -> None:
    asked(talk, WEATHER)
    talk.tool_result("c1", "sunny", 1)
    talk.token(1, "", last=True, now=2)
    talk.voice(1, 0.0, last=True, now=2)
    actions = talk.finished(1, 3)
    assert [warning.code for warning in of(actions, WarningEvent)] == ["empty_answer"]
    assert of(actions, TurnEvent)[-1].event == "finished"


def test_something_is_said_and_the_face_does_not_freeze(talk: Conversation) -> None:
    asked(talk, WEATHER)
    assert of(talk.check(0.5), SayMeanwhile) == []
    assert of(talk.check(1), SayMeanwhile) == [SayMeanwhile(1)]
    assert talk.check(1.5) == []
    talk.token(1, "One moment.\n", last=False, now=1.6)
    talk.voice(1, 0.8, last=False, now=1.7)
    talk.started(1)
    talk.played(1, 0.5, 2.2)
    assert talk.check(2.6) == []
    talk.played(1, 0.8, 2.5)
    actions = talk.check(3)
    assert of(actions, PauseTurn) == [PauseTurn(1, rests=True)]
    assert of(actions, StateEvent) == [StateEvent(state="thinking")]
    lost = talk.bus_lost("gone", 1)
    assert of(lost, ResumeAnswer) == of(lost, ContinueAnswer) == [], "the results come first"
    talk.tool_result("c1", "sunny", 5)
    talk.token(1, "It is sunny.", last=True, now=5)
    actions = talk.voice(1, 1.0, last=True, now=5)
    assert of(actions, ResumeTurn) == [ResumeTurn(1, 0.8, rested=True)]
    assert of(actions, StateEvent) == [StateEvent(state="speaking")]
    # A visitor who speaks while it rests stops it as any other answer.
    assert talk.voice(1, 1.0, last=True, now=5) == []


def test_the_face_does_not_freeze_while_code_is_written(talk: Conversation) -> None:
    talk.submit_text("Assign one to x.", 0)
    talk.token(1, "Like this:\n", last=False, now=0.5)
    talk.voice(1, 0.8, (SpokenMark(10, 0.8),), last=False, now=0.6)
    talk.started(1)
    talk.shown(1, 1, "python", "x =", 1.0)
    talk.played(1, 0.8, 1.4)
    assert of(talk.check(1.5), PauseTurn) == []
    assert of(talk.check(1.8), PauseTurn) == [PauseTurn(1, rests=True)]
    for now in range(2, 60):  # as long as that goes on, it is no standstill
        talk.shown(1, 1, "python", " 1 +", float(now))
        assert talk.check(now + 0.5) == []
    talk.token(1, "Done.", last=True, now=60)
    actions = talk.voice(1, 0.5, last=True, now=60.1)
    assert of(actions, ResumeTurn) == [ResumeTurn(1, 0.8, rested=True)]
    talk.submit_text("And two?", 61)
    assert talk.said[1].content.startswith("Like this:\n```python\nx = 1 +"), "what was seen"


def test_code_that_was_seen_is_remembered_though_its_place_was_not_heard(
    talk: Conversation,
) -> None:
    talk.submit_text("Assign one to x.", 0)
    talk.token(1, "Like this, and no other way:\n", last=False, now=0.5)
    talk.shown(1, 1, "python", "x = 1\n", 0.6)
    talk.voice(1, 1.6, (SpokenMark(9, 0.8),), last=False, now=0.7)
    talk.started(1)
    talk.played(1, 0.8, 1.5)
    talk.submit_text("Shorter, please.", 2)
    assert talk.said[1].content == "Like this\n```python\nx = 1\n```"


def test_who_speaks_while_a_tool_is_at_work_is_listened_to(talk: Conversation) -> None:
    asked(talk, WEATHER, text="Let me look.")
    talk.voice(1, 0.8, last=False, now=0)
    talk.started(1)
    talk.played(1, 0.8, 1)
    talk.check(2)
    talk.speech_started(1, 2.1)
    talk.voice_persists()
    assert talk.state == "listening"
    assert of(talk.voice(1, 1.0, last=False, now=2.2), ResumeTurn) == []
    actions = talk.final(1, "Stop, never mind the weather.", 3)
    assert "interrupted" in [e.event for e in of(actions, TurnEvent)]
    with pytest.raises(UnknownNameError):
        talk.tool_result("c1", "sunny", 4)


def test_a_question_that_goes_on_does_nothing_twice(talk: Conversation) -> None:
    talk.speech_started(1, 0)
    talk.final(1, "Order a pizza", 1)
    talk.speech_started(2, 1.2)
    assert talk.tools_called(talk.epoch, "", [WEATHER], 1.3) == []  # somebody speaks: it waits
    turn = talk.epoch
    assert of(talk.discarded(2, 2), CallTool) == [CallTool(turn, WEATHER)]
    # What has been done cannot be replaced by an answer to the longer question.
    talk.speech_started(3, 2.2)
    talk.tool_result("c1", "ordered", 2.3)
    (begin,) = of(talk.final(3, "with mushrooms please.", 3), BeginAnswer)
    assert [(m.role, m.content) for m in begin.messages[1:]] == [
        ("user", "Order a pizza"),
        ("assistant", ""),
        ("tool", "ordered"),
        ("user", "with mushrooms please."),
    ]


# ------------------------------------------------------------ through the API

TOOLS = [
    {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    }
]


async def next_call(session: Any) -> dict[str, Any]:
    async for event in session.events():
        if event["type"] == "answer.tool_call":
            return dict(event)
    raise AssertionError("the socket was closed")


@pytest.mark.asyncio(loop_scope="module")
async def test_a_client_does_what_an_answer_calls(
    client: GatewayClient, http: httpx.AsyncClient, doubles: Doubles
) -> None:
    doubles.script.calls = [("c7", "get_weather", '{"city": "Rome"}')]
    doubles.script.voice_s = 0.04
    async with client.session(tools=TOOLS, tool_choice={"name": "get_weather"}) as session:
        await session.ask("How is the weather?")
        call = await next_call(session)
        assert (call["turn"], call["call_id"]) == (1, "c7")
        assert json.loads(call["arguments"]) == {"city": "Rome"}
        await session.tool_result("c9", "?")
        await session.tool_result("c7", "sunny")
        events = await collect(session, "finished")
        assert [e["code"] for e in events if e["type"] == "error"] == ["not_found"]
        # Tools are the app's, not the visitor's.
        path = f"/v1/sessions/{session.id}"
        with pytest.raises(GatewayError) as refused:
            await client.call("PATCH", path, json={"tools": []})
        assert refused.value.code == "forbidden"
        wrong = await http.patch(path, json={"tool_choice": {"name": "other"}})
        assert wrong.status_code == 422 and "no tool 'other'" in wrong.text
        assert (await http.patch(path, json={"tools": []})).status_code == 200
        await session.ask("And now?")
        await collect(session, "finished")
        for change in ({"tool_choice": "none"}, {"tools": TOOLS}):
            assert (await http.patch(path, json=change)).status_code == 200
        await session.ask("And without?")
        await collect(session, "finished")
    (first, second, third), (on,) = doubles.seen.of("llm", "begin"), doubles.seen.of("llm", "go_on")
    assert [t.name for t in first.begin.request.tools] == ["get_weather"]
    assert first.begin.request.tool_choice.name == "get_weather"
    assert on.go_on.request.tool_choice.mode == llm_pb2.ToolChoice.AUTO
    assert [(m.role, m.content) for m in on.go_on.request.messages[-2:]] == [
        (llm_pb2.Message.ASSISTANT, ""),
        (llm_pb2.Message.TOOL, "sunny"),
    ]
    assert not second.begin.request.tools
    assert second.begin.request.tool_choice.mode == llm_pb2.ToolChoice.AUTO
    assert third.begin.request.tool_choice.mode == llm_pb2.ToolChoice.NONE, "it was left as it is"


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e999"])
async def test_a_schema_with_numbers_that_json_has_not_is_refused(
    http: httpx.AsyncClient, number: str
) -> None:
    tool = f'{{"name": "t", "parameters": {{"type": "object", "default": {number}}}}}'
    chat = f'"model": "visavis", "messages": [], "tools": [{{"function": {tool}}}]'
    for path, body in (("/v1/sessions", f'"tools": [{tool}]'), ("/v1/chat/completions", chat)):
        answer = await http.post(
            path, content=f"{{{body}}}", headers={"Content-Type": "application/json"}
        )
        assert 400 <= answer.status_code < 500 and "are not JSON" in answer.text, answer.text


@pytest.mark.asyncio(loop_scope="module")
async def test_a_result_goes_over_the_next_connection_where_one_is_lost(
    client: GatewayClient, doubles: Doubles
) -> None:
    doubles.script.calls = [("c7", "get_weather", '{"city": "Rome"}')]
    async with client.session(tools=TOOLS) as session:
        turn = await session.ask("How is the weather?")
        await next_call(session)
        session._events.transport.abort()
        await session._events.wait_closed()
        await session.tool_result("c7", "sunny")
        record = f"/v1/sessions/{session.id}/turns/{turn}"

        async def finished() -> bool:
            return bool((await client.call("GET", record)).json()["state"] == "finished")

        await eventually(finished)
        await client.call("DELETE", f"/v1/sessions/{session.id}")
        with pytest.raises(GatewayError) as refused:
            async with asyncio.timeout(15):
                while True:  # until the end is known here, too
                    await session.tool_result("c7", "sunny")
                    await asyncio.sleep(0.05)
        assert refused.value.code == "session_closed"


@pytest.mark.asyncio(loop_scope="module")
async def test_a_tool_is_waited_for_while_the_bus_blinks(
    client: GatewayClient, doubles: Doubles, rig: Rig
) -> None:
    """The gateway's own connection, and that of the voice: nothing of the answer is on its way."""
    doubles.script.calls = [("c7", "get_weather", '{"city": "Rome"}')]
    async with client.session(tools=TOOLS) as session:
        turn = await session.ask("How is the weather?")
        await next_call(session)
        bus, tts = rig.running.inside.bus, doubles.running["tts"]
        losses = bus.losses
        await bus.client.force_reconnect()
        await until(lambda: bus.losses == losses + 2)
        notice = control_pb2.TurnNotice(turn=turn, code="unsupported", message="It is back.")
        for told in ({"bus_lost": control_pb2.BusLost()}, {"turn_notice": notice}):
            await tts.events[session.id].put(control_pb2.AttachEvent(**told))
        async for event in session.events():
            if event["type"] == "warning":
                break
            assert event["type"] != "error", event
        await session.tool_result("c7", "sunny")
        events = await collect(session, "finished", "failed")
    assert events[-1]["event"] == "finished", events[-3:]
    assert [e for e in events if e["type"] == "error"] == []
