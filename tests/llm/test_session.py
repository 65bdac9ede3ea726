"""What a session reads between its turns, with a scripted backend and a stage that is idle."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from services.llm.backends.base import ChatMessage
from services.llm.gate import Place
from services.llm.generator import AnswerRequest, Generator
from services.llm.servicer import ASSUMED
from services.llm.session import AnsweringSession
from tests.fakes import ManualClock
from tests.llm.fake_backend import DEFAULTS, FakeBackend
from visavis.serving.admission.meter import Meter


async def nothing(place: Place) -> None:
    """The persona was read."""


async def test_words_that_are_told_again_are_not_read_again() -> None:
    backend = FakeBackend(keeps_prefix=True)
    idle: Any = SimpleNamespace(session="s1", busy=False, begun=1)
    clock = ManualClock()
    generator = Generator(backend, DEFAULTS, clock)
    session = AnsweringSession(idle, 0, generator, Meter(clock, ASSUMED), nothing)
    loops = [asyncio.create_task(loop) for loop in session.loops()]
    for text in ("How are", "How are", "How are you"):
        looked = asyncio.Event()

        def request(text: str = text, looked: asyncio.Event = looked) -> AnswerRequest:
            looked.set()
            return AnswerRequest((ChatMessage("user", text),))

        session.read_ahead(request)
        await asyncio.wait_for(looked.wait(), 30)
        await asyncio.wait_for(backend.freed.wait(), 30)
    for loop in loops:
        loop.cancel()
    await asyncio.gather(*loops, return_exceptions=True)
    assert [r.messages[-1].content for r in backend.requests] == ["How are", "How are you"]
