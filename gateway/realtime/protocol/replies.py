"""All responses of a conversation: which one is being made, which turn of the session speaks it.

Pure. The session's turns are told by their numbers; a voice may come before it is known that its
turn is wanted, for answers are prepared while the visitor pauses.
"""

from __future__ import annotations

from gateway.api.events import AnswerEvent, ShownEvent, TurnEvent, add_shown
from gateway.api.hub import Voiced
from gateway.openai.errors import RefusedError
from gateway.playout.pacing import RATE_HZ
from gateway.realtime.protocol.config import Format
from gateway.realtime.protocol.effects import Called, Ended, Failed, Sounded, Written
from gateway.realtime.protocol.items import Item, Items
from gateway.realtime.protocol.reply import Asked, Event, NewId, Reply
from gateway.realtime.protocol.sound import SoundOut

MOST_APART = 4
"""Responses outside of the conversation that may be made at a time."""
_KEPT_TURNS = 8


class Replies:
    """Keeps the responses that are being made, and those whose voice may still be heard."""

    def __init__(self, items: Items, new_id: NewId) -> None:
        self._items = items
        self._new_id = new_id
        self._active: dict[str, Reply] = {}
        self._of_turn: dict[int, Reply] = {}
        self._early: list[Voiced] = []
        """Of a turn of which nobody knows yet whether it is wanted."""
        self.open_turn: int | None = None
        """The session's, from when it is wanted until it was heard to its end."""

    @property
    def current(self) -> Reply | None:
        """The one of the conversation that is being made."""
        found = (r for r in self._active.values() if r.active and not r.asked.apart)
        return next(found, None)

    @property
    def any_active(self) -> bool:
        """Whether any is being made."""
        return any(reply.active for reply in self._active.values())

    @property
    def any_yet(self) -> bool:
        """Whether anything was ever asked for."""
        return bool(self._active)

    @property
    def voiced(self) -> Reply | None:
        """The one whose turn is open: it is being made, or played."""
        return None if self.open_turn is None else self._of_turn.get(self.open_turn)

    def find(self, reply_id: str) -> Reply | None:
        """One that is being made."""
        reply = self._active.get(reply_id)
        return reply if reply is not None and reply.active else None

    def create(
        self, asked: Asked, form: Format, turn: int | None = None
    ) -> tuple[Reply, list[Event]]:
        """Begin one. Raises RefusedError where as many are made as may be."""
        self._active = {name: reply for name, reply in self._active.items() if reply.active}
        if asked.apart and sum(r.asked.apart for r in self._active.values()) >= MOST_APART:
            message = f"response: {MOST_APART} outside of the conversation are being made already"
            raise RefusedError(message, "response", "too_many_responses")
        reply = Reply(self._new_id("resp"), asked, self._items, self._new_id, SoundOut(form))
        self._active[reply.id] = reply
        if turn is not None:
            self.assign(reply, turn)
        return reply, reply.begin()

    def assign(self, reply: Reply, turn: int) -> None:
        """A turn of the session speaks it."""
        reply.turn = self.open_turn = turn
        self._of_turn[turn] = reply
        for old in sorted(self._of_turn)[:-_KEPT_TURNS]:
            del self._of_turn[old]

    def of_turn(self, turn: int) -> Reply | None:
        return self._of_turn.get(turn)

    def unfinished(self) -> Item | None:
        """The item that the session will itself add to what was said, once it is heard."""
        return None if self.voiced is None else self.voiced.message

    def speak_over(self) -> None:
        """The session is about to fall silent for a voice."""
        if self.voiced is not None:
            self.voiced.spoken_over = True

    # ------------------------------------------------------------ what the session tells

    def early_voice(self, turn: int) -> list[Event]:
        """Give a reply what has come of its voice before it was wanted."""
        early, self._early = self._early, []
        return [event for news in early if news.turn == turn for event in self.hear(news)]

    def hear(self, news: Voiced) -> list[Event]:
        """A piece of a turn's voice."""
        reply = self._of_turn.get(news.turn)
        if reply is None:
            self._early = [before for before in self._early if before.turn == news.turn]
            self._early.append(news)
            return []
        seconds = len(news.pcm) / RATE_HZ
        return reply.speak(news.pcm, seconds, news.marks, last=news.last)

    def read(self, news: AnswerEvent) -> list[Event]:
        """A piece of a turn's text."""
        reply = self._of_turn.get(news.turn)
        if reply is None:
            return []
        events = reply.write(news.text)
        reply.text_complete = reply.text_complete or news.final
        return [*events, *reply.finish_if_complete()]

    def show(self, news: ShownEvent) -> None:
        """A piece of a turn's that is not said."""
        reply = self._of_turn.get(news.turn)
        if reply is not None and reply.active:
            add_shown(reply.shown, news)

    def played(self, news: TurnEvent) -> list[Event]:
        """How the turn that speaks a reply goes on; afterwards that reply is complete or not."""
        reply = self._of_turn.get(news.turn)
        if news.event not in ("opened", "speaking") and self.open_turn == news.turn:
            self.open_turn = None
        if reply is None:
            return []
        events: list[Event] = []
        match news.event:
            case "speaking":
                events += self._buffer(reply, "started")
            case "finished":
                events += reply.finish("completed")
                events += self._buffer(reply, "stopped")
            case "interrupted":
                by_speech = news.reason == "speech" or reply.spoken_over
                reason = "turn_detected" if by_speech else "client_cancelled"
                events += reply.finish("cancelled", reason)
                events += self._cut_off(reply, news.heard or "", by_speech=by_speech)
            case "replaced":
                events += reply.finish("cancelled", "turn_detected")
                events += [*self._buffer(reply, "cleared"), *self._forget(reply)]
            case "failed":
                error = {"type": "server_error", "code": "failed", "message": news.reason or ""}
                events += reply.finish("failed", error=error)
                events += self._buffer(reply, "cleared")
        return events

    def _cut_off(self, reply: Reply, heard: str, *, by_speech: bool) -> list[Event]:
        item = reply.message
        if item is None or item.spoken is None:
            return []
        if by_speech and item.heard is None:
            item.heard = heard
        if not reply.asked.by_channel:
            return []  # the client alone knows what it has played, and says so
        events = self._buffer(reply, "cleared")
        if self._items.find(item.id) is None or not by_speech:
            return events
        cut = {"item_id": item.id, "content_index": 0}
        at_ms = round(item.spoken.seconds_of(heard) * 1000)
        return [*events, {"type": "conversation.item.truncated", **cut, "audio_end_ms": at_ms}]

    def _forget(self, reply: Reply) -> list[Event]:
        """Nothing of it was heard, and another answers all of the question."""
        item = reply.message
        if item is None or self._items.find(item.id) is None:
            return []
        self._items.withdraw(item.id)
        return [{"type": "conversation.item.deleted", "item_id": item.id}]

    def _buffer(self, reply: Reply, what: str) -> list[Event]:
        """What becomes of sound that we play ourselves; of each once, and in order."""
        if not reply.asked.by_channel:
            return []
        playing, reply.playing = reply.playing, what == "started"
        if playing == reply.playing:
            return []
        return [{"type": f"output_audio_buffer.{what}", "response_id": reply.id}]

    # ------------------------------------------------------------ what is made without the session

    def made(self, news: Written | Called | Ended | Sounded | Failed) -> list[Event]:
        """A piece of a reply that the session does not make, or its end."""
        match news:
            case Written():
                reply = self.find(news.reply)
                if reply is None or reply.by_session:
                    return []
                if news.block:
                    block, language = news.block, news.language
                    piece = ShownEvent(
                        turn=0, block=block, language=language, text=news.text, chars=0
                    )
                    add_shown(reply.shown, piece)
                    return []
                return reply.write(news.text)
            case Called():
                reply = self.find(news.reply)
                return reply.call(news.name, news.arguments) if reply is not None else []
            case Sounded():
                reply = self.find(news.reply)
                if reply is None:
                    return []
                if reply.sound.rate_hz != news.rate_hz:
                    reply.sound = SoundOut(reply.sound.form, news.rate_hz)
                return reply.speak(news.pcm, len(news.pcm) / news.rate_hz, last=news.last)
            case Failed():
                reply = self.find(news.of)
                error = {"type": "server_error", "code": news.code, "message": news.message}
                return reply.finish("failed", error=error) if reply is not None else []
            case Ended():
                return self._ended(news)

    def _ended(self, news: Ended) -> list[Event]:
        reply = self.find(news.reply)
        if reply is None:
            return []
        reply.usage, reply.cut = news.usage, news.cut
        if reply.by_session and (reply.turn is not None or reply.held):
            return reply.finish_if_complete()
        if reply.message is None:
            # Calls of tools alone, or nothing at all.
            return reply.finish_as_made()
        reply.text_complete = True
        return reply.finish_if_complete()
