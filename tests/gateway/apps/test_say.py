"""What is said and how: texts as they stand, in order, bounded, interruptible, remembered; styles,
tags in a text, what a voice cannot do; word times.
"""

from __future__ import annotations

import asyncio
import json
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from gateway.api.events import AnswerEvent, WordsEvent, WordTime
from gateway.apps.routes import sentences
from gateway.apps.sayings import MOST_WAITING
from gateway.stages.plain_calls import Passage
from gateway.talk.actions import Emit
from gateway.talk.conversation import Conversation
from gateway.talk.history import SpokenMark
from tests.gateway.conftest import RunningGateway, eventually, next_event, until
from tests.gateway.doubles import Doubles
from tests.gateway.visiting import Visitor, collect
from visavis.client import GatewayClient, GatewayError, GatewaySession
from visavis.v1 import control_pb2
from visavis.wire.media import TranscriptEvent, TurnChunk
from visavis.wire.subjects import Kind

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def say(client: GatewayClient, session: GatewaySession, text: str, **more: Any) -> int:
    body = {"text": text, **more}
    answer = await client.call("POST", f"/v1/sessions/{session.id}/say", json=body)
    return int(answer.json()["say"])


def sayings(events: list[dict[str, Any]]) -> list[tuple[int, str]]:
    return [(e["say"], e["event"]) for e in events if e["type"] == "say"]


async def test_a_text_is_said_as_it_stands_and_remembered(
    client: GatewayClient, doubles: Doubles
) -> None:
    async with client.session() as session:
        async with doubles.bus.subscribe(session.id, Kind.TURN) as turns:
            assert await say(client, session, "We close in ten minutes.", style="happy") == 1
            events = await collect(session, "finished")
            told = await anext(turns)
        assert isinstance(told, TurnChunk) and (told.style, told.language) == ("happy", "")
        assert sayings(events) == [(1, "waiting"), (1, "opened")]
        opened = next(e for e in events if e["type"] == "say" and e["event"] == "opened")
        assert opened["turn"] == told.place.turn
        assert "transcript" not in [e["type"] for e in events], "nobody asked"
        assert [e["text"] for e in events if e["type"] == "answer"] == ["We close in ten minutes."]
        speaking = next(e for e in events if e.get("event") == "speaking")
        assert speaking["media_ms"] > 0
        latency = [e for e in events if e["type"] == "latency"]
        assert latency[-1]["origin"] == "say"
        (turn,) = (await client.call("GET", f"/v1/sessions/{session.id}/turns")).json()
        assert (turn["answered_by"], turn["state"]) == ("say", "finished")
        assert doubles.seen.prompts == []
        await session.ask("What did you say?")
        await until(lambda: doubles.seen.prompts)
    said = [content for _, content in doubles.seen.prompts[0]]
    assert "We close in ten minutes." not in said[:-2], "a prompt begins with a question"


async def test_the_recogniser_is_told_whether_somebody_was_asked(
    client: GatewayClient, doubles: Doubles
) -> None:
    def told() -> list[bool]:
        return [one.listening.endpointing.asked for one in doubles.seen.of("asr", "listening")]

    doubles.script.voice_s = 0.1
    async with client.session() as session:
        wanted = doubles.seen.of("asr", "config")[-1].config.recognition.endpointing
        assert wanted.HasField("asked") and not wanted.asked
        for text, known in (
            ("Who are you?", [True]),
            ("And where?", [True]),
            ("Good.", [True, False]),
        ):
            await say(client, session, text)
            await collect(session, "finished")
            await until(lambda known=known: told() == known)


async def test_the_recogniser_is_told_which_utterances_were_the_visitor_s_own(
    client: GatewayClient, doubles: Doubles
) -> None:
    def told() -> list[int]:
        listening = doubles.seen.of("asr", "listening")
        return [one.listening.endpointing.answered for one in listening]

    doubles.script.voice_s = 2.0
    async with client.session() as session:
        wanted = doubles.seen.of("asr", "config")[-1].config.recognition.endpointing
        assert wanted.HasField("answered") and not wanted.answered
        visitor = Visitor(doubles, session)
        await visitor.does(TranscriptEvent.SPEECH_STARTED)
        await visitor.does(TranscriptEvent.FINAL, "Tell me.")
        await collect(session, "speaking")
        await until(lambda: told() == [1])
        for words in ("Mm-hm.", "Stop."):
            visitor.utterance += 1
            await visitor.does(TranscriptEvent.SPEECH_STARTED)
            await visitor.does(TranscriptEvent.FINAL, words)
        await until(lambda: told() == [1, 3])


async def test_texts_wait_for_each_other_and_no_text_for_ever(
    client: GatewayClient, doubles: Doubles
) -> None:
    doubles.script.voice_s = 0.1
    async with client.session() as session:
        for text in ("One.", "Two."):
            await say(client, session, text, language="zh")
        events = await collect(session, "finished")
        events += await collect(session, "finished")
        answers = [e["text"] for e in events if e["type"] == "answer"]
        assert answers == ["One.", "Two."]
        doubles.script.silent.add("tts")  # the first one is begun and never comes to its end
        await say(client, session, "It is never heard.")
        await collect(session, "opened")
        # At once: before the first one is given up.
        await asyncio.gather(*(say(client, session, "And again.") for _ in range(MOST_WAITING)))
        with pytest.raises(GatewayError, match="wait already") as refused:
            await say(client, session, "One too many.")
        assert refused.value.code == "too_many_waiting"
        await session.interrupt()
        events = await collect(session, "interrupted")
        dropped = [e for e in events if e["type"] == "say" and e["event"] == "dropped"]
        assert len(dropped) == MOST_WAITING and {e["reason"] for e in dropped} == {"interrupted"}


