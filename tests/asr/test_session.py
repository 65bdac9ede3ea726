"""Sound that comes faster than it was spoken waits for answers, live sound does not."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from numpy.typing import NDArray

from services.asr.session import ListeningSession
from services.asr.turns.endpointing import EndpointRules
from tests.asr.doubles import FakeHearing, loud, pcm16, quiet
from tests.fakes import ManualClock
from visavis.engine import Urgency
from visavis.serving.errors import AtCapacityError, EngineError
from visavis.wire.media import TranscriptEvent as Event

QUESTION = pcm16(np.concatenate([quiet(10), loud(40), quiet(60)]))
RULES = EndpointRules()


def open_session(
    hearing: FakeHearing, clock: ManualClock, *, interim_results: bool = False
) -> ListeningSession:
    return ListeningSession(
        hearing,  # type: ignore[arg-type]
        "en",
        interim_results=interim_results,
        rules=RULES,
        clock=clock,
    )


async def test_a_file_gives_the_same_events_however_slow_the_networks_are() -> None:
    hearing = FakeHearing()
    hearing.hold.clear()
    async with open_session(hearing, ManualClock()) as session:
        listening = asyncio.create_task(session.hear(QUESTION, 16_000))
        await asyncio.wait_for(hearing.asked.wait(), 30)
        assert not listening.done()
        hearing.hold.set()
        await asyncio.wait_for(listening, 30)
        events = session.ready_events()
    assert [event.event for event in events] == [Event.SPEECH_STARTED, Event.PAUSED, Event.FINAL]
    assert events[-1].at_samples == (50 + RULES.shortest_wait_frames) * 512


async def test_live_sound_is_heard_while_the_networks_think() -> None:
    hearing, clock = FakeHearing(), ManualClock()
    hearing.hold.clear()
    async with open_session(hearing, clock) as session:
        await session.hear(QUESTION[:0], 16_000)
        clock.advance(len(QUESTION) / 16_000)
        await asyncio.wait_for(session.hear(QUESTION, 16_000), 30)
        assert session.heard_samples == len(QUESTION)
        assert [event.event for event in session.ready_events()] == [Event.SPEECH_STARTED]


async def test_a_burst_at_its_beginning_makes_no_file_of_a_microphone() -> None:
    hearing, clock = FakeHearing(), ManualClock()
    async with open_session(hearing, clock) as session:
        await session.hear(quiet(60), 16_000)
        for _ in range(16):
            clock.advance(1.0)
            await session.hear(np.zeros(16_000, np.float32), 16_000)
        hearing.hold.clear()
        for at in range(0, len(QUESTION), 512):
            clock.advance(512 / 16_000)
            await asyncio.wait_for(session.hear(QUESTION[at : at + 512], 16_000), 30)


async def test_what_was_said_before_is_heard_by_its_own_time_and_what_follows_is_live() -> None:
    """However long ago: as a recogniser that comes in another's place hears it."""
    hearing, clock = FakeHearing(), ManualClock()
    hearing.hold.clear()
    async with open_session(hearing, clock, interim_results=True) as session:
        await session.hear(QUESTION[:0], 16_000)
        clock.advance(60)
        said = np.concatenate([QUESTION[: 40 * 512], pcm16(quiet(6)), QUESTION[30 * 512 :]])
        repeated = asyncio.create_task(session.hear(said, 16_000, recorded=True))
        await asyncio.wait_for(hearing.asked.wait(), 30)
        assert not repeated.done()
        hearing.hold.set()
        await asyncio.wait_for(repeated, 30)
        events = session.ready_events()
        # Nobody waits for the first words of what is over, and a short pause is none.
        assert [e.event for e in events] == [Event.SPEECH_STARTED, Event.PAUSED, Event.FINAL]
        assert events[-1].text == "50" and 66 + 8 <= events[-1].at_samples // 512 <= 66 + 10
        await session.hear(np.zeros(32_000, np.int16), 16_000, recorded=True)
        hearing.hold.clear()
        for at in range(0, len(QUESTION), 512):
            clock.advance(512 / 16_000)
            await asyncio.wait_for(session.hear(QUESTION[at : at + 512], 16_000), 5)


async def test_leaving_ends_the_work_that_was_begun() -> None:
    hearing, clock = FakeHearing(), ManualClock()
    hearing.hold.clear()
    before = asyncio.all_tasks()
    async with open_session(hearing, clock) as session:
        await session.hear(QUESTION[:0], 16_000)
        clock.advance(60)
        await session.hear(QUESTION, 16_000)
        assert asyncio.all_tasks() != before
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("error", [EngineError("late"), AtCapacityError("too many ask")])
async def test_listening_goes_on_without_the_turn_detectors_opinion(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    hearing = FakeHearing()

    async def fails(pcm: NDArray[np.float32], urgency: Urgency) -> tuple[float, float]:
        raise error

    monkeypatch.setattr(hearing, "end_of_turn", fails)
    async with open_session(hearing, ManualClock()) as session:
        await session.hear(QUESTION, 16_000)
        await session.finish()
        told = [heard.event async for heard in session.events()]
    assert told[-1] is Event.FINAL


async def test_a_microphone_may_change_its_rate() -> None:
    async with open_session(FakeHearing(), ManualClock()) as session:
        await session.hear(QUESTION[: 30 * 512], 16_000)
        await session.hear(np.repeat(QUESTION[30 * 512 :], 3), 48_000)
        await session.finish()
        final = session.ready_events()[-1]
    assert final.event is Event.FINAL
    assert int(final.text) == pytest.approx(40, abs=1)
