"""What a session asks of the language model beside answers, and when its welcome is due."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from gateway.answers.answering import SETTLE_S, Answering, WelcomeCue
from gateway.talk.actions import Message, ReadAhead


async def test_while_the_model_cannot_be_told_the_newest_words_wait_alone() -> None:
    told: list[str] = []
    there = asyncio.Event()

    async def read_ahead(messages: tuple[Message, ...], known: tuple[Any, ...]) -> None:
        await there.wait()
        told.append(messages[-1].content)

    stages: Any = SimpleNamespace(read_ahead=read_ahead)
    sources: Any = SimpleNamespace(cache=None, knowledge=None)
    unused: Any = None
    answering = Answering(stages, unused, sources, "")
    reads = [
        asyncio.create_task(answering.read_ahead(ReadAhead((Message("user", text),))))
        for text in ("What", "What is", "What is the", "What is the capital")
    ]
    await asyncio.sleep(0)
    await asyncio.gather(*reads[1:])
    assert told == []
    there.set()
    await reads[0]
    assert told == ["What", "What is the capital"]
    await answering.read_ahead(ReadAhead((Message("user", "Well"),)))
    assert told[-1] == "Well"


def test_the_welcome_is_said_once_and_not_before_the_player_has_settled() -> None:
    cue = WelcomeCue("Hello")
    assert cue.due(0.0, watched=False, untouched=True) == ""
    assert cue.due(1.0, watched=True, untouched=True) == ""
    assert cue.due(1.0 + SETTLE_S / 2, watched=False, untouched=True) == ""
    assert cue.due(2.0, watched=True, untouched=True) == ""
    assert cue.due(2.1 + SETTLE_S, watched=True, untouched=True) == "Hello"
    assert cue.due(9.0, watched=True, untouched=True) == ""
    spoken_to = WelcomeCue("Hello")
    assert spoken_to.due(0.0, watched=True, untouched=False) == ""
    assert spoken_to.due(9.0, watched=True, untouched=True) == "", "the visitor spoke first"
