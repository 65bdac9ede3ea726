"""JWTs that somebody else has made (RFC 7519): HS256 by a secret, RS256 by a set of keys.

Claims: `sub`, whose sessions they are; `exp`; `aud`; `iss` where one is asked for; `visavis_role`,
`operator` or `app`. Which algorithm is right is decided by which key we have, never by the token.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import jwt

from gateway.access.callers import Caller, Role
from gateway.access.keys import JwtSection
from visavis.serving.errors import SettingsError, VisavisError
from visavis.serving.settings import secret_in
from visavis.serving.way_out import UNPACKED, json_in, way_to, whole, why_not

log = logging.getLogger(__name__)

LEEWAY_S = 30
"""So much clocks of two machines may differ."""
KEYS_HOLD_S = 3600.0
"""After so long keys are asked for again: one that was withdrawn opens nothing any more."""
ASK_AGAIN_S = 30.0
"""So long nobody is asked again, however many tokens name a key that is not known."""
_FETCH_S = 5.0
_SHORTEST_SECRET = 32
_LONGEST_SUBJECT = 256


class BadBearerError(VisavisError):
    """A JWT that is not taken; says why."""


class Bearers:
    """Reads the JWTs of those who are trusted."""

    def __init__(
        self, section: JwtSection, folder: Path, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        """folder: where relative paths begin. Raises SettingsError."""
        self._section = section
        self._now_s = now_s
        self._secret = ""
        if section.secret_file is not None:
            self._secret = secret_in(folder / section.secret_file, "jwt.secret_file")
            if len(self._secret) < _SHORTEST_SECRET:
                raise SettingsError(
                    f"jwt.secret_file: {_SHORTEST_SECRET} characters or more are wanted"
                )
        self._remote = section.jwks.startswith(("https://", "http://"))
        self._file = folder / section.jwks
        self._keys: dict[str, jwt.PyJWK] = {}
        self._asked_s = self._told_s = float("-inf")
        self._asking = asyncio.Lock()
        if self._remote and not _is_address(section.jwks):
            raise SettingsError("jwt.jwks: it is no address such as https://HOST/jwks.json")
        if section.jwks and not self._remote:
            try:
                self._take(self._file.read_bytes())
            except (OSError, ValueError, jwt.PyJWTError) as error:
                raise SettingsError(f"jwt.jwks: {self._file} holds no keys: {error}") from None

    async def read(self, token: str) -> Caller:
        """Whose token it is. Raises BadBearerError."""
        try:
            header = jwt.get_unverified_header(token)
            if self._secret and header.get("alg") == "HS256":
                return self._caller(self._claims(token, self._secret, "HS256"))
            if self._section.jwks and header.get("alg") == "RS256":
                key = await self._key(str(header.get("kid", "")))
                return self._caller(self._claims(token, key, "RS256"))
        except jwt.PyJWTError as error:
            raise BadBearerError(f"the JWT is not taken: {error}") from None
        raise BadBearerError("the JWT is not taken: its algorithm is not one that is used here")

    def _claims(self, token: str, key: str | jwt.PyJWK, algorithm: str) -> dict[str, Any]:
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=[algorithm],
            audience=self._section.audience,
            issuer=self._section.issuer or None,
            leeway=LEEWAY_S,
            options={"require": ["exp", "aud", "sub"]},
        )
        return claims

    def _caller(self, claims: dict[str, Any]) -> Caller:
        subject, role = claims["sub"], claims.get("visavis_role")
        if not 0 < len(subject) <= _LONGEST_SUBJECT:
            raise BadBearerError(f"the JWT's sub has to be of 1 to {_LONGEST_SUBJECT} characters")
        if role not in (Role.OPERATOR, Role.APP):
            raise BadBearerError("the JWT's claim visavis_role has to be operator or app")
        limits = self._section.subjects.get(subject, self._section).limits
        return Caller(Role(role), f"jwt:{subject}", limits=limits)

    # ------------------------------------------------------------ keys of RS256

    async def _key(self, name: str) -> jwt.PyJWK:
        """Raises BadBearerError."""
        # Who shows a key that is known does not wait for one that asks after others.
        if self._known(name) is None or (self._old and not self._asking.locked()):
            async with self._asking:
                may_ask = self._now_s() - self._asked_s >= ASK_AGAIN_S
                if may_ask and (self._old or self._known(name) is None):
                    self._asked_s = self._now_s()
                    await self._ask()
        key = self._known(name)
        if key is None:
            raise BadBearerError(f"the JWT is not taken: its key {name[:64]!r} is not known")
        return key

    @property
    def _old(self) -> bool:
        return self._now_s() - self._told_s >= KEYS_HOLD_S

    def _known(self, name: str) -> jwt.PyJWK | None:
        """The key of this name; of a token that names none, the only one."""
        if not name and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(name)

    async def _ask(self) -> None:
        """Keep what was known where there is no answer."""
        try:
            if not self._remote:
                self._take(await asyncio.to_thread(self._file.read_bytes))
                return
            url = self._section.jwks
            async with (
                httpx.AsyncClient(timeout=_FETCH_S, headers=UNPACKED, **way_to(url)) as http,
                http.stream("GET", url) as answer,
            ):
                self._take(await whole(answer.raise_for_status()))
        except (OSError, ValueError, httpx.HTTPError, jwt.PyJWTError, SettingsError) as error:
            told = why_not(self._section.jwks, error)
            log.warning("jwt.jwks: %s tells no keys: %s", self._section.jwks, told)

    def _take(self, content: bytes) -> None:
        """Raises ValueError, PyJWTError."""
        told = json_in(content)
        if not isinstance(told, dict):
            raise ValueError("a set of keys is an object")
        known = jwt.PyJWKSet.from_dict(told).keys
        keys = {key.key_id or "": key for key in known if key.key_type == "RSA"}
        if not keys:
            raise ValueError("there is no RSA key")
        self._keys, self._told_s = keys, self._now_s()


def _is_address(url: str) -> bool:
    try:
        return bool(httpx.URL(url).host)
    except httpx.InvalidURL:
        return False