async def test_at_once_in_place_of_everything(client: GatewayClient, doubles: Doubles) -> None:
    doubles.script.voice_s = 5.0
    async with client.session() as session:
        await say(client, session, "A long story.")
        await collect(session, "speaking")
        await say(client, session, "And its end.")
        assert await say(client, session, "Fire!", interrupt=True) == 3
        doubles.script.voice_s = 0.1
        events = await collect(session, "finished", "failed")
    told = [(2, "waiting"), (2, "dropped"), (3, "waiting"), (3, "opened")]
    assert sayings(events) == told
    cut = next(e for e in events if e.get("event") == "interrupted")
    assert cut["reason"] == "say"


async def test_what_is_said_ends_at_once_though_the_voice_for_what_is_wanted_is_away(
    client: GatewayClient, doubles: Doubles
) -> None:
    doubles.script.voice_s = 20.0
    async with client.session() as session:
        await session.ask("Tell me a long story.")
        await collect(session, "speaking")
        doubles.script.voice_s = 0.1
        await doubles.stop("tts")
        await eventually(partial(_lacks_voice, client, session))
        await say(client, session, "Please leave the building.", interrupt=True)
        events = await collect(session, "interrupted", "finished")
        assert (events[-1]["event"], events[-1]["reason"]) == ("interrupted", "say")
        await doubles.start("tts")
        events += await collect(session, "finished", "failed")
    assert events[-1]["event"] == "finished"
    assert sayings(events) == [(1, "waiting"), (1, "opened")]


async def _lacks_voice(client: GatewayClient, session: GatewaySession) -> bool:
    told = await client.call("GET", f"/v1/sessions/{session.id}")
    return told.json()["stages"]["tts"] is None


async def test_a_visitor_who_speaks_is_not_spoken_over(
    client: GatewayClient, doubles: Doubles
) -> None:
    async with client.session() as session:
        visitor = Visitor(doubles, session)
        await visitor.does(TranscriptEvent.SPEECH_STARTED)
        async with asyncio.timeout(30):
            async for event in session.events():
                if event["type"] == "state" and event["state"] == "listening":
                    break
        await say(client, session, "By the way.")
        await visitor.does(TranscriptEvent.FINAL, "How are you?")
        events = await collect(session, "finished")
        events += await collect(session, "finished")
    answers = [e["text"] for e in events if e["type"] == "answer"]
    assert "".join(answers) == f"{doubles.script.answer}By the way."


async def test_it_can_be_said_over_the_events_socket(client: GatewayClient) -> None:
    async with client.session() as session:
        async with client.connect(f"/v1/sessions/{session.id}/events") as events:
            await events.send(json.dumps({"type": "say", "text": "Hello.", "language": "tlh"}))
            await events.send(json.dumps({"type": "say", "text": "Hello."}))
            told = await collect(session, "finished")
            error = await next_event(events, "error")
        assert error["code"] == "not_found" and "tlh" in error["message"]
        assert sayings(told) == [(1, "waiting"), (1, "opened")]


# ------------------------------------------------------------ styles


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
    doubles.script.voice_s = 0.04
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
    doubles.script.voice_s = 0.04
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


# ------------------------------------------------------------ word times


def told(actions: Any) -> list[tuple[str, int, int, int]]:
    events = [a.event for a in actions if isinstance(a, Emit) and isinstance(a.event, WordsEvent)]
    return [(w.text, w.chars, w.start_ms, w.end_ms) for e in events for w in e.words]


async def test_words_are_told_with_their_times_once_both_are_known() -> None:
    talk = Conversation()
    talk.submit_text("Hi.", 0)
    talk.token(1, "[happy] Hello", last=False, now=0)
    marks = [SpokenMark(5, 0.4), SpokenMark(12, 0.95)]
    assert told(talk.voice(1, 1.0, marks, last=True, now=0)) == [("Hello", 5, 0, 400)]
    assert told(talk.token(1, " there.", last=True, now=0)) == [("there.", 12, 400, 950)]
    assert told(talk.token(1, "", last=True, now=0)) == []
    turn = talk.turns.find(1)
    assert turn is not None and [word.text for word in turn.words] == ["Hello", "there."]


async def test_an_answer_becomes_subtitles_by_its_words() -> None:
    text = 'He said "no." Then, well: he went.'
    ends = [(0, 0), (2, 200), (7, 500), (13, 900), (19, 1500), (25, 1800), (28, 1900), (34, 2400)]
    words = [
        WordTime(text=text[before:chars].strip(), chars=chars, start_ms=start, end_ms=end)
        for (before, start), (chars, end) in pairwise(ends)
    ]
    assert list(sentences(text, words)) == [
        Passage('He said "no."', 0.0, 0.9),
        Passage("Then, well: he went.", 0.9, 2.4),
    ]
    assert list(sentences("你好。再见", words[:0])) == []


async def test_words_of_a_prepared_answer_are_told_once_it_is_asked_for() -> None:
    talk = Conversation()
    talk.speech_started(1, 0)
    talk.paused(1, "How are you?", 0.9, 0)
    assert told(talk.token(1, "Fine.", last=True, now=0)) == []
    assert told(talk.voice(1, 0.5, [SpokenMark(5, 0.5)], last=True, now=0)) == []
    actions = talk.final(1, "How are you?", 0)
    assert told(actions) == [("Fine.", 5, 0, 500)]
    kinds = [type(a.event) for a in actions if isinstance(a, Emit)]
    assert kinds.index(AnswerEvent) < kinds.index(WordsEvent)
