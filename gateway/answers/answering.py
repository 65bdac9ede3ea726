"""Where the answers of one session come from: what is known already, else the language model."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from typing import Literal

from gateway.answers.cache import Speaker
from gateway.answers.desk import AnswerDesk
from gateway.answers.welcome import WelcomeCue
from gateway.ledger.records import TurnRecord
from gateway.stages.bus_feed import BusFeed
from gateway.stages.stages import Stages
from gateway.talk.actions import BeginAnswer, CloseTurn, ReadAhead
from gateway.talk.background import Background
from visavis.serving.errors import VisavisError

Source = Literal["llm", "cache", "welcome"]

# Turns whose source is still of interest: the one that is heard and those just before it.
_REMEMBERED_TURNS = 8


class Answering:
    """Begins each answer. A known one goes out as tokens, as if the language model had written
    it: voice, face, captions, history and interruption are those of any other turn.

    Call `speak_as` first. welcome: what is said first, once somebody watches; "": nothing.
    """

    def __init__(
        self,
        stages: Stages,
        feed: BusFeed,
        desk: AnswerDesk,
        background: Background,
        welcome: str,
    ) -> None:
        self.welcome = WelcomeCue(welcome)
        self._speaker = Speaker("", "en")
        self._stages = stages
        self._feed = feed
        self._desk = desk
        self._background = background
        self._sources: OrderedDict[int, Source] = OrderedDict()
        self._learnable: tuple[int, str, Speaker] | None = None

    def speak_as(self, speaker: Speaker) -> None:
        """Whose answers are wanted from now on."""
        self._speaker = speaker

    async def begin(self, action: BeginAnswer) -> None:
        """Let the turn be answered. Raises StageLostError."""
        said = [message for message in action.messages if message.role != "system"]
        question, opening = said[-1].content, len(said) == 1
        hit = self._desk.find(question, self._speaker, opening=opening)
        self._learnable = None
        if hit is not None:
            self._say(action.turn, hit.answer, "cache")
            return
        if opening and self._desk.learns:
            self._learnable = (action.turn, question, self._speaker)
        self._note(action.turn, "llm")
        await self._stages.begin_answer(action.turn, action.messages)

    def source(self, turn: int) -> Source | None:
        """Where the answer comes from; None while that is not known."""
        return self._sources.get(turn)

    def greet(self, turn: int, text: str) -> None:
        """Say what nobody asked for."""
        self._say(turn, text, "welcome")

    async def read_ahead(self, action: ReadAhead) -> None:
        """Let the language model read what the visitor says, while they say it."""
        with contextlib.suppress(VisavisError):  # nothing is lost but the time it would save
            await self._stages.read_ahead(action.messages)

    def closed(self, action: CloseTurn, record: TurnRecord | None) -> None:
        """A turn is over. One that was heard to its end can be learned from."""
        if record is None:
            return
        record.answered_by = self._sources.get(action.turn, "llm")
        learnable, answer = self._learnable, record.answer.strip()
        if learnable is None or learnable[0] != action.turn:
            return
        self._learnable = None
        if action.outcome == "finished" and answer:
            self._background.start(self._desk.learn(learnable[1], answer, learnable[2]))

    def _say(self, turn: int, text: str, source: Source) -> None:
        self._note(turn, source)
        self._feed.answer(turn, text)

    def _note(self, turn: int, source: Source) -> None:
        self._sources[turn] = source
        while len(self._sources) > _REMEMBERED_TURNS:
            self._sources.popitem(last=False)
