"""What a client asks of one response, over what its session says. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gateway.api.choices import MAX_PERSONA_CHARACTERS
from gateway.openai.errors import RefusedError
from gateway.realtime.protocol.config import (
    Format,
    Modalities,
    NamedTool,
    NamedVoice,
    OutputTokens,
    SessionConfig,
    Tool,
    Tools,
    WantedChoice,
    check_choice,
    refusal_of,
)
from gateway.realtime.protocol.items import Item, Items, item_of
from gateway.realtime.protocol.reply import Asked, NewId
from gateway.stages.plain_calls import Wanted
from gateway.talk.actions import Message
from gateway.talk.history import system_message
from gateway.tools.offers import Calling, ToolChoice, ToolOffer

_MOST_METADATA = 16
_OPENING, _GOING_ON = "Hello.", "Please go on."
"""What stands for the visitor's words where he has said none: a model answers somebody."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Output(_Part):
    format: Format | None = None
    voice: Annotated[str, Field(max_length=200)] | NamedVoice | None = None


class _Audio(_Part):
    output: _Output = _Output()


class _Request(_Part):
    """`response` of response.create."""

    instructions: Annotated[str, Field(max_length=MAX_PERSONA_CHARACTERS)] | None = None
    input: Annotated[list[Any], Field(max_length=200)] | None = None
    conversation: Literal["auto", "none"] = "auto"
    metadata: Annotated[dict[str, str], Field(max_length=_MOST_METADATA)] | None = None
    output_modalities: Modalities | None = None
    audio: _Audio = _Audio()
    tools: Tools | None = None
    tool_choice: WantedChoice | None = None
    max_output_tokens: OutputTokens | None = None


class Request:
    """One response as it is wanted, every choice made."""

    def __init__(self, wanted: _Request, config: SessionConfig) -> None:
        """Raises RefusedError where it wants a tool called that there is not."""
        modalities = wanted.output_modalities or config.output_modalities
        output = wanted.audio.output
        self.aloud = modalities == ("audio",)
        self.apart = wanted.conversation == "none"
        self.input = wanted.input
        self.instructions = wanted.instructions
        """Of this response alone; None: the session's."""
        self.form = output.format or config.audio.output.format
        voice = output.voice.id if isinstance(output.voice, NamedVoice) else output.voice
        self.own_voice = voice if voice and voice != config.wanted_voice else ""
        self.voice = voice or config.wanted_voice
        self.limit: OutputTokens = wanted.max_output_tokens or config.max_output_tokens
        tools = config.tools if wanted.tools is None else wanted.tools
        self.choice = _choice(wanted.tool_choice, config.tool_choice, tools)
        self.tools: tuple[Tool, ...] = () if self.choice == "none" else tools
        self.metadata = wanted.metadata

    def asked(self, conversation_id: str, *, by_channel: bool) -> Asked:
        """What is told of it."""
        told: dict[str, Any] = {
            "conversation_id": None if self.apart else conversation_id,
            "output_modalities": ["audio" if self.aloud else "text"],
            "max_output_tokens": self.limit,
            "metadata": self.metadata,
        }
        if self.aloud:
            output = {"format": self.form.model_dump(mode="json"), "voice": self.voice or "default"}
            told["audio"] = {"output": output}
        channel = by_channel and not self.apart
        return Asked(self.aloud, told, channel, self.apart, self.limit)

    @property
    def simple(self) -> bool:
        """Whether the session can answer it by itself, as it answers whoever speaks."""
        return self.aloud and not self.apart and not self.tools and self.limit == "inf"

    def wanted(self, prompt: Sequence[Message]) -> Wanted:
        """Of the language model."""
        named = self.choice.name if isinstance(self.choice, NamedTool) else ""
        calling: Calling = self.choice if isinstance(self.choice, str) else "required"
        return Wanted(
            messages=tuple(prompt),
            max_tokens=0 if self.limit == "inf" else self.limit,
            tools=tuple(_offer(tool) for tool in self.tools),
            choice=ToolChoice(calling, named),
            spoken=self.aloud,
        )


def _choice(
    wanted: WantedChoice | None, usual: WantedChoice, tools: Sequence[Tool]
) -> WantedChoice:
    """usual: the session's, which of a response with other tools asks for what it can."""
    if wanted is None:
        if isinstance(usual, NamedTool):
            can = usual.name in [tool.name for tool in tools]
        else:
            can = usual != "required" or bool(tools)
        return usual if can else "auto"
    check_choice(wanted, tools, "response")
    if wanted == "required" and not tools:
        message = "response.tool_choice: a call is required, and there are no tools"
        raise RefusedError(message, "response.tool_choice", "invalid_value")
    return wanted


def request_of(content: object, config: SessionConfig) -> Request:
    """`response` of response.create. Raises RefusedError."""
    if not isinstance(content, Mapping):
        raise RefusedError("response: an object is wanted", "response", "invalid_type")
    for old in ("modalities", "voice", "output_audio_format", "max_response_output_tokens"):
        if old in content:
            message = f"response.{old}: this is of the beta"
            raise RefusedError(message, f"response.{old}", "unknown_parameter")
    # null: as the session says.
    given = {key: value for key, value in content.items() if value is not None}
    try:
        return Request(_Request.model_validate(given), config)
    except ValidationError as error:
        raise refusal_of(error, "response") from None


def _items_in(given: Sequence[Any], items: Items, new_id: NewId) -> list[Item]:
    """What stands in a response's `input`. Raises RefusedError."""
    found = []
    for i, content in enumerate(given):
        param = f"response.input.{i}"
        if isinstance(content, Mapping) and content.get("type") == "item_reference":
            found.append(items.get(content.get("id"), f"{param}.id"))
        else:
            found.append(item_of(content, new_id("item"), param))
            _check_read(found[-1], param)
    return found


def _check_read(item: Item, param: str) -> None:
    """Raises RefusedError where there is sound in it of which nobody has said what it says."""
    for index, part in enumerate(item.parts):
        if "text" not in part and (part["transcript"] is None or "audio" in part):
            where = f"{param}.content.{index}"
            raise RefusedError(
                f"{where}: sound is not listened to here; give its transcript, or put it into the "
                "conversation and refer to that by an item_reference",
                where,
                "unsupported_parameter",
            )


def prompt_of(instructions: str, language: str, messages: Sequence[Message]) -> list[Message]:
    """What the language model reads: who it is, then the conversation, then somebody's turn."""
    of_system = " ".join(said.content for said in messages if said.role == "system")
    persona = system_message(" ".join(filter(None, (instructions, of_system))), language)
    said = [message for message in messages if message.role != "system"]
    if not said or said[-1].role == "assistant":
        said.append(Message("user", _GOING_ON if said else _OPENING))
    return [*([Message("system", persona)] if persona else []), *said]


def said_of(items: Items, but: Item | None) -> tuple[str, tuple[Message, ...]]:
    """What the system's items add to who it is, and what was said and called since."""
    messages = items.messages(but)
    of_system = " ".join(said.content for said in messages if said.role == "system")
    return of_system, tuple(said for said in messages if said.role != "system")


def items_for(request: Request, items: Items, new_id: NewId) -> list[Item]:
    """The conversation that a response answers to. Raises RefusedError."""
    if request.input is None:
        return list(items)
    return _items_in(request.input, items, new_id)


def _offer(tool: Tool) -> ToolOffer:
    parameters = json.dumps(tool.parameters) if tool.parameters else ""
    return ToolOffer(tool.name, tool.description or "", parameters)
