"""What was said of the sentence that an answer is in, for the phrase that goes on with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from services.tts.sound import NOTHING, SILENCE, Block, PlacedSpan, fade, log_mel
from services.tts.text.chunker import Pause, Phrase
from services.tts.text.script_runs import Run
from services.tts.text.surroundings import Surroundings
from services.tts.voices.joining import joined, let_go

_NOBODY = Run("", "")


class Sentence:
    """Its words in one voice up to now, and the sound that its next words take up."""

    def __init__(self) -> None:
        self._said = _NOBODY
        self._tail: NDArray[np.float32] = NOTHING

    def around(self, runs: Sequence[Run], phrase: Phrase) -> Surroundings:
        """Of `phrase`, which is spoken as `runs`."""
        follows = len(self._tail) > 0 and runs[0].language == self._said.language
        ahead = phrase.ahead if phrase.pause is Pause.NONE else ""
        return Surroundings(self._said.text if follows else "", ahead)

    def takes_up(self, block: Block) -> Block | None:
        """The first block of a phrase, joined to the one before; None where it stands apart."""
        if not len(block.lead):
            return None
        tail, self._tail = self._tail, NOTHING
        if len(tail):
            return joined(tail, block)
        return replace(block, voice=fade(block.voice, at_end=False), lead=NOTHING)

    def let_go(self) -> Block | None:
        """The sound that nothing took up, a hop of it."""
        tail, self._tail = self._tail, NOTHING
        if not len(tail):
            return None
        voice = let_go(tail)
        mel = log_mel(voice)
        return Block(voice, mel, (PlacedSpan(SILENCE, 0, len(mel)),))

    def said(self, runs: Sequence[Run], around: Surroundings, last: Block) -> None:
        """A phrase was spoken as `runs`; `last`: its last block."""
        self._tail = last.tail
        text = runs[-1].text
        if len(runs) == 1 and around.before:
            blank = "" if runs[0].language == "zh" else " "
            text = f"{around.before.rstrip()}{blank}{text}"
        self._said = Run(runs[-1].language, text) if len(last.tail) else _NOBODY

    def ended(self) -> None:
        """What comes next is another one."""
        self._said = _NOBODY
