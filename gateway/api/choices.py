"""What a client may ask for: one validator for each option, for HTTP and WebSocket alike."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from gateway.tools.offers import ToolChoice, ToolOffer
from visavis.serving.errors import InvalidInputError
from visavis.styles import STYLES

MAX_TEXT_CHARACTERS = 8000
MAX_PERSONA_CHARACTERS = 8000
MAX_WELCOME_CHARACTERS = 1000
MAX_HISTORY = 100
MAX_TOOLS = 64
MAX_TOOL_CHARACTERS = 2000
MAX_SCHEMA_CHARACTERS = 16_000
# A session goes to another gateway, its tools with it, in one message of the bus: a million bytes,
# of which a character may become twelve.
MAX_TOOLS_CHARACTERS = 64_000
_TAG = r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*"


def _readable(text: str) -> str:
    if not any(c.isprintable() and not c.isspace() for c in text):
        raise ValueError("there is nothing in it to be answered")
    return text


def sendable(text: str) -> str:
    """Without half characters, which JSON can hold and nothing that we send can."""
    return text.encode(errors="replace").decode()


def json_of(schema: dict[str, Any]) -> str:
    """As it can be sent. Raises ValueError for numbers that JSON has not."""
    return sendable(json.dumps(schema, ensure_ascii=False, allow_nan=False))


def _only_json(schema: dict[str, Any]) -> dict[str, Any]:
    try:
        json_of(schema)
    except ValueError:
        raise ValueError("NaN and Infinity, which Python reads, are not JSON") from None
    return schema


def _short_schema(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    if schema is not None and len(json_of(schema)) > MAX_SCHEMA_CHARACTERS:
        raise ValueError(f"more than {MAX_SCHEMA_CHARACTERS} characters of JSON")
    return schema


def _known_style(name: str) -> str:
    if name and name not in STYLES:
        raise ValueError(f"there is no style {name[:40]!r}; known are {', '.join(STYLES)}")
    return name


Language: TypeAlias = Annotated[str, StringConstraints(pattern=f"^{_TAG}$", max_length=35)]
"""BCP 47, for example en or zh-CN."""

AnyLanguage: TypeAlias = Annotated[str, StringConstraints(pattern=f"^({_TAG})?$", max_length=35)]
"""A language; empty: all of them."""

Name: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{0,64}$")]
"""Of a voice or an avatar; empty: the service's choice."""

Speed: TypeAlias = Annotated[float, Field(ge=0.5, le=2.0, strict=True)]
"""Of the voice; 1 is normal."""

StyleName: TypeAlias = Annotated[
    str,
    Field(max_length=40, json_schema_extra={"enum": ["", *STYLES]}),
    AfterValidator(_known_style),
]
"""How something is said; empty: nothing in particular."""

DrawnBy: TypeAlias = Literal["server", "client"]
"""Who draws the face: the server sends pictures, or what a client draws it from."""

SpokenBy: TypeAlias = Literal["server", "client"]
"""Where the speech comes from: the server answers what it hears, or the client brings it."""

TypedText: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=MAX_TEXT_CHARACTERS), AfterValidator(_readable)
]
"""What a visitor types: more than spaces and control characters."""

Persona: TypeAlias = Annotated[str, Field(max_length=MAX_PERSONA_CHARACTERS)]
"""What the language model is told it is."""

WelcomeText: TypeAlias = Annotated[
    str, Field(min_length=1, max_length=MAX_WELCOME_CHARACTERS), AfterValidator(_readable)
]
"""What a session begins with."""


TOOL_NAME = r"^[A-Za-z0-9_-]{1,64}$"
"""All that the language model's service takes for one."""

ToolName: TypeAlias = Annotated[str, StringConstraints(pattern=TOOL_NAME)]

JsonSchema: TypeAlias = Annotated[dict[str, Any], AfterValidator(_only_json)]
"""Of what a tool takes."""


class ToolOption(BaseModel):
    """A tool of the session's clients, which answers may call."""

    model_config = ConfigDict(extra="forbid")

    name: ToolName
    description: str = Field("", max_length=MAX_TOOL_CHARACTERS)
    parameters: Annotated[JsonSchema | None, AfterValidator(_short_schema)] = Field(
        default=None, description="JSON Schema of its arguments, an object; absent: it takes none"
    )


class NamedTool(BaseModel):
    """The one tool that each answer has to call."""

    model_config = ConfigDict(extra="forbid")

    name: str


ToolChosen: TypeAlias = Literal["auto", "none", "required"] | NamedTool
"""Whether an answer calls a tool at first; with results there, it is free to."""


def offers_of(tools: Sequence[ToolOption]) -> tuple[ToolOffer, ...]:
    """As the language model is told.

    Raises InvalidInputError where two have one name, or all together are too long.
    """
    names = [tool.name for tool in tools]
    if len(set(names)) < len(names):
        raise InvalidInputError("tools: two have one name")
    offers = tuple(
        ToolOffer(tool.name, tool.description, json_of(tool.parameters) if tool.parameters else "")
        for tool in tools
    )
    if sum(len(o.description) + len(o.parameters) for o in offers) > MAX_TOOLS_CHARACTERS:
        message = (
            f"tools: descriptions and parameters of more than {MAX_TOOLS_CHARACTERS} characters"
        )
        raise InvalidInputError(message)
    return offers


def choice_of(chosen: ToolChosen, tools: Sequence[ToolOffer]) -> ToolChoice:
    """Raises InvalidInputError where there is no such tool."""
    named = chosen.name if isinstance(chosen, NamedTool) else ""
    if named and named not in [tool.name for tool in tools]:
        raise InvalidInputError(f"tool_choice: there is no tool {named[:64]!r}")
    if isinstance(chosen, NamedTool):
        return ToolChoice("required", named)
    return ToolChoice(chosen)  # also where it has none: the gateway may have tools of its own


class Change(BaseModel):
    """What of a session can be changed; what is left out stays."""

    language: Language | None = Field(None, description="BCP 47, for example en or zh")
    voice: Name | None = Field(None, description="From /v1/voices; empty: the best one")
    avatar: Name | None = Field(None, description="From /v1/avatars; empty: the default one")
    speed: Speed | None = Field(None, description="Of the voice: 0.5 to 2, 1 is normal")
    style: StyleName | None = Field(None, description="How answers are said, such as happy")
    drawn_by: DrawnBy | None = Field(None, description="Who draws the face: server or client")
