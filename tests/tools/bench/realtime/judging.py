"""What visitors of many sessions at once have heard, judged: orders, crossings, waiting. Pure."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

from tests.realtime_orders import Orders

_CLEARLY = 0.15
"""So much better a voice has to fit to another's transcript than to its own to be another's."""


@dataclass
class Session:
    """One visitor's, from what he heard. word: his own, in all that he typed."""

    word: str
    fault: str
    order_error: str = ""
    ids: set[str] = field(default_factory=set)
    typed: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    voices: list[bytes] = field(default_factory=list)
    """16-bit samples at 24 kHz, one for each answer."""
    waits_s: list[float] = field(default_factory=list)
    """From asking to the first sound."""


def session_of(told: Mapping[str, Any]) -> Session:
    """As `visitors` tells it."""
    session = Session(told["word"], told["fault"], _broken_order(told))
    voices: dict[str, bytes] = {}
    for at_s, event in told["heard"]:
        session.ids |= _ids(event)
        match event["type"]:
            case "conversation.item.added":
                content = event["item"].get("content", ())
                session.typed += [part["text"] for part in content if "text" in part]
            case "response.output_audio.delta":
                name = event["response_id"]
                if name not in voices:
                    session.waits_s.append(at_s - told["asked_s"][len(voices)])
                voices[name] = voices.get(name, b"") + base64.b64decode(event["delta"])
            case "response.done":
                items = event["response"]["output"]
                parts = (part for item in items for part in item.get("content", ()))
                session.answers.append(" ".join(str(p.get("transcript") or "") for p in parts))
    session.voices = list(voices.values())
    return session


def _broken_order(told: Mapping[str, Any]) -> str:
    """What came out of turn first; "": nothing."""
    orders = Orders()
    try:
        orders.feed_all(event for _, event in told["heard"])
        assert told["fault"] or orders.quiet, "something was begun and never ended"
    except (AssertionError, KeyError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _ids(event: Mapping[str, Any]) -> set[str]:
    """All that an event names."""
    named = (event.get(name) for name in ("response_id", "item_id", "call_id"))
    inside = (event[name].get("id") for name in ("session", "item", "response") if name in event)
    return {str(name) for name in (*named, *inside) if name}


def crossed_words(sessions: Sequence[Session]) -> list[str]:
    """Words of one visitor in what another has typed or was answered."""
    crossed = []
    for session in sessions:
        said = {w for text in (*session.typed, *session.answers) for w in _words(text)}
        others = {other.word for other in sessions} - {session.word}
        crossed += [f"{session.word}: {word}" for word in sorted(others & said)]
    return crossed


def crossed_ids(sessions: Sequence[Session]) -> list[str]:
    """Ids that two connections were told."""
    seen: dict[str, str] = {}
    crossed = []
    for session in sessions:
        crossed += [f"{session.word}: {name}" for name in session.ids if name in seen]
        seen |= dict.fromkeys(session.ids, session.word)
    return crossed


def crossed_voices(sessions: Sequence[Session], heard: Mapping[str, Sequence[str]]) -> list[str]:
    """Voices that say another's transcript. heard: by word, what is understood of each voice."""
    crossed = []
    for session in sessions:
        for text, answer in zip(heard.get(session.word, ()), session.answers, strict=False):
            own = _likeness(text, answer)
            for other in sessions:
                if other is session:
                    continue
                best = max((_likeness(text, said) for said in other.answers), default=0.0)
                if best > own + _CLEARLY:
                    crossed.append(f"{session.word}: {text!r} is {other.word}'s")
    return crossed


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]+", text.lower())


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, _words(one), _words(other)).ratio()
