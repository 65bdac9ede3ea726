"""Tools that the model may call: what of a request is checked, and its calls out of an answer."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from services.llm.backends.base import ChatMessage, ToolCallDelta, Tools
from visavis.serving.errors import EngineError, InvalidInputError
from visavis.wire.json_objects import is_json_object

MAX_TOOLS = 128
MAX_SCHEMA_CHARS = 32_768
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LONGEST_NAME_CHARS = 64
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9_-]")


def check_tools(tools: Tools) -> None:
    """Raises InvalidInputError naming the field."""
    if not 1 <= len(tools.known) <= MAX_TOOLS:
        raise InvalidInputError(f"tools: {len(tools.known)} is not between 1 and {MAX_TOOLS}")
    for index, tool in enumerate(tools.known):
        if not _NAME.fullmatch(tool.name):
            raise InvalidInputError(
                f"tools[{index}].name: {tool.name[:80]!r} is not 1 to 64 characters of A-Z, a-z, "
                "0-9, _ and -"
            )
        if len(tool.parameters) > MAX_SCHEMA_CHARS:
            raise InvalidInputError(
                f"tools[{index}].parameters: {len(tool.parameters)} characters, at most "
                f"{MAX_SCHEMA_CHARS}"
            )
        _check_object(tool.parameters, f"tools[{index}].parameters", "a JSON Schema")
    names = [tool.name for tool in tools.known]
    if len(set(names)) < len(names):
        raise InvalidInputError("tools: two have one name")
    if tools.named and tools.named not in names:
        raise InvalidInputError(
            f"tool_choice: there is no tool {tools.named[:80]!r} among {', '.join(names)}"
        )


def check_calls(messages: Sequence[ChatMessage]) -> None:
    """Raises InvalidInputError where a result stands behind no call of its own."""
    waiting: set[str] = set()
    for index, message in enumerate(messages):
        if message.tool_calls and message.role != "assistant":
            raise InvalidInputError(f"messages[{index}].tool_calls: only ASSISTANT makes calls")
        if message.role != "tool":
            waiting = {call.id for call in message.tool_calls}
        elif message.tool_call_id not in waiting:
            raise InvalidInputError(
                f"messages[{index}].tool_call_id: {message.tool_call_id[:80]!r} is no call of the "
                "ASSISTANT message before it that waits for its result"
            )
        else:
            waiting.discard(message.tool_call_id)
        for call in message.tool_calls:
            if not call.name:
                raise InvalidInputError(f"messages[{index}].tool_calls: a call without a name")
            _check_object(call.arguments, f"messages[{index}].tool_calls", "arguments in JSON")


def called_name(name: str) -> str:
    """As a tool could be called: a model may make up any, and is to hear that there is none such.

    Servers refuse a conversation in which another stands.
    """
    return _NOT_IN_A_NAME.sub("_", name)[:_LONGEST_NAME_CHARS]


def _check_object(text: str, field: str, what: str) -> None:
    if not is_json_object(text):
        raise InvalidInputError(f"{field}: {text[:80]!r} is no object with {what}")


def calls_in(delta: Mapping[str, Any]) -> tuple[ToolCallDelta, ...]:
    """Of one delta as OpenAI's chat completions stream them.

    Raises what an unexpected shape raises: TypeError, AttributeError, ValueError.
    """
    return tuple(_piece_of(call, place) for place, call in enumerate(delta.get("tool_calls") or ()))


def _piece_of(call: Mapping[str, Any], place: int) -> ToolCallDelta:
    function = call.get("function") or {}
    arguments = function.get("arguments") or ""
    if not isinstance(arguments, str):  # some servers write the object itself
        arguments = json.dumps(arguments, ensure_ascii=False)
    index = call.get("index")
    return ToolCallDelta(
        place if index is None else int(index),
        str(call.get("id") or ""),
        str(function.get("name") or ""),
        arguments,
    )


class CallPieces:
    """Brings the pieces of an answer's calls into one form: counted from 0, the first piece of each
    with id and name, the others with arguments alone.
    """

    def __init__(self) -> None:
        self._places: dict[int, int] = {}
        self._ids: list[str] = []
        self._arguments: list[str] = []
        """So far."""

    @property
    def any(self) -> bool:
        """Whether something was called."""
        return bool(self._ids)

    def feed(self, pieces: Iterable[ToolCallDelta]) -> Iterator[ToolCallDelta]:
        """Raises EngineError for a call without a name."""
        for piece in pieces:
            if self._begins(piece):
                if not piece.name:
                    raise EngineError("the language model called a tool without saying which")
                self._places[piece.index] = len(self._ids)
                self._ids.append(piece.id or f"call_{secrets.token_hex(12)}")
                self._arguments.append(piece.arguments)
                place = self._places[piece.index]
                name = called_name(piece.name)
                yield ToolCallDelta(place, self._ids[place], name, piece.arguments)
            elif piece.arguments:
                self._arguments[self._places[piece.index]] += piece.arguments
                yield ToolCallDelta(self._places[piece.index], arguments=piece.arguments)

    def _begins(self, piece: ToolCallDelta) -> bool:
        place = self._places.get(piece.index)
        if place is None:
            return True
        # Some servers count every call as number 0, and some of them give it no id.
        if piece.id:
            return bool(piece.name) and piece.id != self._ids[place]
        return bool(piece.name and piece.arguments) and is_json_object(self._arguments[place])
