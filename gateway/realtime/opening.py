"""How a Realtime session begins: with which model and settings, and where there is room."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from gateway.access.callers import Caller
from gateway.api.state import Gateway
from gateway.openai.models import HEARING, known_model, voice_named
from gateway.realtime.protocol.config import SessionConfig, first_config
from gateway.realtime.protocol.dialogue import Dialogue
from gateway.session.session import Session
from gateway.stages.catalog import Catalog, Voice
from gateway.stages.stages import Options
from gateway.waiting.entrance import Wish

MODELS = ("gpt-realtime", "gpt-realtime-mini", "gpt-4o-realtime-preview")
"""What OpenAI's own are called; their dated and smaller ones are taken, too."""
_OPEN_AI = re.compile(r"gpt-(realtime|audio|4o(-mini)?-realtime-preview)[a-z0-9.-]{0,40}")


class Available:
    """Voices and languages of the running services."""

    def __init__(self, catalog: Catalog, voices: Sequence[Voice]) -> None:
        self._catalog = catalog
        self._voices = voices

    def voice(self, name: str) -> str:
        """Ours for any of its names; "": "". Raises RefusedError."""
        return voice_named(name, self._voices) if name else ""

    def language(self, tag: str) -> None:
        """Raises UnknownNameError."""
        self._catalog.check_language(tag)


async def available(gateway: Gateway) -> Available:
    """Raises StageLostError where no voice is there."""
    return Available(gateway.catalog, await gateway.catalog.voices())


def model_of(name: str, gateway: Gateway) -> str:
    """What a session says of its model. Raises RefusedError."""
    if name and not _OPEN_AI.fullmatch(name):
        known_model(name, gateway.plain.models("llm"), (*MODELS, *HEARING))
    return name or MODELS[0]


def config_of(caller: Caller, gateway: Gateway, wanted: object = None) -> SessionConfig:
    """With what a caller's session begins: what his ephemeral key says, then what he says.

    Raises RefusedError.
    """
    granted: object = json.loads(caller.wish) if caller.wish else None
    if isinstance(granted, Mapping) and isinstance(wanted, Mapping):
        wanted = {**granted, **wanted}
    return first_config(granted if wanted is None else wanted, gateway.settings.persona)


def wanted_model(asked: str, caller: Caller, wanted: object = None) -> str:
    """Of the address, else of the session's settings, else of the ephemeral key."""
    granted: object = json.loads(caller.wish) if caller.wish else None
    for content in (wanted, granted):
        named = content.get("model") if isinstance(content, Mapping) else None
        asked = asked or (named if isinstance(named, str) else "")
    return asked[:200]


async def open_session(
    gateway: Gateway, caller: Caller, config: SessionConfig, known: Available, *, pictures: bool
) -> Session:
    """A session of the caller's, which nobody watches yet. Raises NoRoomError and others."""
    language = config.wanted_language or "en"
    known.language(language)
    await gateway.catalog.check_avatar(config.avatar)
    options = Options(
        language=language,
        voice=known.voice(config.wanted_voice),
        avatar=config.avatar,
        speed=config.audio.output.speed,
        drawn_by="server" if pictures else "client",
        endpointing=config.endpointing,
    )
    wish = Wish(options, config.instructions, "", caller.owner)
    async with gateway.within_limits(caller):
        session = await gateway.entrance.enter(wish)
    session.audience.review()  # who takes no pictures needs none drawn
    return session


def dialogue_with(
    session: Session, config: SessionConfig, model: str, known: Available, *, by_channel: bool
) -> Dialogue:
    """The adapter for a session."""
    about: dict[str, Any] = {"id": session.id, "object": "realtime.session", "model": model}
    if config.type == "transcription":
        about["object"] = "realtime.transcription_session"
    language = session.options.language
    return Dialogue(config, about, new_id, known, language=language, by_channel=by_channel)


def new_id(kind: str) -> str:
    return f"{kind}_{secrets.token_hex(10)}"
