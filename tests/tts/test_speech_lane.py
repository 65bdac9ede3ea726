"""Who is served first where several answers are spoken at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from services.tts.phrase_feed import phrases_of
from services.tts.speech_lane import ASSUMED, SpeechLane, TurnLedger
from services.tts.speech_options import SpeechOptions
from services.tts.text.chunker import Phrase
from tests.fakes import ManualClock
from tests.tts.fakes import word_synthesizer
from visavis.engine import EngineLane
from visavis.serving.admission.meter import Meter
from visavis.wire.clock import MonotonicClock

OPTIONS = SpeechOptions().checked()


async def answer_of(text: str) -> AsyncIterator[Phrase]:
    for phrase in phrases_of(text):
        yield phrase


async def test_a_first_phrase_goes_before_later_ones_and_what_is_made_ahead() -> None:
    clock = MonotonicClock()
    synthesizer, voices = word_synthesizer()
    lane = EngineLane("t")
    speech = SpeechLane(synthesizer, lane)

    def speaking(text: str) -> AsyncIterator[object]:
        ledger = TurnLedger(clock, clock.now(), "en")
        return speech.speak(answer_of(text), OPTIONS, ledger)

    async def spoken(pieces: AsyncIterator[object]) -> None:
        async for _ in pieces:
            pass

    begun = speaking("One. " + "Two three four five six seven. " * 3)
    async with asyncio.timeout(30):
        while len(voices["en"].heard) < 2:
            await anext(begun)
        go = threading.Event()
        busy = asyncio.create_task(lane.run(go.wait, 10))
        ahead = asyncio.create_task(speech.prerender(answer_of("Made ahead."), OPTIONS))
        going_on = asyncio.create_task(spoken(begun))
        await asyncio.sleep(0)
        new = asyncio.create_task(spoken(speaking("Somebody new.")))
        await asyncio.sleep(0)
        voices["en"].heard.clear()
        go.set()
        await asyncio.gather(busy, ahead, going_on, new)
    lane.close()
    heard = voices["en"].heard
    assert heard[0] == "Somebody new."
    assert "Made ahead." in heard and len(heard) > 2


@pytest.mark.parametrize("confirmed", [False, True])
async def test_an_answer_that_may_be_thrown_away_lets_first_phrases_pass(confirmed: bool) -> None:
    clock = MonotonicClock()
    synthesizer, voices = word_synthesizer()
    lane = EngineLane("t")
    meter = Meter(clock, ASSUMED)
    meter.expect(1.0, 1.0)
    speech = SpeechLane(synthesizer, lane, meter)

    async def spoken(text: str, ledger: TurnLedger) -> None:
        async for _ in speech.speak(answer_of(text), OPTIONS, ledger):
            pass

    async with asyncio.timeout(10):
        go = threading.Event()
        busy = asyncio.create_task(lane.run(go.wait, 10))
        held = TurnLedger(clock, clock.now(), "en", held=True)
        guess = asyncio.create_task(spoken("Perhaps.", held))
        await asyncio.sleep(0)
        waited_for = TurnLedger(clock, clock.now(), "en")
        answer = asyncio.create_task(spoken("Surely.", waited_for))
        await asyncio.sleep(0)
        if confirmed:
            speech.confirm(held)
        go.set()
        await asyncio.gather(busy, guess, answer)
    lane.close()
    assert voices["en"].heard == ["Perhaps.", "Surely."][:: 1 if confirmed else -1]
    assert meter.measured().firsts == (2 if confirmed else 1), "nobody waits for what is held"


def test_what_is_held_is_heard_from_when_it_is_wanted() -> None:
    clock = ManualClock()
    synthesizer, _ = word_synthesizer()
    lane = EngineLane("t")
    ledger = TurnLedger(clock, clock.now(), "en", held=True)
    ledger.phrase_begins()
    ledger.voice_made(24_000, 24_000)
    clock.advance(5)
    assert ledger.heard_out_s() == 6, "nobody hears it yet"
    SpeechLane(synthesizer, lane).confirm(ledger)
    clock.advance(5)
    assert ledger.heard_out_s() == 6
    lane.close()


async def test_an_answer_is_alone_while_no_other_is_being_written() -> None:
    clock = MonotonicClock()
    synthesizer, _ = word_synthesizer()
    lane = EngineLane("t")
    speech = SpeechLane(synthesizer, lane)
    mine, other = (TurnLedger(clock, clock.now(), "en") for _ in range(2))
    own = speech.speak(answer_of("Mine is longer. Much longer."), OPTIONS, mine)
    theirs = speech.speak(answer_of("Theirs is longer. Much longer."), OPTIONS, other)
    async with asyncio.timeout(10):
        await anext(own)
        assert speech.is_alone(mine)
        await anext(theirs)
        assert not speech.is_alone(mine)
        other.text_ended()
        assert speech.is_alone(mine) and not speech.is_alone(other)
        await own.aclose()
        assert speech.is_alone(other)
        await theirs.aclose()
    lane.close()
