"""STUN and TURN servers: how a browser and the gateway find each other through NATs."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from visavis.serving.addresses import could_be_a_host

ICE_USER = re.compile(r"^a=ice-ufrag:(\S+)", re.M)
"""In a description, or a fragment of one: whose the candidates are."""

# RFC 7064 and 7065: a host, or an IPv6 address; only TURN is told by what it goes.
_URL = re.compile(
    r"(?:stuns?|(?P<turn>turns?)):(?P<host>[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?"
    r"(?(turn)(?:\?transport=(?:udp|tcp))?)"
)


class IceServer(BaseModel):
    """A STUN or TURN server, as browsers are told of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    urls: list[str] = Field(description="As in turn:turn.example:3478?transport=udp")
    username: str = ""
    credential: str = Field(default="", repr=False)


NamedServer: TypeAlias = str | IceServer
"""A URL alone, or one with a name and password."""


def is_ice_url(url: str) -> bool:
    """Whether browsers and aiortc can read it; who cannot makes no connection at all."""
    found = _URL.fullmatch(url)
    if found is None or int(found["port"] or 0) > 65_535:
        return False
    return found["host"].startswith("[") or could_be_a_host(found["host"])


@dataclass(frozen=True)
class IceServers:
    """Those that the settings name. secret: what a TURN server makes passwords of, and so do we.

    Such a password is good for `life_s` and tells nobody the secret (draft-uberti-behave-turn-rest,
    what coturn calls `use-auth-secret`).
    """

    servers: Sequence[NamedServer]
    secret: str
    life_s: float

    def of(self, session: str, now_s: float) -> list[IceServer]:
        """For one session. now_s: seconds since the epoch."""
        told = []
        for server in self.servers:
            known = IceServer(urls=[server]) if isinstance(server, str) else server
            wants_password = any(url.startswith(("turn:", "turns:")) for url in known.urls)
            if self.secret and wants_password and not known.username:
                known = self._with_password(known, f"{int(now_s + self.life_s)}:{session}")
            told.append(known)
        return told

    def _with_password(self, server: IceServer, username: str) -> IceServer:
        digest = hmac.digest(self.secret.encode(), username.encode(), hashlib.sha1)
        password = base64.b64encode(digest).decode("ascii")
        return server.model_copy(update={"username": username, "credential": password})
