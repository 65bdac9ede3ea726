"""The synthesizer behind its lane: phrases in, speech out; the event loop never blocks."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import cast

from services.tts.ledger import TurnLedger
from services.tts.phrase_cache import PhraseCache
from services.tts.sound import SAMPLE_RATE_HZ
from services.tts.speech_options import SpeechOptions
from services.tts.synthesizer import Answer, SpeechPiece, Synthesizer
from services.tts.text_chunker import Phrase
from visavis.engine import EngineLane, EngineState


class SpeechLane:
    """One synthesizer for all sessions. Pieces of several answers take turns on it."""

    def __init__(self, synthesizer: Synthesizer, lane: EngineLane) -> None:
        self._synthesizer = synthesizer
        self._lane = lane

    @property
    def phrases(self) -> PhraseCache | None:
        """Sound that was made before it is asked for."""
        return self._synthesizer.phrases

    def state(self, bundle: str) -> EngineState | None:
        """Where the networks of a bundle run; None where that is not known."""
        return self._synthesizer.state(bundle)

    async def speak(
        self, phrases: AsyncIterator[Phrase], options: SpeechOptions, ledger: TurnLedger
    ) -> AsyncGenerator[SpeechPiece, None]:
        """Pieces of the whole answer. Close it to stop at once.

        Raises InvalidInputError or UnknownNameError for bad options, EngineError.
        """
        answer = self._synthesizer.answer(options)
        async for phrase in phrases:
            ledger.phrase_begins()
            work = functools.partial(_timed, answer, phrase, ledger)
            stream = cast(AsyncGenerator[SpeechPiece, None], self._lane.stream(work))
            async with contextlib.aclosing(stream) as pieces:
                async for piece in pieces:
                    ledger.voice_made(len(piece.voice), SAMPLE_RATE_HZ)
                    yield piece
        for piece in answer.finish():
            ledger.voice_made(len(piece.voice), SAMPLE_RATE_HZ)
            yield piece

    async def prerender(
        self, phrases: AsyncIterator[Phrase], options: SpeechOptions
    ) -> tuple[int, int]:
        """Make the sound of all phrases of an answer ahead of time.

        How many there are and how many were not there already. Raises InvalidInputError or
        UnknownNameError for bad options, EngineError.
        """
        answer = self._synthesizer.answer(options)
        count = made = 0
        async for phrase in phrases:
            count += 1
            new = False
            async for _block in self._lane.stream(answer.prerender, phrase):
                new = True
            made += new
        return count, made


def _timed(answer: Answer, phrase: Phrase, ledger: TurnLedger) -> Iterator[SpeechPiece]:
    ledger.work_begins()
    yield from answer.speak(phrase)
