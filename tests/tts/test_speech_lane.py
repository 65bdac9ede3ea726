"""Who is served first where several answers are spoken at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

from services.tts.phrase_feed import phrases_of
from services.tts.speech_lane import SpeechLane, TurnLedger
from services.tts.speech_options import SpeechOptions
from services.tts.text.chunker import Phrase
from tests.tts.fakes import word_synthesizer
from visavis.engine import EngineLane
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
