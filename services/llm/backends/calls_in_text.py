"""Tools for engines in this process: told to the model in words, and calls read out of its text.

An engine's own reading of calls depends on the model's template: of the small models that are
pulled here one never hears of its tools, and another writes calls without the marks by which they
would be found. So the prompt is made by the template only where that knows tools, and by us where
it does not, and calls are read here. A call that has to be made is held to its schema by a grammar
where the engine has one; else its beginning is put into the model's mouth.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import replace
from typing import Any

from services.llm.backends.base import BackendRequest, ChatMessage, Delta, ToolCallDelta, Tools
from visavis.serving.errors import InvalidInputError

# What may stand before, between and behind calls.
_MARKS = ("<tool_call>", "</tool_call>", "```", "json", "[", "]", ",", ";")
_ARGUMENTS = re.compile(r'"(?:arguments|parameters)"\s*:\s*(?=\{)')
_BLANKS = re.compile(r"\s+")
# Of llama.cpp's grammars. Where blanks are free a small model that has nothing to fill in writes
# line ends for as long as it may.
_LAYOUT = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


def told_in_words(messages: Sequence[ChatMessage], tools: Tools | None) -> tuple[ChatMessage, ...]:
    """The conversation for a template that knows no tools: definitions in the system message,
    calls as the model is told to write them, results as the user's.
    """
    plain = [_in_words(message, messages) for message in messages]
    if tools is None:
        return tuple(plain)
    definitions = "\n".join(
        json.dumps(tool.as_openai()["function"], ensure_ascii=False) for tool in tools.known
    )
    told = (
        f"These functions can be called:\n{definitions}\n"
        "To call one, write nothing but a line of JSON: "
        '{"name": "its name", "arguments": {its arguments}}. '
        "Its result comes with the next message. Else answer as usual."
    )
    if plain and plain[0].role == "system":
        return (replace(plain[0], content=f"{plain[0].content}\n\n{told}"), *plain[1:])
    return (ChatMessage("system", told), *plain)


def _in_words(message: ChatMessage, messages: Sequence[ChatMessage]) -> ChatMessage:
    if message.role == "tool":
        names = {call.id: call.name for other in messages for call in other.tool_calls}
        name = names.get(message.tool_call_id, "the function")
        return ChatMessage("user", f"Result of {name}: {message.content}")
    calls = [f'{{"name": "{c.name}", "arguments": {c.arguments}}}' for c in message.tool_calls]
    return ChatMessage(message.role, "\n".join([message.content, *calls]).strip())


def has_calls(request: BackendRequest) -> bool:
    """Whether anything may be called in it, or was."""
    return request.tools is not None or any(
        message.role == "tool" or message.tool_calls for message in request.messages
    )


def opening_of(tools: Tools) -> str:
    """How an answer begins that has to be a call; "": it need not be one."""
    if tools.calling != "required":
        return ""
    name = tools.named or (tools.known[0].name if len(tools.known) == 1 else "")
    return f'{{"name": "{name}", "arguments": ' if name else '{"name": "'


async def with_calls(
    deltas: AsyncGenerator[Delta, None], tools: Tools, prompt_tokens: int, written: str = ""
) -> AsyncGenerator[Delta, None]:
    """An answer's deltas, calls read out of their text. Behind what is written of it, it begins
    with what `opening_of` says.

    Raises InvalidInputError where the model has not made the call that was required.
    """
    reader = CallReader([tool.name for tool in tools.known], at_once=tools.at_once)
    reader.feed(written)
    opening, pieces = opening_of(tools), 0
    if begun := reader.feed(opening)[1]:
        yield Delta(tool_calls=tuple(begun))
    async for delta in deltas:
        pieces += bool(delta.text)
        text, calls = reader.feed(delta.text)
        text += reader.finish() if delta.finish_reason else ""
        if opening and reader.in_text:
            raise InvalidInputError("tools: the model did not make the call that was required")
        yield replace(delta, text=text, tool_calls=tuple(calls))
        if reader.done and not delta.finish_reason:
            yield Delta("", "tool_calls", prompt_tokens, pieces)
            return


def schema_of(tools: Tools) -> dict[str, Any] | None:
    """JSON Schema of an answer that has to be a call; None: it need not be one."""
    if tools.calling != "required":
        return None
    parameters = {
        tool.name: _referring_to(f"#/$defs/{tool.name}", json.loads(tool.parameters))
        for tool in tools.known
        if tools.named in ("", tool.name)
    }
    calls = [
        {
            "type": "object",
            "properties": {
                "name": {"const": name},
                "arguments": _closed(schema, parameters),
            },
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for name, schema in parameters.items()
    ]
    call = calls[0] if len(calls) == 1 else {"anyOf": calls}
    return {**call, "$defs": parameters, "x-guidance": _LAYOUT}


def _closed(schema: dict[str, Any], parameters: dict[str, Any]) -> dict[str, Any]:
    """Of what says nothing else, only what is named may be there. Behind a reference stands what
    has the names; beside one, or beside a choice, llama.cpp makes no grammar of such a word.
    """
    followed = set()
    while isinstance(to := schema.get("$ref"), str) and to not in followed:
        followed.add(to)
        found: Any = {"$defs": parameters}
        for key in to.split("/")[1:]:
            found = found.get(key) if isinstance(found, dict) else None
        if not isinstance(found, dict):
            break
        schema = found
    if schema.keys() & {"$ref", "anyOf", "oneOf", "allOf"}:
        return schema
    return {"additionalProperties": False, **schema}


def _referring_to(root: str, schema: Any) -> Any:
    """`schema`, whose references are counted from its own root, as a part of another, at `root`."""
    if isinstance(schema, list):
        return [_referring_to(root, part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {key: _referring_to(root, part) for key, part in schema.items()}
    if isinstance(to := schema.get("$ref"), str) and to.startswith("#"):
        moved["$ref"] = root + to[1:]
    return moved


class CallReader:
    """Parts an answer that comes in pieces into text and calls.

    A call is {"name": …, "arguments": {…}} of a known name, at the beginning, behind a call or
    behind <tool_call>, with or without marks around it. What follows the first call and is none is
    left out, and `done` is set: the model has nothing more to say before it has the result. Nor has
    one that writes a call again, word for word: it would for as long as it may.
    """

    def __init__(self, names: Iterable[str], *, at_once: bool) -> None:
        self._wholes = tuple(
            f'{{"name":"{name}"{rest}'
            for name in names
            for rest in (',"arguments":{', ',"parameters":{', "}")
        )
        self._at_once = at_once
        self._held = ""
        self._calls = 0
        self._text = False
        self._arguments: _Object | None = None
        self._called = ""
        """The call that is read: its name, and its arguments so far."""
        self._before: set[str] = set()
        self.done = False

    def feed(self, piece: str) -> tuple[str, list[ToolCallDelta]]:
        """Text and pieces of calls that are certain by now."""
        self._held += piece
        text, calls = "", []
        while self._held and not self.done:
            if self._arguments is not None:
                calls += self._read_arguments()
            elif self._text:
                text += self._read_text()
                if self._text:
                    break
            elif (begun := self._begin()) is None:
                break
            else:
                calls += begun
        return text, calls

    @property
    def in_text(self) -> bool:
        """What is said now is no call."""
        return self._text

    def finish(self) -> str:
        """Text that was held back. The beginning of a call that was cut off is none."""
        rest, self._held = self._held, ""
        begun = not self._text and ("{" in rest or _MARKS[0] in rest)
        return "" if self._calls or self.done or begun else rest

    def _read_text(self) -> str:
        """Up to a mark that a call begins, or what may become one."""
        before, mark, rest = self._held.partition(_MARKS[0])
        if mark:
            self._held, self._text = mark + rest, False
            return before
        keep = next(
            (n for n in range(len(_MARKS[0]) - 1, 0, -1) if before.endswith(_MARKS[0][:n])), 0
        )
        self._held = before[len(before) - keep :]
        return before[: len(before) - keep]

    def _begin(self) -> list[ToolCallDelta] | None:
        """None: it is not known yet whether this begins a call."""
        compact = _without_marks(_BLANKS.sub("", self._held))
        whole = next((whole for whole in self._wholes if compact.startswith(whole)), "")
        if not whole:
            if any(w.startswith(compact) for w in (*self._wholes, *_MARKS)):
                return None
            # No call: it is what the model says; behind calls it is nothing.
            self.done = self._calls > 0
            self._text = True
            if self._held.startswith(_MARKS[0]):
                self._held = self._held[len(_MARKS[0]) :]
            return []
        name = whole.split('"')[3]
        index, self._calls = self._calls, self._calls + 1
        if whole.endswith("}"):
            self._held, self._called = self._held[self._held.index("}") + 1 :], name
            self._end()
            return [ToolCallDelta(index, "", name, "{}")]
        found = _ARGUMENTS.search(self._held)
        assert found is not None
        self._held = self._held[found.end() :]
        self._arguments, self._called = _Object(), name
        return [ToolCallDelta(index, "", name)]

    def _read_arguments(self) -> list[ToolCallDelta]:
        assert self._arguments is not None
        size = self._arguments.feed(self._held)
        piece, self._held = self._held[:size], self._held[size:]
        self._called += piece
        if self._arguments.complete:
            if not (rest := self._held.lstrip()):
                self._held = ""
            else:
                # The brace that ends the call.
                self._held = rest.removeprefix("}")
                self._arguments = None
                self._end()
        return [ToolCallDelta(self._calls - 1, arguments=piece)] if piece else []

    def _end(self) -> None:
        """Of one call."""
        self.done = not self._at_once or self._called in self._before
        self._before.add(self._called)


class _Object:
    """Finds the end of a JSON object that comes in pieces."""

    def __init__(self) -> None:
        self.complete = False
        self._depth = 0
        self._quoted = self._escaped = False

    def feed(self, text: str) -> int:
        """So many characters of `text` belong to it."""
        if self.complete:
            return 0
        for at, char in enumerate(text):
            if self._escaped:
                self._escaped = False
            elif self._quoted:
                self._escaped, self._quoted = char == "\\", char != '"'
            elif char == '"':
                self._quoted = True
            elif char in "{[":
                self._depth += 1
            elif char in "}]":
                self._depth -= 1
                if not self._depth:
                    self.complete = True
                    return at + 1
        return len(text)


def _without_marks(compact: str) -> str:
    while mark := next((mark for mark in _MARKS if compact.startswith(mark)), ""):
        compact = compact[len(mark) :]
    return compact
