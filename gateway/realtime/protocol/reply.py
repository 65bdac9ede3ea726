"""One response: what becomes of it, as events in the order that clients rely on. Pure.

created, then for each item of its output: output_item.added, item.added, its parts and their
deltas, the parts' ends, item.done, output_item.done; at last response.done.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gateway.api.events import ShownEvent
from gateway.realtime.protocol.config import OutputTokens
from gateway.realtime.protocol.items import Item, Items, Spoken
from gateway.realtime.protocol.sound import SoundOut
from gateway.talk.history import Marks

Event: TypeAlias = dict[str, Any]
Outcome: TypeAlias = Literal["completed", "cancelled", "incomplete", "failed"]
NewId: TypeAlias = Callable[[str], str]
"""A name with this prefix that was never given before."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a response, in its own fields or else in the session's.

    aloud: it is spoken. by_channel: its sound leaves by WebRTC, and not as events. apart: outside
    of the conversation.
    """

    aloud: bool
    told: Mapping[str, Any]
    by_channel: bool = False
    apart: bool = False
    max_output_tokens: OutputTokens = "inf"


@dataclass(slots=True)
class Reply:
    """A response that is being made, or was. turn: of the session; None: it has none."""

    id: str
    asked: Asked
    items: Items
    new_id: NewId
    sound: SoundOut
    turn: int | None = None
    output: list[Item] = field(default_factory=list)
    message: Item | None = None
    """The part of the output that is said or written."""
    outcome: Outcome | None = None
    usage: dict[str, Any] | None = None
    text_complete: bool = False
    voice_complete: bool = False
    playing: bool = False
    """By WebRTC: its sound is leaving."""
    spoken_over: bool = False
    """A voice has ended it."""
    cut: bool = False
    """It would have been longer than it may be."""
    by_session: bool = False
    """What is written for it is spoken by the session, whose text and voice count."""
    comes_after: bool = False
    """It goes on from what a tool has told: what was said before that is heard to its end."""
    held: bool = False
    """Some of it is written, and waits for that end."""
    shown: list[ShownEvent] = field(default_factory=list)
    """Blocks of code and tables, which are not said: a part of their own, behind what is."""
    _calls: list[tuple[str, str]] = field(default_factory=list)
    """That wait until what was said before them is complete."""

    @property
    def active(self) -> bool:
        return self.outcome is None

    def begin(self) -> list[Event]:
        """It has been asked for."""
        return [self._event("response.created", response=self.told())]

    def write(self, text: str) -> list[Event]:
        """A piece of what is said or written."""
        if not self.active or not text:
            return []
        events = self._open_message()
        part, spoken = self._part()
        name = "transcript" if self.asked.aloud else "text"
        part[name] += text
        if spoken is not None:
            spoken.text += text
        kind = "output_audio_transcript" if self.asked.aloud else "output_text"
        return [*events, self._delta(f"response.{kind}.delta", delta=text)]

    def speak(
        self, pcm: NDArray[np.int16], seconds: float, marks: Marks = (), *, last: bool
    ) -> list[Event]:
        """A piece of its voice, [N] int16, which follows on what came before."""
        if not self.active:
            return []
        self.voice_complete = self.voice_complete or last
        events = self._open_message() if len(pcm) else []
        if self.message is None:
            return self.finish_if_complete()
        if (spoken := self.message.spoken) is not None:
            spoken.seconds += seconds
            spoken.marks += marks
            spoken.complete = last
        if not self.asked.by_channel:
            pieces = self.sound.feed(pcm, last=last)
            events += [self._delta("response.output_audio.delta", delta=p) for p in pieces]
        return [*events, *self.finish_if_complete()]

    def call(self, name: str, arguments: str) -> list[Event]:
        """The model wants a tool of the client's. arguments: JSON, whole.

        The call's id is ours: a language model numbers its calls anew in each answer, or gives them
        longer names than the 32 characters that clients leave as they are.
        """
        if not self.active:
            return []
        begun = self.by_session and (self.turn is not None or self.held)
        spoken = self.message is not None or begun
        if spoken and self.asked.aloud and not self.voice_complete:
            self._calls.append((name, arguments))  # what is being said comes first
            return []
        item = Item(self.new_id("item"), "function_call", status="in_progress")
        item.call_id, item.name = self.new_id("call"), name
        events = [*self._close_message("completed"), *self._add(item)]
        where = {"item_id": item.id, "output_index": len(self.output) - 1}
        told = {**where, "call_id": item.call_id}
        of_call = "response.function_call_arguments"
        events.append(self._event(f"{of_call}.delta", **told, delta=arguments))
        item.arguments = arguments
        done = {**told, "name": name, "arguments": arguments}
        events.append(self._event(f"{of_call}.done", **done))
        return [*events, *self._close(item, "completed")]

    def finish_if_complete(self) -> list[Event]:
        """It is over once all of it has been made."""
        complete = self.text_complete and (self.voice_complete or not self.asked.aloud)
        if not complete:
            return []
        waiting, self._calls = self._calls, []
        events = [event for call in waiting for event in self.call(*call)]
        return [*events, *self.finish_as_made()]

    def finish_as_made(self) -> list[Event]:
        """All of it has been made that will be."""
        return (
            self.finish("incomplete", "max_output_tokens") if self.cut else self.finish("completed")
        )

    def finish(
        self, outcome: Outcome, reason: str = "", error: Mapping[str, Any] | None = None
    ) -> list[Event]:
        """It is over. reason: why it was cancelled or is incomplete."""
        if not self.active:
            return []
        events = self._close_message("completed" if outcome == "completed" else "incomplete")
        self.outcome = outcome
        details: dict[str, Any] | None = None
        if outcome != "completed":
            details = {"type": outcome} | ({"reason": reason} if reason else {})
            details |= {"error": dict(error)} if error else {}
        done = self._event("response.done", response=self.told() | {"status_details": details})
        return [*events, done]

    def told(self) -> dict[str, Any]:
        """As on the wire."""
        return {
            "id": self.id,
            "object": "realtime.response",
            "status": self.outcome or "in_progress",
            "status_details": None,
            "output": [item.told() for item in self.output],
            "usage": self.usage,
            **self.asked.told,
        }

    # ------------------------------------------------------------ items of its output

    def _open_message(self) -> list[Event]:
        if self.message is not None:
            return []
        item = Item(self.new_id("item"), "message", "assistant", status="in_progress")
        item.spoken = Spoken() if self.asked.aloud else None
        self.message = item
        events = self._add(item)
        kept, shown = ("output_audio", "audio") if self.asked.aloud else ("output_text", "text")
        name = "transcript" if self.asked.aloud else "text"
        item.parts.append({"type": kept, name: ""})
        part = {"type": shown, name: ""}
        return [*events, self._delta("response.content_part.added", part=part)]

    def _close_message(self, status: Literal["completed", "incomplete"]) -> list[Event]:
        item = self.message
        if item is None or item.status != "in_progress":
            return []
        part, _ = self._part()
        events: list[Event] = []
        if self.asked.aloud:
            said = part["transcript"]
            events.append(self._delta("response.output_audio.done"))
            events.append(self._delta("response.output_audio_transcript.done", transcript=said))
            shown = {"type": "audio", "transcript": said}
        else:
            events.append(self._delta("response.output_text.done", text=part["text"]))
            shown = {"type": "text", "text": part["text"]}
        events.append(self._delta("response.content_part.done", part=shown))
        return [*events, *self._show_blocks(item), *self._close(item, status)]

    def _show_blocks(self, item: Item) -> list[Event]:
        if not self.shown:
            return []
        text = "".join(block.as_markdown for block in self.shown).strip()
        item.parts.append({"type": "output_text", "text": text})
        told = (
            ("content_part.added", {"part": {"type": "text", "text": ""}}),
            ("output_text.delta", {"delta": text}),
            ("output_text.done", {"text": text}),
            ("content_part.done", {"part": {"type": "text", "text": text}}),
        )
        index = len(item.parts) - 1
        return [self._delta(f"response.{kind}", index, **more) for kind, more in told]

    def _add(self, item: Item) -> list[Event]:
        self.output.append(item)
        index = len(self.output) - 1
        events = [
            self._event("response.output_item.added", output_index=index, item=item.told()),
        ]
        if not self.asked.apart:
            before = self.items.add(item)
            added = {"item": item.told(), "previous_item_id": before}
            events.append({"type": "conversation.item.added", **added})
        return events

    def _close(self, item: Item, status: Literal["completed", "incomplete"]) -> list[Event]:
        item.status = status
        index, told = self.output.index(item), item.told()
        events: list[Event] = []
        if not self.asked.apart:
            before = self.items.before(item)
            done = {"item": told, "previous_item_id": before}
            events.append({"type": "conversation.item.done", **done})
        done_too = self._event("response.output_item.done", output_index=index, item=told)
        return [*events, done_too]

    def _part(self) -> tuple[dict[str, Any], Spoken | None]:
        assert self.message is not None
        return self.message.parts[0], self.message.spoken

    def _delta(self, kind: str, content_index: int = 0, /, **more: Any) -> Event:
        """About a part of the message."""
        assert self.message is not None
        where = {"item_id": self.message.id, "output_index": self.output.index(self.message)}
        return self._event(kind, **where, content_index=content_index, **more)

    def _event(self, kind: str, **more: Any) -> Event:
        of_it = {} if "response" in more else {"response_id": self.id}
        return {"type": kind, **of_it, **more}
