"""Turns that nobody asked for: texts that are to be said, and speech that the client brings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from gateway.answers.answering import Answering
from gateway.api.events import SayEvent, ServerEvent
from gateway.apps.sayings import Saying, Sayings
from gateway.apps.speech import BroughtSpeech
from gateway.stages.bus_feed import BusFeed
from gateway.talk.actions import AS_THE_SESSION_SAYS, Action, Manner
from gateway.talk.actions import Unasked as UnaskedReason
from gateway.talk.conversation import Conversation
from visavis.wire.clock import Clock

Perform: TypeAlias = Callable[[Sequence[Action], Manner], None]


class Unasked:
    """Opens turns for what is to be said in one session, each as soon as nobody speaks.

    perform: carries out what the conversation decides. emit: tells listeners.
    """

    def __init__(
        self,
        conversation: Conversation,
        feed: BusFeed,
        answering: Answering,
        clock: Clock,
        perform: Perform,
        emit: Callable[[ServerEvent], None],
    ) -> None:
        self._conversation = conversation
        self._feed = feed
        self._answering = answering
        self._clock = clock
        self._perform = perform
        self._emit = emit
        self.sayings = Sayings()
        """What waits to be said."""
        self.brought = BroughtSpeech()
        self._seq = 0

    @property
    def waits(self) -> bool:
        """Whether something is still to be said."""
        return len(self.sayings) > 0 or self.brought.waits

    def say(self, text: str, manner: Manner, *, interrupt: bool, may_begin: bool) -> Saying:
        """Have `text` said; interrupt: now, in place of everything. may_begin: a turn may; else it
        is silent until one does. Raises SayingsFullError.
        """
        if interrupt:
            self.drop("interrupted")
            if not may_begin:
                self._perform(self._conversation.interrupt("say"), AS_THE_SESSION_SAYS)
        saying = self.sayings.add(text, manner)
        self._emit(SayEvent(say=saying.number, event="waiting", text=text))
        if interrupt and may_begin:
            self._say_next()
        return saying

    def drop(self, reason: str) -> None:
        """Nothing of what waits will be said."""
        for saying in self.sayings.drop():
            told = SayEvent(say=saying.number, event="dropped", text=saying.text, reason=reason)
            self._emit(told)
        self.brought.drop()

    def tick(self, *, may_begin: bool) -> None:
        """Begin with what is next, where nobody speaks; hand on what is due of what was brought."""
        if may_begin and self._conversation.silent:
            if len(self.sayings):
                self._say_next()
            else:
                text = self.brought.next()
                if text is not None:
                    self.speak("brought", text)
                    self._seq = 0
        turn = self._conversation.turn
        if turn is None or turn.source != "brought":
            return
        for piece in self.brought.due(turn.played_s):
            self._feed.send_voice(turn.number, self._seq, piece)
            self._seq += 1

    def speak(self, why: UnaskedReason, text: str, manner: Manner = AS_THE_SESSION_SAYS) -> None:
        """Open a turn for `text` now. brought: its voice comes from elsewhere."""
        now = self._clock.now()
        self._perform(self._conversation.speak_unasked(why, now), manner)
        turn = self._conversation.turn
        if turn is None:
            return
        turn.source = why
        if why == "brought":
            told = self._conversation.token(turn.number, text, last=True, now=now)
            self._perform(told, AS_THE_SESSION_SAYS)
        else:
            self._answering.say(turn, text)

    def _say_next(self) -> None:
        saying = self.sayings.take()
        if saying is not None:
            turn = self._conversation.epoch + 1
            told = SayEvent(say=saying.number, event="opened", text=saying.text, turn=turn)
            self._emit(told)
            self.speak("say", saying.text, saying.manner)
