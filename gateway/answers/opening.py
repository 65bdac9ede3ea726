"""How a turn begins where openers are wanted: an opener at once, or the answer alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from gateway import metrics
from gateway.answers.answering import Answering
from gateway.answers.cache import Speaker
from gateway.answers.desk import AnswerDesk
from gateway.answers.opener_cue import OpenerCue, OpenerLimits, Sight, Verdict
from gateway.answers.openers import fits, in_text
from gateway.stages.bus_feed import BusFeed
from gateway.talk.actions import Action
from gateway.talk.conversation import Conversation
from gateway.talk.turn import Turn
from visavis.wire.media import PcmChunk


@dataclass(slots=True)
class _Attempt:
    """What is known of the newest turn."""

    turn: int
    begun_s: float
    token_s: float | None = None
    confirmed_s: float | None = None
    decided: bool = False
    asked: str = ""
    """The opener that tts was asked for; it is said if it came in time."""
    voice: bool = False
    """The voice of the answer proper is there."""


class Opening:
    """One session's. Time comes as an argument, in seconds of the monotonic clock.

    Where openers are possible the conversation withholds an answer's text until it is known
    whether something goes before it. tts has the last word: an opener that meets the answer's
    first phrase there is dropped, and the voice's first chunk tells.
    """

    def __init__(
        self, feed: BusFeed, desk: AnswerDesk, answering: Answering, limits: OpenerLimits
    ) -> None:
        self._feed = feed
        self._desk = desk
        self._answering = answering
        self._cue = OpenerCue(limits, desk.pace, random.Random())
        self._speaker = Speaker("", "en")
        self._phrases: Sequence[str] = ()
        self._attempt = _Attempt(0, 0.0)

    def speak_as(self, speaker: Speaker, conversation: Conversation) -> None:
        """Whose openers are wanted from the next turn on."""
        self._speaker = speaker
        self._phrases = self._desk.openers(speaker)
        conversation.withholds = bool(self._phrases)

    def token(self, number: int, now: float) -> None:
        """A piece of the answer's text has come."""
        attempt = self._attempt
        if attempt.turn == number and attempt.token_s is None:
            attempt.token_s = now

    def voice(self, chunk: PcmChunk, now: float) -> str:
        """Voice has come; the opener that the turn begins with if this is its first chunk."""
        attempt = self._attempt
        if attempt.turn != chunk.place.turn or attempt.voice or not len(chunk.pcm):
            return ""
        asked, attempt.asked = attempt.asked, ""
        spoken = bool(asked) and chunk.opener
        if not chunk.opener:
            attempt.voice = True
            if self._answering.source(attempt.turn) == "llm":
                self._desk.pace.came(attempt.begun_s, attempt.token_s, now)
        if asked:
            self._count(Verdict.SPEAK if spoken else Verdict.NOT_NEEDED)
        if spoken:
            self._cue.said(asked)
        return in_text(asked) if spoken else ""

    def consider(self, conversation: Conversation, now: float) -> Sequence[Action]:
        """Decide about the turn that is open, once its visitor has finished."""
        turn = conversation.turn
        if turn is None or not self._phrases:
            return ()
        if turn.number != self._attempt.turn:
            self._attempt = _Attempt(turn.number, now)
        attempt, source = self._attempt, self._answering.source(turn.number)
        doubt = conversation.doubt
        stands = doubt is not None and doubt.stopped
        if attempt.decided or stands or not turn.confirmed or source in (None, "welcome"):
            return ()
        if not turn.withheld and not attempt.voice:
            return ()  # its text is shown already
        if attempt.confirmed_s is None:
            attempt.confirmed_s = now
        return self._decide(turn, attempt, source == "llm", conversation, now)

    def _decide(
        self,
        turn: Turn,
        attempt: _Attempt,
        thought: bool,
        conversation: Conversation,
        now: float,
    ) -> Sequence[Action]:
        sight = Sight(
            fits=fits(turn.question, self._speaker.language),
            known=not thought,
            voice=attempt.voice,
            confirmed_s=attempt.confirmed_s or now,
            begun_s=attempt.begun_s,
            token_s=attempt.token_s,
        )
        verdict, opener = self._cue.judge(sight, self._phrases, now)
        attempt.decided = verdict is not Verdict.WAIT
        if verdict is Verdict.SPEAK:
            attempt.asked = opener
            self._feed.opener(turn.number, in_text(opener))
        if verdict in (Verdict.WAIT, Verdict.SPEAK):
            return ()
        self._count(verdict)
        return conversation.reveal(turn.number)

    def _count(self, verdict: Verdict) -> None:
        metrics.openers.labels(verdict).inc()
