"""How often a voice breaks off where its text comes slowly or in jolts: simulated, in no time.

    python -m tests.tools.bench.simulated_voice_gaps
    python -m tests.tools.bench.simulated_voice_gaps --fixed --awaits-text

The real cutting of phrases, with its reckoning, between a language model and a voice that take
times of chance. The ranges are of two cores with AVX2 alone, where one to four visitors are
answered (docs/load.md); `quick` is a processor on which one takes half as long.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from dataclasses import dataclass
from typing import Any

from services.tts.phrase_feed import cut_phrases
from services.tts.session import SpokenTurn
from services.tts.sound import SAMPLE_RATE_HZ
from services.tts.speech_lane import MakingTime, TurnLedger
from visavis.wire.clock import Clock

ANSWERS = (
    "Yes, of course. The museum opens at nine in the morning and closes at six, except on Mondays, "
    "when it is closed all day. You can buy tickets online, which is usually a little cheaper.",
    "Rain forms when warm air rises and cools, so that the water in it condenses into tiny drops "
    "that join with others until they are too heavy to stay up.",
    "I would take the train, because it is faster than the bus and you can work on the way. It "
    "leaves every half hour from the central station and arrives after about forty minutes.",
    "A good way to begin is to write down what you want to learn, then find a teacher or a book "
    "that explains it well, and practise a little every day instead of a lot once a week.",
    "Honey never spoils! Archaeologists have found pots of honey in tombs that were thousands of "
    "years old and still good to eat, for it holds so little water that nothing can grow in it.",
)
FIRST_TOKEN_S = 0.3
SPOKEN_BYTES_PER_S, PAUSE_S = 16.0, 0.05
# The pace of the text changes as others begin and end to be answered; a prompt of theirs that is
# read is a jolt.
CHANGES, JOLTS = 0.15, 0.04


@dataclass(frozen=True)
class Load:
    """making_s, jolt_s: least and most. token_s: each as likely."""

    name: str
    making_s: tuple[float, float]
    token_s: tuple[float, ...]
    jolt_s: tuple[float, float]


LOADS = (
    Load("quick", (0.04, 0.08), (0.015, 0.025), (0.05, 0.15)),
    Load("one", (0.06, 0.12), (0.03,), (0.0, 0.0)),
    Load("three", (0.08, 0.20), (0.03, 0.055, 0.08), (0.2, 0.5)),
    Load("four", (0.08, 0.35), (0.055, 0.08, 0.11), (0.2, 0.6)),
)


class LoopOfNoTime(asyncio.SelectorEventLoop):
    """An event loop whose time passes only while it would wait."""

    def __init__(self) -> None:
        self._now_s = 0.0
        super().__init__()
        looks: Any = self._selector  # type: ignore[attr-defined]
        select = looks.select

        def at_once(timeout_s: float | None = None) -> Any:
            found = select(0)
            self._now_s += 0.0 if found else timeout_s or 0.0
            return found

        looks.select = at_once

    def time(self) -> float:
        return self._now_s


class LoopClock:
    """A Clock of the loop's time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now(self) -> float:
        return self._loop.time()


class Voice:
    """Speaks answers one after the other, and keeps the gaps in them."""

    def __init__(self, load: Load, clock: Clock, *, fixed: bool, awaits_text: bool) -> None:
        """fixed: it reckons with the same time for each phrase. awaits_text: it looks whether it
        would break off only where text comes.
        """
        self.gaps_s: list[float] = []
        self.phrases = 0
        self._load, self._clock = load, clock
        self._fixed, self._awaits_text = fixed, awaits_text
        self._making = MakingTime()
        self._writing, self._speaking = random.Random(1), random.Random(2)

    async def answer(self) -> None:
        ledger = TurnLedger(self._clock, self._clock.now(), "en")
        turn = SpokenTurn(1, ledger, 2**31, self._clock)

        def spare_s() -> float | None:
            return None if self._awaits_text else turn.spare_s(self._making.likely_s)

        phrases = cut_phrases(
            turn.feed.texts(spare_s),
            lambda: turn.hurried(self._making.likely_s),
            early=lambda: turn.unspoken,
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._write(turn))
            ends_s = None
            async for phrase in phrases:
                ledger.phrase_begins()
                await asyncio.sleep(self._speaking.uniform(*self._load.making_s))
                now_s = self._clock.now()
                if not self._fixed:
                    self._making.note(now_s - ledger.phrase_at)
                if ends_s is not None and now_s > ends_s:
                    self.gaps_s.append(now_s - ends_s)
                lasts_s = len(phrase.text.encode()) / SPOKEN_BYTES_PER_S + PAUSE_S
                ends_s = max(now_s, ends_s or 0.0) + lasts_s
                ledger.voice_made(round(lasts_s * SAMPLE_RATE_HZ), SAMPLE_RATE_HZ)
                ledger.heard_from = ends_s - ledger.produced_samples / SAMPLE_RATE_HZ
                self.phrases += 1

    async def _write(self, turn: SpokenTurn) -> None:
        chance, token_s = self._writing, self._writing.choice(self._load.token_s)
        await asyncio.sleep(FIRST_TOKEN_S)
        first, *words = chance.choice(ANSWERS).split(" ")
        for token in (first, *(f" {word}" for word in words)):
            if chance.random() < CHANGES:
                token_s = chance.choice(self._load.token_s)
            jolt_s = chance.uniform(*self._load.jolt_s) if chance.random() < JOLTS else 0.0
            await asyncio.sleep(token_s + jolt_s)
            turn.feed.add(token)
        turn.ledger.text_ended()
        turn.feed.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--answers", type=int, default=1000)
    parser.add_argument("--fixed", action="store_true", help="reckon 0.15 s for each phrase")
    parser.add_argument("--awaits-text", action="store_true", help="look only where text comes")
    given = parser.parse_args()
    for load in LOADS:
        loop = LoopOfNoTime()
        voice = Voice(load, LoopClock(loop), fixed=given.fixed, awaits_text=given.awaits_text)
        for _ in range(given.answers):
            loop.run_until_complete(voice.answer())
        loop.close()
        sys.stdout.write(
            f"simulated, {load.name}: {len(voice.gaps_s)} gaps, {sum(voice.gaps_s):.2f} s, the "
            f"longest {max(voice.gaps_s, default=0):.2f} s, in {given.answers} answers of "
            f"{voice.phrases} phrases\n"
        )


if __name__ == "__main__":
    main()
