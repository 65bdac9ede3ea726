"""How servers of others are reached, by the proxy that the environment names, and how much of what
they say is read.

The processes of a stack reach each other past that proxy.
"""

from __future__ import annotations

import ipaddress
import json
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypedDict
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from visavis.serving.addresses import is_every_address, is_loopback
from visavis.serving.errors import SettingsError
from visavis.serving.trust import client_context

PAST_PROXIES = ("grpc.enable_http_proxy", 0)
"""Of a channel's options. Left to itself gRPC asks the proxy of `http_proxy` for every address,
even one on this machine.
"""
LARGEST_ANSWER_BYTES = 8_000_000
"""Of a server of others, where the answer is read whole."""
TOO_LONG = f"the answer is longer than {LARGEST_ANSWER_BYTES / 1e6:g} MB"
UNPACKED = {"Accept-Encoding": "identity"}
"""Header of a request: of what comes packed, some hundred bytes could be gigabytes."""
_PROXY = re.compile(r"https?://(.*@)?([^\s@/\[\]:]+|\[[^\s@/\[\]]+\])(:\d{1,5})?/?")
_VARIABLES = {"https": "https", "wss": "https", "http": "http", "ws": "http"}
"""By the scheme of an address, the variable that names its proxy."""


class Way(TypedDict):
    """What httpx is told to go by it."""

    proxy: str | None
    verify: ssl.SSLContext | bool
    trust_env: bool


def way_to(url: str) -> Way:
    """How a client of `url`, and of no other host, goes there. Raises SettingsError."""
    secure = url.startswith("https:")
    return Way(proxy=proxy_to(url), verify=client_context() if secure else False, trust_env=False)


class SocketWay(TypedDict):
    """What websockets is told to go by it."""

    proxy: str | None
    ssl: ssl.SSLContext | None


def socket_way_to(url: str) -> SocketWay:
    """The same for a WebSocket. Raises SettingsError."""
    return SocketWay(proxy=proxy_to(url), ssl=client_context() if url.startswith("wss:") else None)


class Told(Protocol):
    """An answer whose body is still to come, of httpx."""

    @property
    def headers(self) -> Mapping[str, str]: ...

    def aiter_raw(self) -> AsyncIterator[bytes]: ...


async def whole(answer: Told) -> bytes:
    """What a server says to a request that wants it `UNPACKED`.

    Raises ValueError where it is longer than LARGEST_ANSWER_BYTES, or packed all the same.
    """
    check_unpacked(answer)
    said = await beginning_of(answer, LARGEST_ANSWER_BYTES)
    if len(said) > LARGEST_ANSWER_BYTES:
        raise ValueError(TOO_LONG)
    return said


def json_in(said: bytes | str) -> Any:
    """Raises ValueError, also where it is nested too deeply."""
    try:
        return json.loads(said)
    except RecursionError as error:
        raise ValueError("JSON that is nested too deeply") from error


def check_unpacked(answer: Told) -> None:
    """Raises ValueError."""
    packed = answer.headers.get("content-encoding", "identity")
    if packed != "identity":
        raise ValueError(f"the answer is packed ({packed[:20]}), though that was not asked for")


async def beginning_of(answer: Told, most_bytes: int) -> bytes:
    """What a server says, as it comes, read no further than to where it is longer than that."""
    said = bytearray()
    async for piece in answer.aiter_raw():
        said += piece
        if len(said) > most_bytes:
            break
    return bytes(said)


def proxy_to(url: str) -> str | None:
    """The proxy by which `url` is reached, with its login; None: by none.

    As HTTPS_PROXY, HTTP_PROXY and ALL_PROXY have it, on macOS else the system's settings; but this
    machine is never reached by one, and NO_PROXY may name networks (10.0.0.0/8), too.
    Raises SettingsError for a proxy that is none of HTTP.
    """
    try:
        where = urlsplit(url)
        host, port = where.hostname, where.port
    except ValueError:
        return None  # whoever connects says what is wrong with it
    if not host or is_loopback(host) or is_every_address(host) or _is_past(host, port):
        return None
    named = getproxies()
    proxy = named.get(_VARIABLES.get(where.scheme, "")) or named.get("all")
    if not proxy:
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    if not _PROXY.fullmatch(proxy):
        raise SettingsError(
            f"{host} cannot be reached by the proxy {_without_login(proxy)} that the environment "
            "names: http://HOST:PORT is wanted in HTTPS_PROXY, HTTP_PROXY or ALL_PROXY, or "
            f"{host} in NO_PROXY"
        )
    return proxy


def by_proxy(url: str) -> str:
    """ " by the proxy …", as it stands after the reason why `url` is not reached; or nothing."""
    with suppress(SettingsError):
        if proxy := proxy_to(url):
            return f" by the proxy {_without_login(proxy)} (NO_PROXY goes past it)"
    return ""


def why_not(url: str, error: BaseException) -> str:
    """Why `url` was not reached, as httpx or websockets have it."""
    return in_words(error) + by_proxy(url)


def in_words(error: BaseException) -> str:
    """What has failed, and for a certificate what to do."""
    said = str(error) or type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" not in said:
        return said
    reason = said.partition("failed: ")[2].partition(" (_ssl")[0] or said
    return f"its certificate is not believed ({reason}): SSL_CERT_FILE names a CA of one's own"


def _is_past(host: str, port: int | None) -> bool:
    if proxy_bypass(host) or (port is not None and proxy_bypass(f"{host}:{port}")):
        return True
    with suppress(ValueError):
        address = ipaddress.ip_address(host.partition("%")[0])
        return any(address in network for network in _networks(getproxies().get("no", "")))
    return False


def _networks(no_proxy: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    found = []
    for one in no_proxy.split(","):
        with suppress(ValueError):
            found.append(ipaddress.ip_network(one.strip(" []"), strict=False))
    return found


def _without_login(proxy: str) -> str:
    scheme, _, rest = proxy.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
