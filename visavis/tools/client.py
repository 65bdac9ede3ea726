"""A client of the gateway's public API: what `visavis ask`, benchmarks and tests talk through."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Self

import httpx
import numpy as np
import websockets
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection

from visavis.serving.errors import VisavisError
from visavis.serving.trust import client_context

MIC_RATE_HZ = 16_000
_MIC_CHUNK_SAMPLES = 320
_TIMEOUT_S = 60.0
_SESSION_MOVED = 1012
_PLACE_POLL_S = 0.5
_MEDIA_LIMIT_BYTES = 8 * 1024 * 1024
_OF_A_SESSION = re.compile(r"/v1/sessions/([^/?]+)")


class GatewayError(VisavisError):
    """The gateway refused or failed; `code` is its machine-readable reason."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def goes_on(closed: websockets.ConnectionClosed) -> bool:
    """Whether the session of a socket that was closed goes on in another gateway."""
    return closed.rcvd is not None and closed.rcvd.code == _SESSION_MOVED


@dataclass(frozen=True, slots=True)
class _Token:
    """What opens one session. renew_at_s: on the event loop's clock."""

    token: str
    renew_at_s: float


class GatewayClient:
    """The public API of one gateway; an async context manager.

    Of https, certificates are believed that the system trusts or SSL_CERT_FILE names, and the one
    that a gateway of this user on this machine signed itself.

    A session that `session` makes is used with the token that comes with it, all else with the key.
    """

    def __init__(self, url: str, api_key: str = "") -> None:
        self.url = url.rstrip("/")
        self.api_key = api_key
        self.authorization = _bearer(api_key)
        """The header that carries the key."""
        # Read where they are wanted alone: that takes 40 ms.
        self.tls = client_context() if self.url.startswith("https:") else None
        """By which a gateway with https is known."""
        self._http = httpx.AsyncClient(
            base_url=self.url, timeout=_TIMEOUT_S, trust_env=False, verify=self.tls or False
        )
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
            return (await self._http.get("/healthz")).is_success
        except httpx.HTTPError as error:
            if refusal := _not_as_the_address_says(self.url, error):
                raise refusal from error
            return False

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
            raise _unreachable(self.url, error) from error
        if response.is_success:
            return response
        raise _refusal(response)

    async def lines(self, method: str, path: str, **arguments: Any) -> AsyncIterator[str]:
        """Lines of an answer as they come, however long that takes. Raises GatewayError."""
        try:
            stream = self._http.stream(
                method, path, timeout=None, headers=self._authorization(path), **arguments
            )
            async with stream as response:
                if not response.is_success:
                    await response.aread()
                    raise _refusal(response)
                async for line in response.aiter_lines():
                    yield line
        except httpx.HTTPError as error:
            raise _unreachable(self.url, error) from error

    @contextlib.asynccontextmanager
    async def session(
        self, *, on_place: Callable[[dict[str, Any]], None] | None = None, **options: Any
    ) -> AsyncIterator[GatewaySession]:
        """A session with `language`, `voice`, `avatar` …; deleted when the context ends.

        on_place: wait in line where there is no room; told how the place stands. Without it there
        is no waiting: GatewayError.
        """
        wanted = {key: value for key, value in options.items() if value}
        if on_place is not None:
            wanted["queue"] = True
        created = (await self.call("POST", "/v1/sessions", json=wanted)).json()
        self._keep_token(created["id"], created)
        try:
            if on_place is not None and "position" in created:
                await self._wait_in_line(created, on_place)
            events = await self.connect(f"/v1/sessions/{created['id']}/events")
            async with contextlib.aclosing(GatewaySession(self, created["id"], events)) as session:
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
        if known is not None and asyncio.get_running_loop().time() >= known.renew_at_s:
            path = f"/v1/sessions/{session}/token"
            # By the key: it made the session, and holds where the token has expired meanwhile.
            told = await self._request("POST", path, self.authorization)
            self._keep_token(session, told.json())

    def _keep_token(self, session: str, told: dict[str, Any]) -> None:
        half_s = told["token_expires_in_s"] / 2
        renew_at_s = asyncio.get_running_loop().time() + half_s
        self._tokens[session] = _Token(told["token"], renew_at_s)

    def _authorization(self, path: str) -> dict[str, str]:
        known = self._tokens.get(_session_in(path))
        return self.authorization if known is None else _bearer(known.token)

    async def _wait_in_line(
        self, place: dict[str, Any], on_place: Callable[[dict[str, Any]], None]
    ) -> None:
        while place["state"] == "waiting":
            on_place(place)
            await asyncio.sleep(_PLACE_POLL_S)
            place = (await self.call("GET", f"/v1/sessions/{place['id']}/place")).json()
        on_place(place)
        if place["state"] != "admitted":
            raise GatewayError(place["state"], place["message"] or "the place was given up")

    def connect(self, path: str) -> websockets.connect:
        """A WebSocket of the gateway, to be entered."""
        return websockets.connect(
            "ws" + self.url.removeprefix("http") + path,
            additional_headers=self._authorization(path),
            max_size=_MEDIA_LIMIT_BYTES,
            ssl=self.tls,
            proxy=None,
        )


