"""OpenAI's Realtime protocol over one session: an adapter of event names and of their order. Pure.

A client's event, or news of the session, goes in; effects come out: events for the client, and
what the session is asked to do. The conversation's items are kept here. The session keeps the
turns: what is spoken is answered by it as ever, with answers prepared in pauses and words that
decide whether somebody interrupts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeAlias

from gateway.api.events import (
    AnswerEvent,
    ErrorEvent,
    ServerEvent,
    ShownEvent,
    TranscriptEvent,
    TurnEvent,
)
from gateway.api.hub import Overheard, Voiced
from gateway.openai.errors import RefusedError
from gateway.realtime.protocol.config import ServerVad, SessionConfig, updated
from gateway.realtime.protocol.effects import (
    Called,
    Configure,
    Effect,
    Ended,
    EndUtterance,
    Failed,
    Outcome,
    Recognised,
    Send,
    Silence,
    Sounded,
    TellLimits,
    Written,
)
from gateway.realtime.protocol.hearing import Hearing
from gateway.realtime.protocol.items import Items, item_of
from gateway.realtime.protocol.replies import Replies
from gateway.realtime.protocol.reply import Event, NewId
from gateway.realtime.protocol.responses import Responses
from visavis.serving.errors import VisavisError

News: TypeAlias = ServerEvent | Voiced | Overheard | Outcome


class Known(Protocol):
    """Voices and languages that the services have."""

    def voice(self, name: str) -> str:
        """Ours for any of its names; "": "". Raises RefusedError."""

    def language(self, tag: str) -> None:
        """Raises VisavisError where nobody understands or speaks it."""


class Dialogue:
    """One client's conversation with a session, in the words of the protocol.

    about: what the session is called, to be told. by_channel: sound goes by WebRTC, both ways.
    known: what there is to choose from. new_id: a new name with a prefix.
    """

    def __init__(
        self,
        config: SessionConfig,
        about: Mapping[str, Any],
        new_id: NewId,
        known: Known,
        *,
        language: str = "en",
        by_channel: bool = False,
    ) -> None:
        self.config = config
        self._about = dict(about)
        self._new_id = new_id
        self._known = known
        self._language = language
        self._by_channel = by_channel
        self._items = Items()
        self._replies = Replies(self._items, new_id)
        self._hearing = Hearing(config, self._items, new_id)
        self._responses = Responses(
            config,
            self.language,
            self._items,
            self._replies,
            self._hearing,
            new_id,
            by_channel=by_channel,
        )
        self._failed_just_now = False
        """The session tells of a failed turn twice."""
        self._ending = False
        """The client has said that the visitor has finished, and the session hears no more."""
        self._handlers: Mapping[str, Callable[[Mapping[str, Any]], list[Effect]]] = {
            "session.update": self._update,
            "input_audio_buffer.append": self._append,
            "input_audio_buffer.commit": self._commit,
            "input_audio_buffer.clear": self._clear,
            "output_audio_buffer.clear": self._clear_output,
            "conversation.item.create": self._create_item,
            "conversation.item.retrieve": self._retrieve_item,
            "conversation.item.truncate": self._truncate_item,
            "conversation.item.delete": self._delete_item,
            "response.create": self._create_response,
            "response.cancel": self._cancel_response,
        }

    @property
    def language(self) -> str:
        """That is spoken, BCP 47."""
        return self.config.wanted_language or self._language

    def begin(self) -> list[Effect]:
        """The client is there."""
        self._check(self.config, self.config.wanted_voice)
        created = {"type": "session.created", "session": self._told()}
        return [Configure(self.config), self._responses.memory(), *self._send([created])]

    def greeting(self) -> Event:
        """For somebody who joins the conversation while it goes on."""
        created = {"type": "session.created", "session": self._told()}
        return {"event_id": self._new_id("event"), **created}

    @property
    def quiet(self) -> bool:
        """Whether nothing goes on that somebody waits for the end of."""
        replies, hearing = self._replies, self._hearing
        plays = self._by_channel and replies.open_turn is not None
        return not (replies.any_active or plays or hearing.listens or hearing.reads_any)

    def leave(self, why: str) -> list[Effect]:
        """The connection ends, which is not the client's doing. One without close codes is told."""
        return self._send([_error("server_shutdown", why)] if self._by_channel else [])

    # ------------------------------------------------------------ what the client says

    def client(self, event: Mapping[str, Any]) -> list[Effect]:
        """An event of the client's, as JSON. What is wrong with it is answered by an `error`."""
        own_id = event.get("event_id")
        try:
            handle = self._handlers.get(str(event.get("type")))
            if handle is None:
                kind = str(event.get("type"))[:80]
                known = ", ".join(self._handlers)
                message = f"type: there is no event {kind!r}; known are {known}"
                raise RefusedError(message, "type", "invalid_value")
            return handle(event)
        except VisavisError as error:
            return self._send([error_event(error, own_id)])

    def _update(self, event: Mapping[str, Any]) -> list[Effect]:
        wanted = event.get("session")
        if wanted is None:
            raise RefusedError("session: it is missing", "session", "missing_required_parameter")
        before, config = self.config, updated(self.config, wanted)
        self._check(config, config.wanted_voice)
        self.config = self._responses.config = config
        self._responses.language = self.language
        effects = self._stamped(self._hearing.configure(config))
        renewed = config.instructions != before.instructions
        memory = [self._responses.memory()] if renewed else []
        told = self._send([{"type": "session.updated", "session": self._told()}])
        chosen = config.avatar if "avatar" in wanted else None
        return [*effects, Configure(config, avatar=chosen), *memory, *told]

    def _append(self, event: Mapping[str, Any]) -> list[Effect]:
        if self._by_channel:
            raise RefusedError(
                "audio: sound comes by the media track here", "type", "invalid_value"
            )
        return self._hearing.append(event.get("audio"))

    def _commit(self, event: Mapping[str, Any]) -> list[Effect]:
        return self._ends_utterances(self._stamped(self._hearing.commit()))

    def _clear(self, event: Mapping[str, Any]) -> list[Effect]:
        return self._ends_utterances(self._stamped(self._hearing.clear()))

    def _ends_utterances(self, effects: list[Effect]) -> list[Effect]:
        """Note where the client ends what is being said: afterwards silence decides again."""
        self._ending = self._ending or any(isinstance(e, EndUtterance) for e in effects)
        return effects

    def _clear_output(self, event: Mapping[str, Any]) -> list[Effect]:
        if not self._by_channel:
            message = "type: what was sent is the client's own; output_audio_buffer is of WebRTC"
            raise RefusedError(message, "type", "invalid_value")
        return self._responses.silence()

    def _create_item(self, event: Mapping[str, Any]) -> list[Effect]:
        item = item_of(event.get("item"), self._new_id("item"))
        recordings = self._hearing.recordings(item)
        before = self._items.add(item, event.get("previous_item_id"))
        told = {"item": item.told(), "previous_item_id": before}
        kinds = ("conversation.item.added", "conversation.item.done")
        events = self._send([{"type": kind, **told} for kind in kinds])
        reading = self._hearing.read(item, recordings)
        return [*events, *reading, self._responses.memory()]

    def _retrieve_item(self, event: Mapping[str, Any]) -> list[Effect]:
        item = self._items.get(event.get("item_id"))
        told = item.told(transcribed=self.config.audio.input.transcription is not None)
        return self._send([{"type": "conversation.item.retrieved", "item": told}])

    def _delete_item(self, event: Mapping[str, Any]) -> list[Effect]:
        if self._items.was_withdrawn(event.get("item_id")):
            return []  # that it has gone is on its way
        item = self._items.remove(event.get("item_id"))
        deleted = {"type": "conversation.item.deleted", "item_id": item.id}
        return [*self._send([deleted]), self._responses.memory()]

    def _truncate_item(self, event: Mapping[str, Any]) -> list[Effect]:
        if self._items.was_withdrawn(event.get("item_id")):
            return []  # clients cut what they play at speech_started, and Pipecat ends at an error
        item = self._items.get(event.get("item_id"))
        if item.role != "assistant" or item.spoken is None:
            message = "item_id: only what was spoken in answer can be cut"
            raise RefusedError(message, "item_id", "invalid_value")
        if event.get("content_index", 0) != 0:
            raise RefusedError("content_index: 0 is wanted", "content_index", "invalid_value")
        end_ms, made_ms = event.get("audio_end_ms"), round(item.spoken.seconds * 1000)
        if not isinstance(end_ms, int) or isinstance(end_ms, bool) or not 0 <= end_ms <= made_ms:
            message = f"audio_end_ms: 0 to {made_ms} is wanted, as long as the sound is"
            raise RefusedError(message, "audio_end_ms", "invalid_value")
        item.heard = item.spoken.heard_by(end_ms / 1000)
        item.parts[0]["transcript"] = item.heard
        cut = {"item_id": item.id, "content_index": 0, "audio_end_ms": end_ms}
        told = self._send([{"type": "conversation.item.truncated", **cut}])
        voiced = self._replies.voiced
        # Its player is silent: nobody hears what would still be played for him.
        ends = voiced is not None and voiced.message is item and not voiced.active
        return [*told, *(self._responses.silence() if ends else []), self._responses.memory()]

    # ------------------------------------------------------------ responses

    def _create_response(self, event: Mapping[str, Any]) -> list[Effect]:
        return self._respond(event.get("response") or {})

    def _respond(self, wanted: object) -> list[Effect]:
        """Raises RefusedError."""
        request = self._responses.request(wanted)
        self._check(self.config, request.voice)
        return self._stamped(self._responses.begin(request))

    def _cancel_response(self, event: Mapping[str, Any]) -> list[Effect]:
        wanted = event.get("response_id")
        reply = self._replies.find(str(wanted)) if wanted else self._replies.current
        if reply is None:
            message = "there is no response that could be cancelled"
            raise RefusedError(message, "response_id", "response_cancel_not_active")
        return self._stamped(self._responses.cancel(reply, "client_cancelled"))

    @property
    def patience_s(self) -> float | None:
        """How long silence may last now until `idle` is due; None: for ever."""
        detection = self.config.audio.input.turn_detection
        if not isinstance(detection, ServerVad) or detection.idle_timeout_ms is None:
            return None
        replies = self._replies
        busy = replies.current or replies.open_turn is not None or self._hearing.listens
        return None if busy or not replies.any_yet else detection.idle_timeout_ms / 1000

    def idle(self, start_ms: int, end_ms: int) -> list[Effect]:
        """Nobody has said anything between these: what was not said is answered."""
        try:
            events = self._hearing.nothing_said(max(0, start_ms), max(0, end_ms))
            return [*self._send(events), *self._respond({})]
        except VisavisError as error:
            return self._send([error_event(error)])

    def began(self, reply_id: str, turn: int) -> list[Effect]:
        """The session speaks a reply in this turn, of which it will tell."""
        return self._responses.began(reply_id, turn)

    # ------------------------------------------------------------ what the session tells

    def hear(self, news: News) -> list[Effect]:
        """Something has happened in the session, or in work on the side."""
        try:
            return self._heard(news)
        except VisavisError as error:
            return self._send([error_event(error)])

    def _heard(self, news: News) -> list[Effect]:
        match news:
            case Voiced():
                return self._send(self._replies.hear(news))
            case AnswerEvent():
                return self._send(self._replies.read(news))
            case ShownEvent():
                self._replies.show(news)
                return []
            case Overheard():
                return self._overheard(news)
            case TranscriptEvent() if news.final and news.utterance:
                return self._said(news)
            case TurnEvent():
                return self._turned(news)
            case Recognised():
                return self._recognised(news)
            case Failed() if self._replies.find(news.of) is None:
                return self._not_recognised(news)
            case Written() | Ended() if self._responses.by_session(news.reply):
                return self._stamped(self._responses.pass_on(news))
            case Failed() if self._responses.by_session(news.of):
                return self._stamped(self._responses.failed(news))
            case Written() | Called() | Ended() | Sounded() | Failed():
                events = self._replies.made(news)
                changed = isinstance(news, Called | Ended | Failed)
                return [*self._send(events), *([self._responses.memory()] if changed else [])]
            case ErrorEvent():
                failed, self._failed_just_now = self._failed_just_now, False
                return [] if failed else self._send([_error(news.code, news.message)])
        return []

    def _overheard(self, news: Overheard) -> list[Effect]:
        detection = self.config.audio.input.turn_detection
        if detection is None:
            return []
        interrupts = detection.interrupt_response
        playing = self._replies.open_turn is not None
        if news.what == "over_answer" and isinstance(detection, ServerVad) and interrupts:
            self._replies.speak_over()
            ends = self._responses.silence()
            return [
                *self._send(self._hearing.tell()),
                *self._stamped(self._responses.interrupted()),
                *ends,
            ]
        doubtful = playing and interrupts
        effects = self._send(self._hearing.overheard(news, over_answer=doubtful))
        if news.what == "began" and interrupts and not playing:
            effects += self._stamped(self._responses.interrupted())
        return effects

    def _said(self, news: TranscriptEvent) -> list[Effect]:
        if self.config.audio.input.turn_detection is None:
            return []
        events, wanted = self._hearing.final(news)
        effects = self._send(events)
        if self._ending and not self._hearing.ends:
            self._ending = False
            effects.append(Configure(self.config))
        if not wanted:
            return [*effects, *([Silence(news.turn)] if news.turn is not None else [])]
        effects += [self._responses.memory(), *self._stamped(self._responses.go_on())]
        detection = self.config.audio.input.turn_detection
        ours = detection.create_response and self.config.type == "realtime"
        if ours and news.turn is None and self._replies.current is None:
            effects += self._respond({})
        return effects

    def _turned(self, news: TurnEvent) -> list[Effect]:
        replies, effects = self._replies, list[Effect]()
        if news.event == "opened":
            if replies.of_turn(news.turn) is None:
                effects += self._stamped(self._responses.answered(news.turn))
            replies.open_turn = news.turn
            return [*effects, *self._send(replies.early_voice(news.turn))]
        by_speech = news.event == "interrupted" and news.reason == "speech"
        if by_speech or news.event == "replaced":
            effects += self._send(self._hearing.tell())
            effects += self._stamped(self._responses.interrupted_before_it_begins())
        effects += self._send(replies.played(news))
        self._failed_just_now = news.event == "failed" and replies.of_turn(news.turn) is not None
        if news.event != "speaking":
            effects += self._responses.turn_over()
        return effects

    def _recognised(self, news: Recognised) -> list[Effect]:
        effects = self._send(self._hearing.recognised(news))
        return [*effects, self._responses.memory(), *self._stamped(self._responses.go_on())]

    def _not_recognised(self, news: Failed) -> list[Effect]:
        effects = self._send(self._hearing.not_recognised(news.of, news.code, news.message))
        return [*effects, *self._stamped(self._responses.go_on())]

    # ------------------------------------------------------------ in short

    def turn_of(self, reply_id: str) -> int | None:
        """The session's, in which a reply is spoken that is being made."""
        reply = self._replies.find(reply_id)
        return None if reply is None else reply.turn

    def voice_of(self, name: str) -> str:
        """Ours for any of its names; "": "". Raises RefusedError."""
        return self._known.voice(name)

    def refuse(self, error: VisavisError, own_id: object = None) -> list[Effect]:
        """What was asked for cannot be done. own_id: as of `error_event`."""
        return self._send([error_event(error, own_id)])

    def _check(self, config: SessionConfig, voice: str) -> None:
        self._known.voice(voice)
        if config.wanted_language:
            self._known.language(config.wanted_language)

    def _told(self) -> dict[str, Any]:
        return {**self.config.told(), **self._about}

    def limits(self, limit: int, remaining: int, reset_s: float) -> list[Effect]:
        """How far the client's limits are used up."""
        told = {"name": "requests", "limit": limit, "remaining": remaining}
        rates = [{**told, "reset_seconds": round(reset_s, 3)}]
        return self._send([{"type": "rate_limits.updated", "rate_limits": rates}])

    def _send(self, events: list[Event]) -> list[Effect]:
        effects: list[Effect] = []
        for event in events:
            effects.append(Send({"event_id": self._new_id("event"), **event}))
            if event["type"] == "response.created":
                effects.append(TellLimits())
        return effects

    def _stamped(self, effects: list[Effect]) -> list[Effect]:
        """Events of a part that gives them no id."""
        stamped: list[Effect] = []
        for effect in effects:
            stamped += self._send([effect.event]) if isinstance(effect, Send) else [effect]
        return stamped


def error_event(error: Exception, own_id: object = None) -> Event:
    """What is wrong with a client's event. own_id: what the client calls it."""
    refused = error if isinstance(error, RefusedError) else None
    code = refused.code if refused is not None else "invalid_value"
    told = _error(code, str(error), refused.param if refused is not None else "")
    told["error"] |= {"type": "invalid_request_error", "event_id": own_id}
    return told


def _error(code: str, message: str, param: str = "") -> Event:
    kind = "server_error"
    about = {"type": kind, "code": code or None, "message": message, "param": param or None}
    return {"type": "error", "error": {**about, "event_id": None}}
