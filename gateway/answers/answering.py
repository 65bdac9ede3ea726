"""Where the answers of one session come from: what is known already, else the language model.

And what it begins with: a welcome, once somebody is there to hear it.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Protocol

from gateway import metrics
from gateway.answers.cache import AnswerCache, Speaker
from gateway.knowledge.passages import Passage
from gateway.stages.bus_feed import BusFeed
from gateway.stages.stages import Stages
from gateway.talk.actions import (
    BeginAnswer,
    CloseTurn,
    ContinueAnswer,
    Message,
    ReadAhead,
    ResumeAnswer,
)
from gateway.talk.turn import Turn
from gateway.tools.doing import ServerTools
from visavis.serving.errors import VisavisError

# A player that has just connected swallows its first moments.
SETTLE_S = 0.4


class KnownTexts(Protocol):
    """Texts of the operator's, searched."""

    def find(self, messages: tuple[Message, ...]) -> tuple[Passage, ...]:
        """What the last question of a conversation asks for; nothing where nothing fits."""


@dataclass(frozen=True, slots=True)
class Sources:
    """What answers are made of beside the language model, the same for all sessions."""

    cache: AnswerCache
    tools: ServerTools
    knowledge: KnownTexts | None = None


class Answering:
    """Begins each answer of one session: a known one at once, any other with the language model.

    The former goes out as tokens, as if the language model had written it: voice, face, captions,
    history and interruption are those of any other turn.

    Call `speak_as` first. welcome: what is said first, once somebody watches; "": nothing.
    """

    def __init__(
        self,
        stages: Stages,
        feed: BusFeed,
        sources: Sources,
        welcome: str,
    ) -> None:
        self.welcome = WelcomeCue(welcome)
        self._speaker = Speaker("", "en")
        self._to_read: ReadAhead | None = None
        """The newest, from when it came until the model was told."""
        self._stages = stages
        self._feed = feed
        self._cache = sources.cache
        self._knowledge = sources.knowledge

    def speak_as(self, speaker: Speaker) -> None:
        """Whose answers are wanted from now on."""
        self._speaker = speaker

    async def answer(self, turn: Turn, action: BeginAnswer) -> None:
        """Let the turn be answered; `turn.known` is what it is made of. Raises StageLostError."""
        said = [message for message in action.messages if message.role != "system"]
        question, opening = turn.asks or said[-1].content, len(said) == 1
        hit = self._cache.find(question, self._speaker, opening=opening)
        if hit is not None:
            turn.source = "cache"
            self._feed.send_answer(turn.number, hit.answer, run=action.run)
            return
        # To who asks in a room it answers by name.
        if opening and self._cache.learns and not turn.asks:
            turn.lesson = (question, self._speaker)
        asked = (Message("user", turn.asks),) if turn.asks else action.messages
        turn.source, turn.known = "llm", self._known(asked)
        if self._knowledge is not None:
            metrics.knowledge_lookups.labels("found" if turn.known else "nothing").inc()
        await self._stages.begin_answer(turn, action.messages, run=action.run)

    async def go_on_writing(self, turn: Turn, action: ResumeAnswer) -> None:
        """An answer that another language model has begun. Raises StageLostError, OutdatedError."""
        await self._stages.begin_answer(
            turn,
            action.messages,
            last=action.last,
            run=action.run,
            so_far=action.so_far,
            chars=action.chars,
            blocks=action.blocks,
        )

    async def go_on(self, turn: Turn, action: ContinueAnswer) -> None:
        """With the results of tools. Raises StageLostError."""
        messages, last = action.messages, action.last
        await self._stages.continue_answer(turn.number, messages, turn.known, last=last)

    def _known(self, messages: tuple[Message, ...]) -> tuple[Passage, ...]:
        return () if self._knowledge is None else self._knowledge.find(messages)

    def say(self, turn: Turn, text: str) -> None:
        """Say what nobody asked for."""
        self._feed.send_answer(turn.number, text)

    async def read_ahead(self, action: ReadAhead) -> None:
        """Let the language model read what the visitor says, while they say it.

        Of several that come while one is on its way the newest counts.
        """
        on_its_way, self._to_read = self._to_read is not None, action
        if on_its_way:
            return
        try:
            sent: ReadAhead | None = None
            with contextlib.suppress(VisavisError):  # nothing is lost but the time it would save
                while self._to_read is not sent:
                    sent = self._to_read
                    await self._stages.read_ahead(sent.messages, self._known(sent.messages))
        finally:
            self._to_read = None

    def closed(self, action: CloseTurn, turn: Turn) -> None:
        """A turn is over. One that was heard to its end can be learned from."""
        answer = turn.text.strip()
        # What a tool or a text has told may be another thing tomorrow; what is shown has no voice.
        learnt = turn.lesson is not None and not (turn.tools.used or turn.known or turn.shown)
        if turn.lesson is not None and learnt and action.outcome == "finished" and answer:
            question, speaker = turn.lesson
            self._cache.note(question, answer, speaker)


class WelcomeCue:
    """Says when a session greets whoever comes. Pure; times in seconds of any clock.

    text: "" for a session without a welcome.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._watched_since_s: float | None = None

    def due(self, now: float, *, watched: bool, untouched: bool) -> str:
        """The phrase, the one time that it is to be said; "" otherwise.

        watched: somebody receives the session. untouched: nothing was said or asked in it yet;
        a visitor who speaks first is not greeted any more.
        """
        if not self.text:
            return ""
        if not untouched:
            self.text = ""
        if not watched:
            self._watched_since_s = None
            return ""
        if self._watched_since_s is None:
            self._watched_since_s = now
        if now - self._watched_since_s < SETTLE_S:
            return ""
        text, self.text = self.text, ""
        return text
