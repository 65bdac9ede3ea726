"""Where a broadcast goes: its address, what of it is secret, and what may be told of it. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from visavis.serving.addresses import could_be_a_host
from visavis.serving.errors import InvalidInputError

PushKind: TypeAlias = Literal["rtmp", "whip"]

_PORTS = {"rtmp": 1935, "rtmps": 443, "http": 80, "https": 443}
_KINDS: dict[str, PushKind] = {"rtmp": "rtmp", "rtmps": "rtmp", "http": "whip", "https": "whip"}
_HIDDEN = "…"


@dataclass(frozen=True, slots=True)
class PushAddress:
    """One place to push to. What `repr` leaves out is secret.

    path: of RTMP its application; of WHIP the path with its query. key: RTMP's stream name, WHIP's
    bearer token; "": WHIP wants none.
    """

    scheme: str
    host: str
    port: int
    path: str = field(repr=False)
    key: str = field(repr=False)
    shown: str = ""
    """What may be told to anybody who may see the session."""

    @property
    def kind(self) -> PushKind:
        return _KINDS[self.scheme]

    @property
    def encrypted(self) -> bool:
        return self.scheme in ("rtmps", "https")

    @property
    def netloc(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """Of WHIP, to be asked; secret."""
        return f"{self.scheme}://{self.netloc}{self.path}"

    @property
    def tc_url(self) -> str:
        """Of RTMP's application, as `connect` names it."""
        return f"{self.scheme}://{self.netloc}/{self.path}"


def parse(url: str, key: str = "") -> PushAddress:
    """An address out of what a platform shows: a server and a stream key, or both in one.

    RTMP without `key`: the last part of the path is the key. Raises InvalidInputError, whose
    message has no secret in it.
    """
    if not url.isprintable() or " " in url or not key.isprintable():
        raise InvalidInputError("url: only printable characters, and no spaces")
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError:
        raise InvalidInputError("url: it cannot be read") from None
    if parts.scheme not in _KINDS:
        allowed = ", ".join(f"{scheme}://" for scheme in _KINDS)
        raise InvalidInputError(f"url: it has to begin with one of {allowed}")
    if not host:
        raise InvalidInputError("url: it names no host")
    if not could_be_a_host(host):
        raise InvalidInputError("url: no host can have such a name")
    if parts.username or parts.password or parts.fragment:
        raise InvalidInputError("url: no user, password or fragment; give the key as `key`")
    port = port or _PORTS[parts.scheme]
    where = parts.path + (f"?{parts.query}" if parts.query else "")
    if _KINDS[parts.scheme] == "whip":
        if not key.isascii():
            raise InvalidInputError("key: a bearer token has only ASCII characters")
        found = PushAddress(parts.scheme, host, port, where or "/", key)
    else:
        found = _rtmp(parts.scheme, host, port, where, parts.path, key)
    return PushAddress(
        found.scheme,
        host,
        port,
        found.path,
        found.key,
        f"{parts.scheme}://{found.netloc}/{_HIDDEN}",
    )


def _rtmp(scheme: str, host: str, port: int, where: str, path: str, key: str) -> PushAddress:
    if key:
        return PushAddress(scheme, host, port, where.strip("/"), key)
    application, _, _ = path.rpartition("/")
    name = where[len(application) + 1 :]
    if not application.strip("/") or not name:
        raise InvalidInputError("url: of RTMP, the stream's key has to follow the application")
    return PushAddress(scheme, host, port, application.strip("/"), name)


def allowed(host: str, patterns: Collection[str]) -> bool:
    """Whether a host is named; `*.example.com` stands for all below it, `*` for any."""
    host = host.lower().rstrip(".")
    for pattern in map(str.lower, patterns):
        if pattern in ("*", host):
            return True
        if pattern.startswith("*.") and host.endswith(pattern[1:]):
            return True
    return False
