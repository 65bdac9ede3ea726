"""The file of keys: who may come, in which role, how much of it, and whose JWTs are taken.

[[key]]
name = "shop"
sha256 = "…"               # of the key, in hexadecimal; or the key itself: key = "…"
role = "app"               # or "operator"
max_sessions = 20          # open at once; 0 or left out: as many as there is room for
sessions_per_minute = 60

[jwt]
audience = "visavis"
issuer = "https://login.example.org"
jwks = "https://login.example.org/jwks.json"   # RS256: an address or a file
secret_file = "jwt-secret"                     # HS256
max_sessions = 2                               # of each `sub`
[jwt.subjects.ann]
max_sessions = 10
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from gateway.access.callers import Caller, Limits, Role
from gateway.access.limits import MOST_A_MINUTE
from gateway.api.events import why_of
from visavis.serving.addresses import is_loopback
from visavis.serving.errors import SettingsError

SHORTEST_KEY = 16
"""Characters: whoever reads the SHA-256 of a shorter one could find it by trying."""
SHOWABLE = "one line of ASCII, without a blank at an end: it is shown in a header"


class _Section(BaseModel):
    """Unknown keys are errors, and no error shows what stands in the file."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class LimitsSection(_Section):
    """How much one app may have."""

    max_sessions: int = Field(0, ge=0)
    sessions_per_minute: int = Field(0, ge=0, le=MOST_A_MINUTE)

    @property
    def limits(self) -> Limits:
        return Limits(self.max_sessions, self.sessions_per_minute)


class KeySection(LimitsSection):
    """One key."""

    name: str = Field(pattern=r"^[A-Za-z0-9_.@-]{1,64}$")
    key: SecretStr | None = None
    sha256: str = Field("", pattern=r"^([0-9a-f]{64})?$")
    role: Literal["operator", "app"]

    @model_validator(mode="after")
    def _said_once(self) -> Self:
        if (self.key is None) == (not self.sha256):
            raise ValueError(f"{self.name}: either key or sha256 is wanted")
        if self.key is not None and len(self.key.get_secret_value()) < SHORTEST_KEY:
            raise ValueError(f"{self.name}: a key has {SHORTEST_KEY} characters or more")
        if self.key is not None and not can_be_shown(self.key.get_secret_value()):
            raise ValueError(f"{self.name}: a key is {SHOWABLE}")
        # Of a variable that was not set; whoever shows an empty key would have this role.
        if self.sha256 and self.digest == digest_of(""):
            raise ValueError(f"{self.name}: sha256 is that of an empty key")
        return self

    @property
    def digest(self) -> bytes:
        """SHA-256 of the key."""
        if self.key is None:
            return bytes.fromhex(self.sha256)
        return digest_of(self.key.get_secret_value())

    @property
    def caller(self) -> Caller:
        """Who shows this key."""
        return Caller(Role(self.role), f"key:{self.name}", limits=self.limits)


class JwtSection(LimitsSection):
    """Whose JWTs are taken. The limits are of each `sub` that has none of its own."""

    audience: str = Field("visavis", min_length=1)
    issuer: str = ""
    jwks: str = ""
    secret_file: Path | None = None
    subjects: dict[str, LimitsSection] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _verifiable(self) -> Self:
        if not self.jwks and self.secret_file is None:
            raise ValueError("jwks or secret_file is wanted, else no JWT could be verified")
        where = urlsplit(self.jwks)
        if where.scheme == "http" and not is_loopback(where.hostname or ""):
            raise ValueError("jwks: keys are fetched with https, from another machine")
        return self


class AccessFile(_Section):
    """Who may come."""

    key: list[KeySection] = Field(default_factory=list)
    jwt: JwtSection | None = None

    @model_validator(mode="after")
    def _told_apart(self) -> Self:
        if not self.key and self.jwt is None:
            raise ValueError("neither a [[key]] nor [jwt]: nobody could come in")
        names, digests = {k.name for k in self.key}, {k.digest for k in self.key}
        if len(names) < len(self.key) or len(digests) < len(self.key):
            raise ValueError("two keys have one name, or are the same")
        return self


def digest_of(key: str) -> bytes:
    """By which a key is looked up: to look one up tells nothing of the others."""
    return hashlib.sha256(key.encode()).digest()


def can_be_shown(key: str) -> bool:
    """Whether a client can send it: clients do not agree on how other characters are written."""
    return key.isascii() and key.isprintable() and key == key.strip()


def read_access(path: Path) -> AccessFile:
    """Raises SettingsError, which says what is wrong and shows no secret."""
    try:
        return AccessFile.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise SettingsError(f"access_file: cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        # The place alone: what else is told may be of a key.
        place = re.search(r" \(at [^()]*\)$", str(error))
        where = place[0] if place else ""
        raise SettingsError(f"access_file: {path} is not TOML{where}") from None
    except ValidationError as error:
        faults = error.errors(include_input=False, include_url=False)
        told = (": ".join([".".join(map(str, f["loc"])), why_of(f)]).lstrip(": ") for f in faults)
        raise SettingsError(f"access_file: {path}: {'; '.join(told)}") from None
