"""The conversation as its client sees it: items in order, what each holds, what of it was heard.

Pure. The client may add items, delete them and cut them; what the language model reads is made
from what is there at the time.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from pydantic_core import from_json

from gateway.api.choices import TOOL_NAME
from gateway.openai.errors import RefusedError
from gateway.talk.actions import Message
from gateway.talk.history import SpokenMark, heard_text
from gateway.tools.offers import Call

MOST_ITEMS = 2000
"""Of one conversation; then the oldest are forgotten."""
MOST_CHARACTERS, _MOST_PARTS = 32_000, 128
"""Of one item."""
_MOST_OF_ALL = 500_000
"""Characters of one conversation, as MOST_ITEMS."""
_MOST_WITHDRAWN = 32
Status: TypeAlias = Literal["in_progress", "completed", "incomplete"]
_ROLES = ("system", "user", "assistant")
_TEXTS = ("text", "input_text", "output_text")
_SOUNDS = ("audio", "input_audio", "output_audio")


@dataclass(slots=True)
class Item:
    """One entry of the conversation.

    kind: message, function_call, function_call_output. parts: of a message, as on the wire; beside
    it, as `words`, what we have heard in its sound, which is told by events of its own.
    """

    id: str
    kind: str
    role: str = ""
    parts: list[dict[str, Any]] = field(default_factory=list)
    status: Status = "completed"
    call_id: str = ""
    name: str = ""
    arguments: str = ""
    output: str = ""
    spoken: Spoken | None = None
    """Of an answer that is spoken."""
    heard: str | None = None
    """What was heard of it, where that is less than what was said."""
    unreadable: tuple[str, str] | None = None
    """Code and message: why nobody will know what is said in its sound."""
    missed: bool = False
    """A response has failed for that: what is said behind it is answered without it."""

    @property
    def text(self) -> str:
        """What is in it for the language model."""
        pieces = list(map(_words_of, self.parts))
        if self.heard is not None:
            pieces[:1] = [self.heard]  # code that was shown is there all the same
        return _in_one(pieces)

    @property
    def characters(self) -> int:
        """How much it holds."""
        return sum(len(_words_of(p)) for p in self.parts) + len(self.arguments) + len(self.output)

    def told(self, *, transcribed: bool = False) -> dict[str, Any]:
        """As on the wire. transcribed: with what we have heard in its sound."""
        told: dict[str, Any] = {
            "id": self.id,
            "object": "realtime.item",
            "type": self.kind,
            "status": self.status,
        }
        match self.kind:
            case "function_call":
                called = {"call_id": self.call_id, "name": self.name}
                return told | called | {"arguments": self.arguments}
            case "function_call_output":
                return told | {"call_id": self.call_id, "output": self.output}
        parts = [_told_part(part, transcribed=transcribed) for part in self.parts]
        return told | {"role": self.role, "content": parts}


def _told_part(part: Mapping[str, Any], *, transcribed: bool) -> dict[str, Any]:
    told = dict(part)
    words = told.pop("words", None)
    return told | {"transcript": words} if transcribed and words is not None else told


def _words_of(part: Mapping[str, Any]) -> str:
    words: str = part.get("text") or part.get("transcript") or part.get("words") or ""
    return words


@dataclass(slots=True)
class Spoken:
    """The voice of an answer, as far as it is made: which words end where."""

    text: str = ""
    seconds: float = 0.0
    marks: list[SpokenMark] = field(default_factory=list)
    complete: bool = False

    def heard_by(self, at_s: float) -> str:
        """What was said by then."""
        whole_s = self.seconds if self.complete else None
        return heard_text(self.text, played_s=at_s, voice_s=whole_s, marks=self.marks).rstrip()

    def seconds_of(self, heard: str) -> float:
        """How long it took to say so much."""
        if len(heard) >= len(self.text.rstrip()):
            return self.seconds
        passed = [mark.at_s for mark in self.marks if mark.chars <= len(heard)]
        return min(self.seconds, passed[-1] if passed else 0.0)


class Items:
    """The items of one conversation, in order."""

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._withdrawn: deque[str] = deque(maxlen=_MOST_WITHDRAWN)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._items)

    def find(self, item_id: object) -> Item | None:
        return next((item for item in self._items if item.id == item_id), None)

    def get(self, item_id: object, param: str = "item_id") -> Item:
        """Raises RefusedError."""
        item = self.find(item_id)
        if item is None:
            message = f"{param}: the conversation has no item {str(item_id)[:80]!r}"
            raise RefusedError(message, param, "item_not_found")
        return item

    def add(self, item: Item, previous: object = None) -> str | None:
        """Behind `previous`; None: at the end; "root": in front. The id of the one before it.

        Raises RefusedError.
        """
        if self.find(item.id) is not None:
            message = f"item.id: there is an item {item.id[:80]!r} already"
            raise RefusedError(message, "item.id", "item_exists")
        place = len(self._items)
        if previous == "root":
            place = 0
        elif previous is not None:
            place = self._items.index(self.get(previous, "previous_item_id")) + 1
        self._items.insert(place, item)
        before = self._items[place - 1].id if place else None
        self._forget()
        return before

    def _forget(self) -> None:
        """What is further back than the language model reads."""
        count, characters = 0, 0
        for item in reversed(self._items):
            characters += item.characters
            if count == MOST_ITEMS or (count and characters > _MOST_OF_ALL):
                break
            count += 1
        del self._items[:-count]

    def before(self, item: Item) -> str | None:
        """The id of the one before it; None: it is the first, or not there any more."""
        place = self._items.index(item) if item in self._items else 0
        return self._items[place - 1].id if place else None

    def remove(self, item_id: object) -> Item:
        """Raises RefusedError."""
        item = self.get(item_id)
        self._items.remove(item)
        return item

    def withdraw(self, item_id: str) -> None:
        """Remove one that its client has not asked to be removed."""
        self.remove(item_id)
        self._withdrawn.append(item_id)

    def was_withdrawn(self, item_id: object) -> bool:
        """Whether a client that names it may not know yet that it has gone."""
        return item_id in self._withdrawn

    def messages(self, but: Item | None = None) -> list[Message]:
        """What the language model reads of it. but: an answer on its way, which is left out."""
        return messages_of(item for item in self._items if item is not but)


def messages_of(items: Iterable[Item]) -> list[Message]:
    """Items as messages; those of a side that follow each other are one.

    A model reads a tool's result behind its call, however late it came: the newest of it, and none
    whose call is not there.
    """
    items = list(items)
    results = _results(items)
    said: list[Message] = []
    role: Any = ""
    texts: list[str] = []
    """Of the side that speaks."""
    calls: list[Item] = []
    """That were made together."""

    def close() -> None:
        if texts:
            said.append(Message(role, _in_one(texts)))
            texts.clear()
        if calls:
            called = (Call(call.call_id, call.name, call.arguments or "{}") for call in calls)
            said.append(Message("assistant", "", tuple(called)))
            told = [results[call.id] for call in calls if call.id in results]
            said.extend(Message("tool", one.output, tool_call_id=one.call_id) for one in told)
            calls.clear()

    for item in items:
        match item.kind:
            case "function_call":
                if texts:
                    close()
                calls.append(item)
            case "function_call_output":
                if calls:
                    close()  # what is called next was called with this in mind
            case _ if text := item.text.strip():
                if calls or role != item.role:
                    close()
                    role = item.role
                texts.append(text)
    close()
    return said


def unread_of(items: Sequence[Item]) -> list[Item]:
    """Of what was said since the last answer: what nobody can answer, the oldest first. The newest
    item, and others of which no response has told it yet.
    """
    found = list[Item]()
    for item in reversed(items):
        if item.role == "assistant" or item.kind == "function_call":
            break
        if item.unreadable is not None and (item is items[-1] or not item.missed):
            found.insert(0, item)
    return found


def _results(items: Iterable[Item]) -> dict[str, Item]:
    """What came of each call, by the id of the call's item."""
    newest: dict[str, Item] = {}
    """Of the calls with one id."""
    results: dict[str, Item] = {}
    for item in items:
        if item.kind == "function_call":
            newest[item.call_id] = item
        elif item.kind == "function_call_output" and item.call_id in newest:
            results[newest[item.call_id].id] = item
    return results


