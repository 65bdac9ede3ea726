"""Speech that proves to be nothing, and answers that prove to be wanted by nobody, on the stack.

What asr would say is put on the bus; everything behind it is real.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.running_stack import RunningStack
from tests.stack.conftest import Ears, likeness
from tests.stack.test_conversation import answer_of, until_turn
from visavis.client import MIC_RATE_HZ, GatewayClient, GatewaySession
from visavis.tools.bench.visitor.clips import read_mono
from visavis.wire.bus import Bus, Subscription
from visavis.wire.media import Place, TranscriptChunk, TranscriptEvent
from visavis.wire.permissions import User
from visavis.wire.subjects import Kind

E = TranscriptEvent


class Hearsay:
    """Transcripts of a visitor who says nothing, and what the stages make of them."""

    def __init__(self, bus: Bus, spy: Bus, session: str) -> None:
        """bus: of asr's own user, which may say so. spy: of who hears everything."""
        self._bus, self._spy, self._session = bus, spy, session
        self._seq = 0

    async def tell(self, event: TranscriptEvent, text: str = "", utterance: int = 1) -> None:
        place = Place(self._session, 0, 1_000_000 + self._seq, 0)
        self._seq += 1
        chunk = TranscriptChunk(place, event, utterance, text, end_of_turn_probability=0.9)
        await self._bus.publish(Kind.TRANSCRIPT, chunk)

    def overhear(self, kind: Kind) -> Subscription:
        """What goes over the bus from when it is entered."""
        return self._spy.subscribe(self._session, kind)


async def first(chunks: Subscription, turn: int) -> None:
    """Returns once a chunk of the turn has come."""
    async with asyncio.timeout(20):
        async for chunk in chunks:
            if chunk.place.turn == turn:
                return
    raise AssertionError("the bus was closed")


@pytest.fixture
async def bus(stack: RunningStack) -> AsyncIterator[Bus]:
    bus = await Bus.connect(stack.keys.nats_url, name="hearsay", login=stack.login(User.ASR))
    yield bus
    await bus.close()


@pytest.fixture
async def spy(stack: RunningStack) -> AsyncIterator[Bus]:
    bus = await Bus.connect(stack.keys.nats_url, name="spy", login=stack.login(User.OPERATOR))
    yield bus
    await bus.close()


async def until_state(session: GatewaySession, state: str) -> list[dict[str, Any]]:
    events = []
    async with asyncio.timeout(20):
        async for event in session.events():
            events.append(event)
            if event["type"] == "state" and event["state"] == state:
                return events
    raise AssertionError("the events ended")


async def test_an_answer_that_was_prepared_for_nothing_leaves_no_trace(
    gateway: GatewayClient, bus: Bus, spy: Bus
) -> None:
    async with gateway.session(language="en") as session:
        visitor = Hearsay(bus, spy, session.id)
        async with visitor.overhear(Kind.VOICE) as voice:
            await visitor.tell(E.SPEECH_STARTED)
            await visitor.tell(E.PAUSED, "Tell me a long story about a dragon")
            await first(voice, 1)  # the answer is being spoken, to nobody
        await visitor.tell(E.PARTIAL, "Tell me a long story about a dragon no")
        await visitor.tell(E.FINAL, "Tell me a long story about a dragon no what is two plus two?")
        events = await until_turn(session, "finished")
        turns = {e["turn"] for e in events if e.get("turn")}
        assert turns == {3}  # 1 was prepared in the pause, 2 before the next one
        assert [e["event"] for e in events if e["type"] == "turn"] == [
            "opened", "speaking", "finished",
        ]  # fmt: skip
        records = (await gateway.call("GET", f"/v1/sessions/{session.id}/turns")).json()
        assert [record["turn"] for record in records] == [3]
        await session.ask("Thank you.")
        assert answer_of(await until_turn(session, "finished")).strip()


async def test_a_listener_s_word_holds_the_answer_up_and_takes_nothing_from_it(
    gateway: GatewayClient, bus: Bus, spy: Bus, ears: Ears, tmp_path: Path
) -> None:
    async with gateway.session(language="en") as session:
        visitor = Hearsay(bus, spy, session.id)
        await session.record_turn()
        turn = await session.ask("Why is the sky blue?")
        events = await until_turn(session, "speaking")
        async with visitor.overhear(Kind.CLOCK) as clock:
            await first(clock, turn)
        await visitor.tell(E.SPEECH_STARTED)
        events += await until_state(session, "listening")
        await asyncio.sleep(0.3)  # the face rests
        await visitor.tell(E.PAUSED, "Uh-huh.")
        events += await until_state(session, "speaking")
        await visitor.tell(E.FINAL, "Uh-huh.")
        events += await until_turn(session, "finished")
        video = tmp_path / "held_up.mp4"
        video.write_bytes(await session.recording())
    assert {e["turn"] for e in events if e["type"] == "turn"} == {turn}
    heard = await ears.transcribe(read_mono(video, MIC_RATE_HZ).tobytes(), "en")
    assert likeness(heard, answer_of(events)) > 0.6
