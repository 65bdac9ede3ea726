"""What a gateway refuses, and why it cannot be reached."""

from __future__ import annotations

import httpx
import websockets

from visavis.serving.errors import SettingsError, VisavisError
from visavis.serving.way_out import by_proxy, proxy_to, why_not

_SESSION_MOVED, SESSION_ENDED = 1012, 4410
_LARGEST_PORT = 65_535
NOT_REACHED = ("unreachable", "unavailable", "502", "503", "504")
"""What is told where a gateway is away, or cannot do anything without its bus."""
PASSING = (*NOT_REACHED, "stage_lost", "at_capacity")
"""What may be otherwise in a moment."""


class GatewayError(VisavisError):
    """The gateway refused or failed; `code` is its machine-readable reason."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class NoGatewayError(GatewayError):
    """Nobody listens at the address."""

    def __init__(self, url: str) -> None:
        super().__init__("unreachable", f"no gateway answers at {url}{by_proxy(url)}")


def check_address(url: str) -> None:
    """Raises GatewayError unless it is one that a gateway can have."""
    try:
        address = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise GatewayError("bad_address", f"{url}: not an address: {error}") from None
    if address.scheme not in ("http", "https") or not address.host:
        raise GatewayError("bad_address", f"{url}: not an address as http://HOST:PORT is one")
    if address.port is not None and address.port > _LARGEST_PORT:
        raise GatewayError("bad_address", f"{url}: ports end at {_LARGEST_PORT}")


def proxy_named(url: str) -> str | None:
    """The proxy by which a gateway is reached; None: by none. Raises GatewayError."""
    try:
        return proxy_to(url)
    except SettingsError as error:
        raise GatewayError("bad_proxy", str(error)) from None


def check_key(key: str) -> None:
    """Raises GatewayError unless it can be sent."""
    if not (key.isascii() and key.isprintable() and key == key.strip()):
        raise GatewayError(
            "bad_key",
            "the key cannot be sent: it holds a line's end, a blank at an end, or other than ASCII",
        )


def may_pass(error: GatewayError) -> bool:
    """Whether it may be otherwise in a moment."""
    return error.code in PASSING


def goes_on(closed: websockets.ConnectionClosed) -> bool:
    """Whether the session of a socket that was closed goes on in another gateway."""
    return closed.rcvd is not None and closed.rcvd.code == _SESSION_MOVED


def has_ended(closed: websockets.ConnectionClosed) -> bool:
    """Whether the session of a socket that was closed is over: to connect again will not help."""
    return closed.rcvd is not None and closed.rcvd.code == SESSION_ENDED


def lost(closed: websockets.ConnectionClosed) -> GatewayError:
    """What it is to who used the socket that was closed."""
    if has_ended(closed):
        return GatewayError("session_closed", "the session has ended")
    return GatewayError("lost", f"the connection was lost: {closed}")


def refusal(response: httpx.Response) -> GatewayError:
    """What an answer says that is no success."""
    try:
        reason = response.json()["error"]
        return GatewayError(str(reason["code"]), str(reason["message"]))
    except (ValueError, KeyError, TypeError):
        said = response.text[:500] or response.reason_phrase
        return GatewayError(str(response.status_code), f"HTTP {response.status_code}: {said}")


def refused_socket(error: websockets.InvalidStatus) -> GatewayError:
    """Why a WebSocket was not opened."""
    answer = error.response
    return refusal(httpx.Response(answer.status_code, content=bytes(answer.body or b"")))


def unreachable(url: str, error: Exception, *, answered: bool = False) -> GatewayError:
    """Why no answer came. answered: some have before, so the address is right."""
    if not answered and (told := not_as_the_address_says(url, error)):
        return told
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return NoGatewayError(url)
    return GatewayError("unreachable", f"{url}: {why_not(url, error)}")


def not_as_the_address_says(url: str, error: Exception) -> GatewayError | None:
    """What to do where http is taken for https, or a certificate is not known; None: neither."""
    said = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in said:
        return GatewayError(
            "untrusted",
            f"{url}: its certificate cannot be believed ({said.partition('failed: ')[2] or said}). "
            "If the gateway has signed it itself, copy .local/state/visavis/tls/certificate.pem "
            "from its machine and name the copy in SSL_CERT_FILE; the address has to have a name "
            "that stands in it",
        )
    if url.startswith("https:") and "WRONG_VERSION_NUMBER" in said:
        return GatewayError("not_https", f"{url}: no https is spoken there; try http://")
    if url.startswith("http:") and isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
        return GatewayError("not_http", f"{url}: hangs up on http; if it speaks https, say so")
    return None