def _in_one(pieces: Iterable[str]) -> str:
    """All as one text. What has lines, such as code, keeps them to itself."""
    pieces = [piece for piece in pieces if piece]
    if len(pieces) < 2:
        return "".join(pieces)
    told, lines = list[str](), False
    for piece in pieces:
        lines = lines or "\n" in piece
        told += [*(("\n" if lines else " ",) if told else ()), piece]
    return "".join(told)


def item_of(content: object, new_id: str, param: str = "item") -> Item:
    """A client's item. Raises RefusedError."""
    if not isinstance(content, Mapping):
        raise RefusedError(f"{param}: an object is wanted", param, "invalid_type")
    item_id = content.get("id") or new_id
    if not isinstance(item_id, str) or len(item_id) > 128:
        message = f"{param}.id: at most 128 characters are allowed"
        raise RefusedError(message, f"{param}.id", "invalid_value")
    match content.get("type"):
        case "message":
            role = content.get("role")
            if role not in _ROLES:
                message = f"{param}.role: system, user or assistant is wanted"
                raise RefusedError(message, f"{param}.role", "invalid_value")
            parts = _parts(content.get("content"), str(role), param)
            return Item(item_id, "message", str(role), parts)
        case "function_call":
            return Item(
                item_id,
                "function_call",
                call_id=_string(content, "call_id", param),
                name=_tool_name(content, param),
                arguments=_json(content, param),
            )
        case "function_call_output":
            called, output = _string(content, "call_id", param), _string(content, "output", param)
            return Item(item_id, "function_call_output", call_id=called, output=output)
    message = f"{param}.type: message, function_call or function_call_output is wanted"
    raise RefusedError(message, f"{param}.type", "invalid_value")


