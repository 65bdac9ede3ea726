"""The five roles, and which doors each of them opens. Pure: a method and a path are all it sees.

What is not named here is an operator's alone, so that a new route is closed until it is thought of.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

SOCKET = "WEBSOCKET"
"""Stands where a request has a method."""

_SESSIONS = "/v1/sessions"
_SESSION = re.compile(r"/v1/(?:sessions|realtime/calls)/([^/]+)(/.*)?", re.DOTALL)
_CATALOGUE = re.compile(
    r"/v1/(voices|avatars|avatars/[^/]+/(portrait\.jpg|head\.(glb|json)|background\.png))"
)
_WITHOUT_A_SESSION = re.compile(
    r"/v1/(models(/.+)?|chat/completions|audio/(speech|transcriptions|voices)"
    r"|realtime(/client_secrets|/calls|/sessions|/transcription_sessions)?)",
    re.DOTALL,
)
_BEGINNING = re.compile(r"/v1/realtime(/calls(/[^/]+/hangup)?)?")
"""What an ephemeral key is for."""
# Comments of many, and what an operator does about them.
_ROOM = re.compile(r"/room(/.*)?", re.DOTALL)
_VIEWERS_OWN = re.compile(r"/(token|(webrtc|whep)(/[^/]+)?)")
# What the gateway then does it does to other hosts, in its own name.
_PUBLISHING = re.compile(r"/broadcasts(/[^/]+)?")
_SENDING = re.compile(r"/face-outputs/[^/]+")
_READING = ("GET", "HEAD")


class Role(StrEnum):
    """What a caller is to this gateway."""

    OPERATOR = "operator"
    """Everything: all sessions, avatars, the cache, services, metrics."""
    APP = "app"
    """Makes sessions and uses those that it has made; asks services as OpenAI's clients do."""
    GUEST = "guest"
    """Begins sessions of the app that has lent him an ephemeral key, by OpenAI's Realtime API."""
    VISITOR = "visitor"
    """Talks in one session."""
    VIEWER = "viewer"
    """Looks on at one session."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one app may have, in all gateways together. 0: as much as there is."""

    max_sessions: int = 0
    sessions_per_minute: int = 0


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a request. name: of an app, also a guest's; session: that of a visitor or a viewer.

    wish: how a guest's sessions begin, as JSON. lent: tells his key from others that were lent.
    """

    role: Role
    name: str = ""
    session: str = ""
    limits: Limits = Limits()
    wish: str = ""
    lent: str = field(default="", repr=False)

    @property
    def owner(self) -> str:
        """Whose the sessions are that he makes; "": the operator's."""
        return self.name if self.role in (Role.APP, Role.GUEST) else ""


OPERATOR = Caller(Role.OPERATOR)


def session_in(path: str) -> str:
    """The session, or place in line, that a path belongs to; "": none."""
    found = _SESSION.fullmatch(path)
    return found[1] if found else ""


def why_not(caller: Caller, method: str, path: str) -> str:
    """Why a caller may not do this; "": he may.

    Whether a session is an app's own is known where the session is, and is asked there.
    """
    role, found = caller.role, _SESSION.fullmatch(path)
    if role is Role.OPERATOR or (method in _READING and _CATALOGUE.fullmatch(path)):
        return ""
    if role is Role.APP:
        sessions = path == _SESSIONS and method in (*_READING, "POST")
        may = found or sessions or _WITHOUT_A_SESSION.fullmatch(path)
        return "" if may else "this is for operators; an app's key opens sessions"
    if role is Role.GUEST:
        return "" if _BEGINNING.fullmatch(path) else "an ephemeral key begins Realtime sessions"
    if found is None:
        return "a session's token opens that session alone"
    if found[1] != caller.session:
        return "this token is of another session"
    if _SENDING.fullmatch(found[2] or ""):
        return "face outputs are an app's or an operator's"
    if _ROOM.fullmatch(found[2] or ""):
        return "a session's token opens no live room; an app's key does, or an operator's"
    if method not in _READING and _PUBLISHING.fullmatch(found[2] or ""):
        return "broadcasts are an app's or an operator's"
    looks_on = method in (*_READING, SOCKET) or _VIEWERS_OWN.fullmatch(found[2] or "")
    if role is Role.VIEWER and not looks_on:
        return "a viewer looks on; this is for the visitor"
    return ""
