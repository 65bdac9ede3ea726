"""What a client may ask for: one validator for each option, for HTTP and WebSocket alike."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, Field, StringConstraints

from visavis.styles import STYLES

MAX_TEXT_CHARACTERS = 8000
MAX_PERSONA_CHARACTERS = 8000
MAX_WELCOME_CHARACTERS = 1000
MAX_HISTORY = 100
_TAG = r"[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*"


def _readable(text: str) -> str:
    if not any(c.isprintable() and not c.isspace() for c in text):
        raise ValueError("there is nothing in it to be answered")
    return text


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

StyleName: TypeAlias = Annotated[str, Field(max_length=40), AfterValidator(_known_style)]
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


class Change(BaseModel):
    """What of a session can be changed; what is left out stays."""

    language: Language | None = Field(None, description="BCP 47, for example en or zh")
    voice: Name | None = Field(None, description="From /v1/voices; empty: the best one")
    avatar: Name | None = Field(None, description="From /v1/avatars; empty: the default one")
    speed: Speed | None = Field(None, description="Of the voice: 0.5 to 2, 1 is normal")
    style: StyleName | None = Field(None, description="How answers are said, such as happy")
    drawn_by: DrawnBy | None = Field(None, description="Who draws the face: server or client")