def _parts(content: object, role: str, param: str) -> list[dict[str, Any]]:
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if not isinstance(content, Sequence) or not content:
        message = f"{param}.content: a list of parts is wanted"
        raise RefusedError(message, f"{param}.content", "missing_required_parameter")
    if len(content) > _MOST_PARTS:
        message = f"{param}.content: at most {_MOST_PARTS} parts are allowed"
        raise RefusedError(message, f"{param}.content", "invalid_value")
    side = "output" if role == "assistant" else "input"
    parts = [_part(part, side, f"{param}.content.{i}") for i, part in enumerate(content)]
    _check_length(sum(len(_words_of(part)) for part in parts), f"{param}.content")
    return parts


def _part(part: object, side: str, param: str) -> dict[str, Any]:
    if not isinstance(part, Mapping):
        raise RefusedError(f"{param}: an object is wanted", param, "invalid_type")
    kind = part.get("type")
    if kind in _TEXTS:
        return {"type": f"{side}_text", "text": _string(part, "text", param)}
    if kind in _SOUNDS:
        said = part.get("transcript")
        told = {"type": f"{side}_audio", "transcript": said if isinstance(said, str) else None}
        # What a recording says comes with it, or has to be found out; else its sound is of no use.
        unread = side == "input" and not told["transcript"] and part.get("audio")
        return told | ({"audio": part["audio"]} if unread else {})
    if kind == "input_image":
        message = f"{param}: pictures cannot be looked at here"
        raise RefusedError(message, param, "unsupported_parameter")
    raise RefusedError(f"{param}.type: unknown", f"{param}.type", "invalid_value")


def _string(content: Mapping[Any, Any], name: str, param: str) -> str:
    value = content.get(name)
    if not isinstance(value, str):
        message = f"{param}.{name}: a string is wanted"
        raise RefusedError(message, f"{param}.{name}", "missing_required_parameter")
    _check_length(len(value), f"{param}.{name}")
    return value


def _check_length(characters: int, param: str) -> None:
    """Raises RefusedError."""
    if characters > MOST_CHARACTERS:
        message = f"{param}: at most {MOST_CHARACTERS} characters are allowed"
        raise RefusedError(message, param, "invalid_value")


def _tool_name(content: Mapping[Any, Any], param: str) -> str:
    name = _string(content, "name", param)
    if not re.fullmatch(TOOL_NAME, name):
        message = f"{param}.name: String should match pattern {TOOL_NAME!r}"
        raise RefusedError(message, f"{param}.name", "invalid_value")
    return name


def _json(content: Mapping[Any, Any], param: str) -> str:
    arguments = _string(content, "arguments", param)
    try:
        if isinstance(from_json(arguments, allow_inf_nan=False), dict):
            return arguments
    except ValueError:
        pass
    message = f"{param}.arguments: a JSON object is wanted"
    raise RefusedError(message, f"{param}.arguments", "invalid_value")