class GatewaySession:
    """One conversation through the public API. Made by `GatewayClient.session`."""

    def __init__(self, client: GatewayClient, session: str, events: ClientConnection) -> None:
        self.id = session
        self._client = client
        self._events = events

    async def say(self, text: str) -> int:
        """Type `text`; the number of the turn that answers it."""
        answer = await self._client.call("POST", f"{self._path}/text", json={"text": text})
        return int(answer.json()["turn"])

    async def interrupt(self) -> None:
        """Have the answer stop, as the page's button does."""
        await self._client.call("POST", f"{self._path}/interrupt")

    async def tool_result(self, call_id: str, output: str) -> None:
        """What a call of an `answer.tool_call` event came to."""
        command = {"type": "tool_result", "call_id": call_id, "output": output}
        await self._events.send(json.dumps(command))

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """What happens, as the gateway's events module describes it, until the socket closes.

        A session that goes to another gateway is followed there.
        """
        while True:
            try:
                async for message in self._events:
                    yield json.loads(message)
                return
            except websockets.ConnectionClosed as closed:
                if not goes_on(closed):
                    raise
            await self._client.renew_token(self._path)
            self._events = await self._client.connect(f"{self._path}/events")

    async def aclose(self) -> None:
        """Listen no more."""
        await self._events.close()

    async def speak(self, pcm: NDArray[np.int16], stop: asyncio.Event) -> None:
        """Be the microphone: `pcm` [N] int16 at 16 kHz in real time, then silence until `stop`.

        Real silence follows a recording, because a microphone is never off.
        """
        loop = asyncio.get_running_loop()
        silence = np.zeros(_MIC_CHUNK_SAMPLES, np.int16)
        await self._client.renew_token(self._path)
        async with self._client.connect(f"{self._path}/media?role=speaker") as media:
            drain = asyncio.create_task(_discard(media))
            try:
                started, sent = loop.time(), 0
                while not stop.is_set():
                    chunk = pcm[sent : sent + _MIC_CHUNK_SAMPLES]
                    await media.send((chunk if len(chunk) else silence).tobytes())
                    sent += _MIC_CHUNK_SAMPLES
                    # A deadline from the start: sleeping by intervals would drift.
                    await asyncio.sleep(started + sent / MIC_RATE_HZ - loop.time())
            finally:
                drain.cancel()
                await asyncio.gather(drain, return_exceptions=True)

    async def record_turn(self) -> None:
        """Record the next turn, from its first picture to its last."""
        await self._client.call("POST", f"{self._path}/recording", json={"scope": "turn"})

    async def recording(self) -> bytes:
        """The finished recording, mp4."""
        return (await self._client.call("GET", f"{self._path}/recording.mp4")).content

    @property
    def _path(self) -> str:
        return f"/v1/sessions/{self.id}"


def _unreachable(url: str, error: httpx.HTTPError) -> GatewayError:
    return _not_as_the_address_says(url, error) or GatewayError("unreachable", f"{url}: {error}")


def _not_as_the_address_says(url: str, error: httpx.HTTPError) -> GatewayError | None:
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


def _bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"} if secret else {}


def _session_in(path: str) -> str:
    found = _OF_A_SESSION.match(path)
    return found[1] if found else ""


def _refusal(response: httpx.Response) -> GatewayError:
    try:
        reason = response.json()["error"]
        return GatewayError(str(reason["code"]), str(reason["message"]))
    except (ValueError, KeyError, TypeError):
        return GatewayError(str(response.status_code), response.text[:500])


async def _discard(media: ClientConnection) -> None:
    """Read the pictures away: a client that does not read would be taken for a slow one."""
    async for _ in media:
        pass
