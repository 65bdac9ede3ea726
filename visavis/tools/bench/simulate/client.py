"""Run as a program: one process of a simulated load's visitors, in dilated time.

    python -m visavis.tools.bench.simulate.client DILATION

They are the visitors of `visavis bench load` with questions of their own, which are tones, and with
an ear for the tones of the answers.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from visavis.client import GatewayClient
from visavis.tools.bench.load.client import Client, Orders, Parent
from visavis.tools.bench.load.guest import Notes
from visavis.tools.bench.load.schedule import Planned
from visavis.tools.bench.simulate.dilation import DilatedEventLoop
from visavis.tools.bench.simulate.words import (
    GAP_S,
    asked_sound,
    question_of,
    read_sound,
    word_of,
)
from visavis.tools.bench.visitor.clips import RATE_HZ, Clip, SpeechSpan
from visavis.tools.bench.visitor.media import HeardSound, SeenPicture
from visavis.wire.clock import dilate

UNCLEAR = "?"
"""In the ledger, a word of which it is not clear which."""
_QUIET = 0.02
_LONGEST_S = 2.0
_LAST_WORD_S = 0.5


class OwnQuestions:
    """The questions of one visitor, none of which anybody else asks."""

    def __init__(self, visitor: int) -> None:
        self._visitor = visitor

    def clip(self, planned: Planned) -> Clip:
        sound = asked_sound(self._visitor, planned.number, RATE_HZ)
        pcm = np.rint(sound * 32767).astype(np.int16)
        span = SpeechSpan(0, len(pcm), "simulated, known to the sample")
        text = question_of(self._visitor, planned.number)
        return Clip(f"{self._visitor}-{planned.number}", pcm, span, text)


class Ear:
    """Reads words from a stream of sound, each as soon as the silence behind it is there."""

    def __init__(self, on_word: Callable[[str], None]) -> None:
        self._on_word = on_word
        self._kept: list[NDArray[np.float32]] = []
        self._kept_s = self._quiet_s = 0.0

    def hear(self, sound: HeardSound) -> None:
        """The next stretch of it."""
        pcm = sound.pcm.astype(np.float32) * np.float32(1 / 32768)
        length_s = len(pcm) / sound.rate_hz
        if float(np.abs(pcm).max(initial=0.0)) < _QUIET:
            self._quiet_s += length_s
            if not self._kept:
                return
        else:
            self._quiet_s = 0.0
        self._kept.append(pcm)
        self._kept_s += length_s
        if self._quiet_s >= GAP_S or self._kept_s > _LONGEST_S:
            self._read(sound.rate_hz)

    def _read(self, rate_hz: int) -> None:
        whole = np.concatenate(self._kept)
        self._kept, self._kept_s = [], 0.0
        found = read_sound(whole, rate_hz)
        if self._quiet_s < GAP_S and found:
            # The last one may go on.
            start = max(0, round((found[-1].start_s - GAP_S / 2) * rate_hz))
            self._kept, self._kept_s = [whole[start:]], (len(whole) - start) / rate_hz
            found = found[:-1]
        for word in found:
            self._on_word(UNCLEAR if word.pair is None else word_of(word.pair))


class EarNotes(Notes):
    """What a visitor is told and sees, and the words that he hears."""

    def __init__(self, visitor: int) -> None:
        super().__init__(visitor)
        self._at_s = 0.0
        self._ear = Ear(lambda word: self.line(self._at_s, "heard", 0, word))

    def media(self, found: HeardSound | SeenPicture) -> None:
        super().media(found)
        if isinstance(found, HeardSound):
            self._at_s = found.at_s
            self._ear.hear(found)


class SimulatedClient(Client):
    """Visitors whose questions and answers are tones."""

    def decks(self) -> Callable[[int], OwnQuestions]:
        return OwnQuestions

    def notes_of(self, visitor: int) -> Notes:
        return EarNotes(visitor)

    async def _step(self, start_s: float, gateway: GatewayClient) -> None:
        await super()._step(start_s, gateway)
        # The end of an answer is told before the sound coder has given its last word away.
        await asyncio.sleep(_LAST_WORD_S)
        self._report.lines = [line for notes in self._notes for line in notes.lines]


async def main() -> int:
    """Exit status."""
    parent = await Parent.connect()
    line = await parent.line()
    if not line:
        return 1
    await SimulatedClient(Orders.from_line(line), parent).run()
    await parent.told()
    return 0


if __name__ == "__main__":
    dilate(float(sys.argv[1]))
    with asyncio.Runner(loop_factory=DilatedEventLoop) as runner:
        sys.exit(runner.run(main()))
