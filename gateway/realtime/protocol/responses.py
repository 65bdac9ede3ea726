"""Which responses are made, when, and by whom: the session speaks most, the model writes others.

Pure. Events that come out of it have no id yet.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.openai.errors import RefusedError
from gateway.realtime.protocol.asking import Request, items_for, prompt_of, request_of, said_of
from gateway.realtime.protocol.config import SessionConfig
from gateway.realtime.protocol.effects import (
    Answer,
    Configure,
    Effect,
    Ended,
    Failed,
    Remember,
    Send,
    Silence,
    Speak,
    Stop,
    Write,
    Written,
)
from gateway.realtime.protocol.hearing import Hearing
from gateway.realtime.protocol.items import Item, Items, messages_of, unread_of
from gateway.realtime.protocol.replies import Replies
from gateway.realtime.protocol.reply import Event, NewId, Reply


class Responses:
    """Has responses made, and ends them. Change `config` and `language` as the client does."""

    def __init__(
        self,
        config: SessionConfig,
        language: str,
        items: Items,
        replies: Replies,
        hearing: Hearing,
        new_id: NewId,
        *,
        by_channel: bool,
    ) -> None:
        self.config = config
        self.language = language
        self._items = items
        self._replies = replies
        self._hearing = hearing
        self._new_id = new_id
        self._by_channel = by_channel
        self._conversation_id = new_id("conv")
        self._waiting: list[tuple[Reply, Request]] = []
        """Until what they answer has been read: as many as may be made at a time."""
        self._held: list[Speak] = []
        """Of one answer, until what is being heard is over."""
        self._own_voice = False
        """The session speaks one answer in another voice."""

    def memory(self) -> Remember:
        """Who the face is, and what was said."""
        of_system, said = said_of(self._items, self._replies.unfinished())
        persona = " ".join(filter(None, (self.config.instructions, of_system)))
        return Remember(persona, said)

    # ------------------------------------------------------------ one is wanted

    def request(self, wanted: object) -> Request:
        """What a client wants of one. Raises RefusedError where there can be none."""
        if self.config.type == "transcription":
            message = "type: a session of transcription answers nothing"
            raise RefusedError(message, "type", "invalid_value")
        request = request_of(wanted, self.config)
        if not request.apart and self._replies.current is not None:
            message = "the conversation has a response that is being made; wait, or cancel it"
            raise RefusedError(message, code="conversation_already_has_active_response")
        return request

    def begin(self, request: Request) -> list[Effect]:
        """Begin one, once what it answers has been read. Raises RefusedError."""
        items_for(request, self._items, self._new_id)  # what is wrong with it is told at once
        asked = request.asked(self._conversation_id, by_channel=self._by_channel)
        reply, events = self._replies.create(asked, request.form)
        if self._hearing.reads([item.id for item in self._items]):
            self._waiting.append((reply, request))
            return _sent(events)
        return [*_sent(events), *self._work(reply, request)]

    def answered(self, turn: int) -> list[Effect]:
        """The session answers what was said, by itself."""
        newest = self._replies.open_turn
        if newest is not None and turn < newest:
            return []
        effects = self.interrupted()
        request = request_of({}, self.config)
        asked = request.asked(self._conversation_id, by_channel=self._by_channel)
        _, events = self._replies.create(asked, request.form, turn)
        return [*effects, *_sent(events)]

    def go_on(self) -> list[Effect]:
        """Make what has waited for words, once all of them are there."""
        if self._hearing.reads([item.id for item in self._items]):
            return []
        waiting, self._waiting = self._waiting, []
        effects: list[Effect] = []
        for reply, request in waiting:
            if not reply.active:
                continue
            try:
                effects += self._work(reply, request)
            except RefusedError as error:  # what it was to answer has been deleted meanwhile
                told = {"type": "invalid_request_error", "code": error.code, "message": str(error)}
                effects += _sent(reply.finish("failed", error=told))
        return effects

    def _work(self, reply: Reply, request: Request) -> list[Effect]:
        """Have a reply made, unless something that it would answer could not be read."""
        items = items_for(request, self._items, self._new_id)
        if unread := unread_of(items):
            return self._cannot(reply, request, unread)
        told = bool(items) and items[-1].kind == "function_call_output"
        own = request.instructions
        instructions = self.config.instructions if own is None else own
        prompt = prompt_of(instructions, self.language, messages_of(items))
        if request.simple and not told:
            effects: list[Effect] = []
            if request.own_voice:
                self._own_voice = True
                effects.append(Configure(self.config, request.own_voice))
            return [*effects, Answer(reply.id, tuple(prompt))]
        if not request.aloud:
            return [Write(reply.id, request.wanted(prompt), "nobody")]
        if request.apart:
            return [Write(reply.id, request.wanted(prompt), "voice", request.voice)]
        reply.by_session = True
        reply.comes_after = told
        return [Write(reply.id, request.wanted(prompt), "session")]

    def _cannot(self, reply: Reply, request: Request, unread: Sequence[Item]) -> list[Effect]:
        """The client has to know that it would be answered without these."""
        for item in unread:
            item.missed = item.missed or not request.apart
        assert unread[-1].unreadable is not None
        code, why = unread[-1].unreadable
        names = ", ".join(item.id for item in unread)
        message = f"{why}; nobody knows what is said in {names}: have it said anew, or delete it"
        return _sent(self._replies.made(Failed(reply.id, code, message)))

    # ------------------------------------------------------------ the session speaks it

    def began(self, reply_id: str, turn: int) -> list[Effect]:
        """The session speaks a reply in this turn, of which it will tell."""
        reply = self._replies.find(reply_id)
        if reply is None:
            return [Silence(turn)]
        self._replies.assign(reply, turn)
        return []

    def by_session(self, reply_id: str) -> bool:
        """Whether the session says what is written for it."""
        reply = self._replies.find(reply_id)
        return reply is not None and reply.by_session

    def pass_on(self, news: Written | Ended) -> list[Effect]:
        """Have the session say what is written; of a reply without words it says nothing."""
        reply = self._replies.find(news.reply)
        assert reply is not None
        if isinstance(news, Written):
            piece = Speak(reply.id, news.text, False, news.block, news.language)
            return self._speak(reply, piece)
        effects = _sent(self._replies.made(news))
        spoken = reply.turn is not None or reply.held
        ends = self._speak(reply, Speak(reply.id, "", last=True)) if spoken else []
        return [*effects, *ends, self.memory()]

    def _speak(self, reply: Reply, piece: Speak) -> list[Effect]:
        heard = reply.comes_after and reply.turn is None and self._replies.open_turn is not None
        if not (heard or reply.held):
            return [piece]
        self._held = [*(self._held if reply.held else []), piece]
        reply.held = True
        return []

    def failed(self, news: Failed) -> list[Effect]:
        """What the session says of a reply will not be written to its end: it is not waited for."""
        reply = self._replies.find(news.of)
        assert reply is not None
        ends: list[Effect] = [] if reply.turn is None else [Silence(reply.turn)]
        return [Stop(reply.id), *ends, *_sent(self._replies.made(news)), self.memory()]

    def turn_over(self) -> list[Effect]:
        """Nothing more of a turn is heard: what was of it alone is over."""
        effects: list[Effect] = []
        if self._own_voice:
            self._own_voice = False
            effects.append(Configure(self.config))
        return [*effects, self.memory(), *self._let_go()]

    def _let_go(self) -> list[Effect]:
        """Have what was held said, if nothing else is heard by now."""
        if self._replies.open_turn is not None:
            return []
        held, self._held = self._held, []
        reply = self._replies.find(held[0].reply) if held else None
        if reply is None:
            return []
        reply.held = False
        return list(held)

    # ------------------------------------------------------------ one is not wanted any more

    def cancel(self, reply: Reply, reason: str) -> list[Effect]:
        """End one that is being made."""
        self._waiting = [waits for waits in self._waiting if waits[0] is not reply]
        ends: list[Effect] = [] if reply.turn is None else [Silence(reply.turn)]
        cancelled = _sent(reply.finish("cancelled", reason))
        return [Stop(reply.id), *ends, *cancelled, self.memory()]

    def interrupted(self) -> list[Effect]:
        """A voice ends what is being made."""
        reply = self._replies.current
        return [] if reply is None else self.cancel(reply, "turn_detected")

    def interrupted_before_it_begins(self) -> list[Effect]:
        """A voice ends what is heard, and with it what was to be said behind that."""
        reply = self._replies.current
        if reply is None or reply.turn is not None or not reply.comes_after:
            return []
        return self.cancel(reply, "turn_detected")

    def silence(self) -> list[Effect]:
        """End the turn that is open, as far as is known here."""
        turn = self._replies.open_turn
        return [] if turn is None else [Silence(turn)]


def _sent(events: list[Event]) -> list[Effect]:
    return [Send(event) for event in events]
