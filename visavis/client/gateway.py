"""One gateway for asyncio: requests with a key or a session's token, and sessions."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import httpx
import websockets

from visavis.client.errors import (
    GatewayError,
    check_address,
    check_key,
    not_as_the_address_says,
    proxy_named,
    refusal,
    unreachable,
)
from visavis.client.session import GatewaySession, connected
from visavis.serving.trust import client_context
from visavis.wire.clock import through_sleep_s

T = TypeVar("T")

_TIMEOUT_S = 60.0
_PLACE_POLL_S = 0.5
# A place that its gateway does not know, or whose token it does not, went with another gateway.
_PLACE_GONE = ("not_found", "unauthenticated", "forbidden")
_AWAY = ("unreachable", "unavailable", "stage_lost")
"""What is told while a gateway is exchanged for another one."""
# The gateway answers at once; where what it has sent was not read, its answer stands behind that.
_CLOSE_TIMEOUT_S = 0.5
# A gateway that has vanished with its machine says nothing, and another one goes on in seconds.
_PING_EVERY_S = 5.0
_MEDIA_LIMIT_BYTES = 8 * 1024 * 1024
_API = "/v1/"
# 503: of one whose bus is away for a moment.
_A_GATEWAYS = (200, 503)
_OF_A_SESSION = re.compile(r"/v1/sessions/([^/?]+)")


@dataclass(frozen=True, slots=True)
class _Token:
    """What opens one session. renew_at_s: by `through_sleep_s`, as it runs out in a sleep, too."""

    token: str
    renew_at_s: float


class GatewayClient:
    """The public API of one gateway; an async context manager.

    Of https, certificates are believed that the system trusts or SSL_CERT_FILE names, and the one
    that a gateway of this user on this machine signed itself.

    Where the environment names a proxy (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY), it is used, unless
    NO_PROXY has the gateway's host or that is this machine.

    A session that `session` makes is used with the token that comes with it, all else with the key.
    """

    def __init__(self, url: str, api_key: str = "", *, reconnect_s: float = 30.0) -> None:
        """reconnect_s: so long a session's lost connection is tried again; 0: not at all.

        Raises GatewayError for an address that cannot be asked, a key that cannot be sent, or a
        proxy that cannot be used.
        """
        check_address(url)
        check_key(api_key)
        self.url = url.rstrip("/")
        self.api_key = api_key
        self.reconnect_s = reconnect_s
        self.authorization = _bearer(api_key)
        """The header that carries the key."""
        # Read where they are wanted alone: that takes 40 ms.
        self.tls = client_context() if self.url.startswith("https:") else None
        """By which a gateway with https is known."""
        self._proxy = proxy_named(self.url)
        self._http = httpx.AsyncClient(
            base_url=self.url,
            timeout=_TIMEOUT_S,
            proxy=self._proxy,
            trust_env=False,
            verify=self.tls or False,
        )
        self._answered = False
        """Whether the gateway has answered at all: then the address is as it should be."""
        self._tokens: dict[str, _Token] = {}
        """By session."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._http.aclose()

    async def answers(self) -> bool:
        """Whether a gateway answers at the address.

        Raises GatewayError where something does that cannot be talked to as the address says.
        """
        try:
            response = await self._http.get("/healthz")
        except httpx.HTTPError as error:
            told = None if self._answered else not_as_the_address_says(self.url, error)
            if told is not None:
                raise told from error
            return False
        self._answered = True
        return response.status_code in _A_GATEWAYS and not _is_page(response)

    async def missing(self) -> dict[str, str]:
        """What a turn would need and the gateway misses, "bus" or a service, and why.

        Raises GatewayError where it does not answer.
        """
        try:
            told = (await self._http.get("/readyz")).json()
        except httpx.HTTPError as error:
            raise unreachable(self.url, error, answered=self._answered) from error
        except ValueError:  # somebody answers in its place
            return {}
        return dict(told.get("missing") or {}) if isinstance(told, dict) else {}

    async def call(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        """One request. Raises GatewayError with the gateway's own words."""
        await self.renew_token(path)
        return await self._request(method, path, self._authorization(path), **arguments)

    async def _request(
        self, method: str, path: str, authorization: dict[str, str], **arguments: Any
    ) -> httpx.Response:
        headers = authorization | arguments.pop("headers", {})
        try:
            response = await self._http.request(method, path, headers=headers, **arguments)
        except httpx.HTTPError as error:
            raise unreachable(self.url, error, answered=self._answered) from error
        except UnicodeEncodeError:
            raise GatewayError("bad_text", "what is sent holds a character that is none") from None
        self._answered = True
        if not response.is_success:
            raise refusal(response)
        if _is_page(response) and path.startswith(_API):
            raise GatewayError("not_a_gateway", f"{self.url}: a website answers, and no gateway")
        return response

    async def lines(self, method: str, path: str, **arguments: Any) -> AsyncIterator[str]:
        """Lines of an answer as they come, however long that takes. Raises GatewayError."""
        try:
            stream = self._http.stream(
                method, path, timeout=None, headers=self._authorization(path), **arguments
            )
            async with stream as response:
                self._answered = True
                if not response.is_success:
                    await response.aread()
                    raise refusal(response)
                async for line in response.aiter_lines():
                    yield line
        except httpx.HTTPError as error:
            raise unreachable(self.url, error, answered=self._answered) from error

    @contextlib.asynccontextmanager
    async def session(
        self, *, on_place: Callable[[dict[str, Any]], None] | None = None, **options: Any
    ) -> AsyncIterator[GatewaySession]:
        """A session with `language`, `voice`, `avatar` …; deleted when the context ends. None:
        the gateway's own.

        on_place: wait in line where there is no room; told how the place stands. One that goes with
        its gateway is asked for anew. Without it there is no waiting: GatewayError.
        """
        # Empty is as good as absent, but for a persona: the language model then speaks as its own.
        wanted = {k: value for k, value in options.items() if value or k == "persona"}
        if on_place is not None:
            wanted["queue"] = True
        created = await self._make(wanted)
        try:
            while on_place is not None and "position" in created:
                if await self._is_let_in(created, on_place):
                    break
                self._tokens.pop(created["id"], None)
                # Who has waited already is not sent away because the next one is about to begin.
                created = await self._patiently(lambda: self._make(wanted), "at_capacity")
            events = await connected(self, f"/v1/sessions/{created['id']}/events")
            async with contextlib.aclosing(GatewaySession(self, created["id"], events)) as session:
                session.follow()
                yield session
        finally:
            with contextlib.suppress(GatewayError):  # it may have expired
                await self.call("DELETE", f"/v1/sessions/{created['id']}")
            self._tokens.pop(created["id"], None)

    async def renew_token(self, path: str) -> None:
        """Have a token of the session that `path` is of renewed, where half of its life is over.

        Raises GatewayError.
        """
        session = _session_in(path)
        known = self._tokens.get(session)
        if known is not None and through_sleep_s() >= known.renew_at_s:
            path = f"/v1/sessions/{session}/token"
            # By the key: it made the session, and holds where the token has expired meanwhile.
            told = await self._request("POST", path, self.authorization)
            self._keep_token(session, told.json())

    def _keep_token(self, session: str, told: dict[str, Any]) -> None:
        half_s = told["token_expires_in_s"] / 2
        renew_at_s = through_sleep_s() + half_s
        self._tokens[session] = _Token(told["token"], renew_at_s)

    def _authorization(self, path: str) -> dict[str, str]:
        known = self._tokens.get(_session_in(path))
        return self.authorization if known is None else _bearer(known.token)

    async def _make(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """A session, or a place in line for one."""
        created: dict[str, Any] = (await self.call("POST", "/v1/sessions", json=wanted)).json()
        self._keep_token(created["id"], created)
        return created

    async def _is_let_in(
        self, place: dict[str, Any], on_place: Callable[[dict[str, Any]], None]
    ) -> bool:
        """False: the place went with its gateway. Raises GatewayError where it was refused."""
        path = f"/v1/sessions/{place['id']}"
        while place["state"] == "waiting":
            on_place(place)
            await asyncio.sleep(_PLACE_POLL_S)
            try:
                place = (await self._patiently(lambda: self.call("GET", f"{path}/place"))).json()
            except GatewayError as error:
                if error.code not in _PLACE_GONE:
                    raise
                return await self._is_there(path)
        if place.get("again"):
            return False
        on_place(place)
        if place["state"] != "admitted":
            raise GatewayError(place["state"], place["message"] or "the place was given up")
        return True

    async def _is_there(self, path: str) -> bool:
        """Whether a session is, which may have gone on in another gateway by now."""
        try:
            await self._patiently(lambda: self.call("GET", path))
        except GatewayError as error:
            if error.code not in _PLACE_GONE:
                raise
            return False
        return True

    async def _patiently(self, ask: Callable[[], Awaitable[T]], *also: str) -> T:
        """What is asked, again for a while where the gateway is away. also: codes like that."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self.reconnect_s
        while True:
            try:
                return await ask()
            except GatewayError as error:
                if error.code not in (*_AWAY, *also) or loop.time() >= until_s:
                    raise
            await asyncio.sleep(_PLACE_POLL_S)

    def connect(self, path: str) -> websockets.connect:
        """A WebSocket of the gateway, to be entered."""
        return websockets.connect(
            "ws" + self.url.removeprefix("http") + path,
            additional_headers=self._authorization(path),
            max_size=_MEDIA_LIMIT_BYTES,
            close_timeout=_CLOSE_TIMEOUT_S,
            ping_interval=_PING_EVERY_S,
            ping_timeout=_PING_EVERY_S,
            ssl=self.tls,
            proxy=self._proxy,
        )


def _is_page(response: httpx.Response) -> bool:
    """Whether it is what a website answers, whatever it is asked for."""
    return bool(response.headers.get("content-type", "").startswith("text/html"))


def _bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"} if secret else {}


def _session_in(path: str) -> str:
    found = _OF_A_SESSION.match(path)
    return found[1] if found else ""
