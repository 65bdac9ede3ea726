"""The body of a chat request: what is read of it, and what is refused.

Fields that are not named here change nothing of an answer's meaning, or are not known: they are
ignored, as OpenAI's clients expect of a server that is older than they are.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from gateway.api.access import JSON_LIMIT_BYTES
from gateway.api.choices import JsonSchema, json_of
from gateway.openai.errors import RefusedError, unsupported
from gateway.stages.plain_calls import Wanted
from gateway.talk.actions import Message
from gateway.tools.offers import Call, ToolChoice, ToolOffer

LONGEST_ANSWER_TOKENS = 2048
"""More are not written in one answer, whatever is asked for."""


class _Part(BaseModel):
    # No text is as long as that; but of one with a limit half a character is found, which JSON can
    # hold and no service can be sent.
    model_config = ConfigDict(str_max_length=JSON_LIMIT_BYTES)


class TextPart(_Part):
    """A part of a message. Of other types than text nothing can be read."""

    type: str
    text: str = ""


class CalledFunction(_Part):
    """What was called, arguments as JSON."""

    name: str
    arguments: str = "{}"


class ToolCallMade(_Part):
    """A call that the model has made before."""

    id: str
    type: str = "function"
    function: CalledFunction | None = None


class ChatMessage(_Part):
    """One message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[TextPart] | None = None
    tool_calls: list[ToolCallMade] | None = None
    tool_call_id: str = ""


class FunctionOffered(_Part):
    """A function that may be called; parameters: a JSON Schema."""

    name: str
    description: str | None = None
    parameters: JsonSchema | None = None


class ToolOffered(_Part):
    """A tool. Only functions are known."""

    type: str = "function"
    function: FunctionOffered | None = None


class NamedFunction(_Part):
    """The one that has to be called."""

    name: str


class WantedTool(_Part):
    """The tool that has to be called."""

    type: str = "function"
    function: NamedFunction


class AllowedTools(_Part):
    """Those of the tools that may be called now, and whether one of them has to be."""

    mode: Literal["auto", "required"]
    tools: list[WantedTool] = Field(min_length=1)


class SomeTools(_Part):
    """A choice of tools, as clients make it that offer the same ones with every question."""

    type: Literal["allowed_tools"]
    allowed_tools: AllowedTools


class StreamOptions(_Part):
    """Of an answer that comes as events."""

    include_usage: bool | None = None


Penalty: TypeAlias = Annotated[float, Field(ge=-2, le=2)]


