"""Tells a caller by the key or the token that he shows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from gateway.access.bearers import BadBearerError, Bearers
from gateway.access.callers import OPERATOR, Caller, Role
from gateway.access.ephemeral import PREFIX as EPHEMERAL
from gateway.access.ephemeral import EphemeralKeys
from gateway.access.keys import SHOWABLE, can_be_shown, digest_of, read_access
from gateway.access.tokens import PREFIX, ExpiredError, Issued, NotOursError, SessionTokens
from gateway.settings import GatewaySettings
from visavis.serving.errors import SettingsError, VisavisError

# Of session_idle_s: a token is renewed at half of its life, and what is left then has to outlast
# a session to which nobody is connected.
_IDLE_LIVES = 3.0


class UnauthenticatedError(VisavisError):
    """Nothing that was shown says who the caller is."""


class Doorkeeper:
    """Says who comes in. Where there is no key at all, whoever shows nothing is an operator."""

    def __init__(self, settings: GatewaySettings, now_s: Callable[[], float] = time.time) -> None:
        """now_s: seconds since 1970. Raises SettingsError."""
        life_s = max(settings.token_life_s, _IDLE_LIVES * settings.session_idle_s)
        self._tokens = SessionTokens(settings.signing_key(), life_s)
        self._ephemeral = EphemeralKeys(settings.signing_key())
        self._now_s = now_s
        self._keys: dict[bytes, Caller] = {}
        """By the SHA-256 of the key."""
        self._bearers: Bearers | None = None
        if settings.access_file is not None:
            access = read_access(settings.access_file)
            self._keys |= {section.digest: section.caller for section in access.key}
            if access.jwt is not None:
                self._bearers = Bearers(access.jwt, settings.access_file.parent)
        if key := settings.key():
            if not can_be_shown(key):
                raise SettingsError(f"api_key: it has to be {SHOWABLE}")
            self._keys[digest_of(key)] = OPERATOR

    @property
    def wants_a_key(self) -> bool:
        """Whether somebody who shows nothing is refused."""
        return bool(self._keys) or self._bearers is not None

    async def tell(self, shown: Iterable[str]) -> Caller:
        """Who shows this: the ways to read one credential. Raises UnauthenticatedError."""
        why = ""
        wanted = "this gateway needs an API key or a session's token"
        for credential in shown:
            wanted = "the key or token that was shown is unknown here"
            try:
                if (caller := await self._read(credential)) is not None:
                    return caller
            except (ExpiredError, BadBearerError) as error:
                why = str(error)
            except NotOursError as error:
                # Where no key is wanted, it may be of a gateway that is gone.
                why = str(error) if self.wants_a_key else ""
        if why or self.wants_a_key:
            raise UnauthenticatedError(why or wanted)
        return OPERATOR

    def issue(self, session: str, role: Role = Role.VISITOR) -> Issued:
        """A token for one session."""
        return self._tokens.issue(session, role, self._now_s())

    def lend(self, owner: Caller, wish: str, life_s: float) -> str:
        """An ephemeral key for sessions of the owner's. Raises InvalidInputError."""
        return self._ephemeral.issue(owner, wish, self._now_s() + life_s)

    async def _read(self, credential: str) -> Caller | None:
        # Keys first: an operator's may begin as our tokens do.
        if (caller := self._keys.get(digest_of(credential))) is not None:
            return caller
        if credential.startswith(PREFIX):
            return self._tokens.read(credential, self._now_s())
        if credential.startswith(EPHEMERAL):
            return self._ephemeral.read(credential, self._now_s())
        if self._bearers is not None and credential.count(".") == 2:
            return await self._bearers.read(credential)
        return None
