"""What a language model backend offers: a conversation in, text out, streamed."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

Role = Literal["system", "user", "assistant", "tool"]
Calling = Literal["auto", "none", "required"]

_NO_MORE_CALLS = "(Nothing more can be called: answer now, in words.)"

# Tokens in a text: exact where the backend has the tokenizer, else an estimate from above.
TokenCounter = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model made. arguments: JSON of an object."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a conversation, oldest first in every list.

    tool_calls: what an assistant's message called; tool_call_id: the call whose result a tool's is.
    """

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""

    def as_openai(self) -> dict[str, Any]:
        """As OpenAI's chat completions have it, and chat templates with them."""
        message: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": call.arguments},
                }
                for call in self.tool_calls
            ]
        if self.role == "tool":
            message["tool_call_id"] = self.tool_call_id
        return message


@dataclass(frozen=True, slots=True)
class Tool:
    """What the model may call. parameters: JSON Schema of its arguments, an object."""

    name: str
    description: str
    parameters: str

    def as_openai(self) -> dict[str, Any]:
        """As OpenAI's chat completions have it."""
        function: dict[str, Any] = {"name": self.name, "parameters": json.loads(self.parameters)}
        if self.description:
            function["description"] = self.description
        return {"type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class Tools:
    """What an answer may call. named: the one that has to be called; "": any.

    at_once: several calls may stand in one answer.
    """

    known: tuple[Tool, ...]
    calling: Calling = "auto"
    named: str = ""
    at_once: bool = True

    def as_openai(self) -> dict[str, Any]:
        """The fields of a request of OpenAI's chat completions."""
        choice: Any = self.calling
        if self.named:
            choice = {"type": "function", "function": {"name": self.named}}
        return {
            "tools": [tool.as_openai() for tool in self.known],
            "tool_choice": choice,
            # Some servers know nothing of it: left out where it would change nothing.
            **({} if self.at_once else {"parallel_tool_calls": False}),
        }


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the next tokens are drawn. `temperature` 0 takes the likeliest one always.

    `max_tokens` 0: only the prompt is to be read, up to the last word in it, which may not be the
    last one of its message; a backend that cannot do so makes one token.
    """

    max_tokens: int
    temperature: float
    top_p: float = 1.0
    repeat_penalty: float = 1.0
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class BackendRequest:
    """A conversation to be answered in one of the backend's sequences, the `slot`, whose cached
    prefix it reuses.
    """

    messages: tuple[ChatMessage, ...]
    sampling: Sampling
    slot: int
    written: str = ""
    """Of the answer, which is to go on from there."""
    tools: Tools | None = None
    session: str = ""
    """Whose conversation it is; "": that of nobody who comes back."""
    in_words: bool = False
    """It has called what it may, and goes to a voice: where a backend can, no call is written."""

    def told_to_answer(self) -> tuple[ChatMessage, ...]:
        """The messages, for a backend that can keep no model from writing a call."""
        if not self.in_words:
            return self.messages
        *before, result = self.messages
        # Of models that are kept from it a small one says this, too.
        return (*before, replace(result, content=f"{result.content}\n{_NO_MORE_CALLS}"))


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A piece of one call. The first piece of an index has its name, and mostly an id."""

    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class Delta:
    """One step of an answer.

    The first delta comes when the backend takes up the request and may be empty.
    `finish_reason` ("stop", "length" or "tool_calls") and then the counts come with the last
    ones; the counts are 0 in all others, and never come from some servers.
    """

    text: str = ""
    finish_reason: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    tool_calls: tuple[ToolCallDelta, ...] = ()


class TextBackend(Protocol):
    """A language model. One instance serves `slots` requests at once."""

    name: str
    model: str
    file: str
    """The weights' file as its makers call it; "" where they are elsewhere."""
    device: str
    """Where it runs: "cpu", "cuda:N", or "remote" for another process."""
    slots: int
    context_tokens: int
    keeps_prefix: bool
    """A prompt that continues the one before it in the same slot costs only what is new."""
    resumes: bool
    """An answer that was dropped can go on from any word, at the cost of a token or two."""
    in_turn: bool
    """Requests slow each other down: what may be thrown away waits for what is waited for."""

    async def load(self) -> None:
        """Make ready. Raises EngineLoadError with what is wrong and what to do."""

    def stream(self, request: BackendRequest) -> AsyncGenerator[Delta, None]:
        """Deltas of the answer.

        Closing the generator, or cancelling the task that iterates it, stops
        the work and frees the slot. Raises EngineError, AtCapacityError, or
        InvalidInputError where the model refuses the request.
        """

    def count_tokens(self, text: str) -> int:
        """Tokens in `text`. May block: call it off the event loop.

        Raises EngineError before `load` and after `close`, where it takes the model to count.
        """

    async def close(self) -> None:
        """Stop every request and release the model. A second call does nothing."""