class ChatRequest(_Part):
    """POST /v1/chat/completions."""

    model: str = Field(max_length=200)
    messages: list[ChatMessage] = Field(min_length=1)
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_completion_tokens: int | None = Field(None, ge=1)
    max_tokens: int | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0, le=2)
    top_p: float | None = Field(None, gt=0, le=1)
    stop: str | list[str] | None = None
    seed: int | None = None
    tools: list[ToolOffered] | None = None
    tool_choice: Literal["auto", "none", "required"] | WantedTool | SomeTools | None = None
    parallel_tool_calls: bool | None = None
    n: int | None = None
    response_format: dict[str, Any] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    frequency_penalty: Penalty | None = None
    presence_penalty: Penalty | None = None
    logit_bias: dict[str, float] | None = None
    modalities: list[str] | None = None
    audio: dict[str, Any] | None = None
    functions: list[Any] | None = None
    function_call: Any = None
    web_search_options: Any = None

    def wanted(self) -> Wanted:
        """What the language model is asked. Raises RefusedError for what it cannot do."""
        self._check()
        stop = [self.stop] if isinstance(self.stop, str) else self.stop or []
        most = self.max_completion_tokens or self.max_tokens or LONGEST_ANSWER_TOKENS
        return Wanted(
            _conversation(self.messages),
            min(most, LONGEST_ANSWER_TOKENS),
            self.temperature,
            self.top_p,
            tuple(stop),
            # As many bits as the samplers have.
            None if self.seed is None else self.seed & 0xFFFFFFFF,
            self._offered(),
            self._choice(),
            self.parallel_tool_calls is not False,
        )

    def _offered(self) -> tuple[ToolOffer, ...]:
        """The tools that may be called."""
        offers = tuple(_offer(tool, index) for index, tool in enumerate(self.tools or ()))
        if not isinstance(self.tool_choice, SomeTools):
            return offers
        allowed = {tool.function.name for tool in self.tool_choice.allowed_tools.tools}
        if unknown := allowed - {offer.name for offer in offers}:
            message = f"tool_choice: {min(unknown)[:80]!r} is none of the tools"
            raise RefusedError(message, "tool_choice", "invalid_value")
        return tuple(offer for offer in offers if offer.name in allowed)

    def _choice(self) -> ToolChoice:
        match self.tool_choice:
            case WantedTool(function=named):
                return ToolChoice("required", named.name)
            case SomeTools(allowed_tools=allowed):
                return ToolChoice(allowed.mode)
        return ToolChoice(self.tool_choice or "auto")

    def _check(self) -> None:
        format_ = (self.response_format or {}).get("type", "text")
        refused: tuple[tuple[str, bool, str], ...] = (
            ("n", self.n not in (None, 1), "one answer is written, not several"),
            ("response_format", format_ != "text", "only text; of a tool, arguments are JSON"),
            ("logprobs", bool(self.logprobs), "probabilities are not told"),
            ("top_logprobs", bool(self.top_logprobs), "probabilities are not told"),
            ("frequency_penalty", bool(self.frequency_penalty), "only 0"),
            ("presence_penalty", bool(self.presence_penalty), "only 0"),
            ("logit_bias", bool(self.logit_bias), "no token can be made likelier"),
            ("modalities", "audio" in (self.modalities or ()), "only text; see /v1/audio/speech"),
            ("audio", self.audio is not None, "an answer is text; see /v1/audio/speech"),
            ("functions", self.functions is not None, "use tools, which came after it"),
            ("function_call", self.function_call is not None, "use tool_choice"),
            ("web_search_options", self.web_search_options is not None, "nothing is searched"),
        )
        for field, applies, why in refused:
            if applies:
                raise unsupported(field, why)
        if self.tool_choice not in (None, "auto", "none") and not self.tools:
            raise RefusedError("tool_choice: there are no tools", "tool_choice", "invalid_value")


def _conversation(messages: list[ChatMessage]) -> tuple[Message, ...]:
    """What instructs at the beginning becomes one message, as the models know it."""
    said = [_said(message, f"messages[{index}]") for index, message in enumerate(messages)]
    first = next((at for at, message in enumerate(said) if message.role != "system"), len(said))
    if first < 2:
        return tuple(said)
    return (
        Message("system", "\n\n".join(message.content for message in said[:first])),
        *said[first:],
    )


def _said(message: ChatMessage, place: str) -> Message:
    if message.role == "function":
        raise unsupported(f"{place}.role", "function came before tool; use that")
    calls = []
    for call in message.tool_calls or ():
        if call.function is None:
            raise unsupported(f"{place}.tool_calls", f"no calls of type {call.type[:40]!r}")
        calls.append(Call(call.id, call.function.name, call.function.arguments))
    role = "system" if message.role == "developer" else message.role
    content = _text_of(message.content, f"{place}.content")
    return Message(role, content, tuple(calls), message.tool_call_id)


def _text_of(content: str | list[TextPart] | None, place: str) -> str:
    if not isinstance(content, list):
        return content or ""
    for part in content:
        if part.type not in ("text", "refusal"):
            raise unsupported(place, f"{part.type[:40]} is not understood here, only text is")
    return "\n".join(part.text for part in content)


def _offer(tool: ToolOffered, index: int) -> ToolOffer:
    if tool.function is None:
        raise unsupported(f"tools[{index}].type", f"only functions, not {tool.type[:40]!r}")
    known = tool.function
    schema = known.parameters or {"type": "object", "properties": {}}
    return ToolOffer(known.name, known.description or "", json_of(schema))
