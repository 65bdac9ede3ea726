"""What opens one session alone, for a while: a token signed with the gateways' common secret.

`vs1.PAYLOAD.SIGNATURE`, both in URL-safe base64: the payload is JSON of session, role and the
moment in which the token expires; the signature is HMAC-SHA256 (RFC 2104) of all that stands before
it. Any gateway that has the secret can read it, and none has to remember it: it holds in whichever
gateway the session is.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from dataclasses import dataclass

from gateway.access.callers import Caller, Role
from visavis.serving.errors import VisavisError

PREFIX = "vs1."
IN_A_SESSION = (Role.VISITOR, Role.VIEWER)


class NotOursError(VisavisError):
    """A token that was not signed with our secret, or is none."""


class ExpiredError(VisavisError):
    """A token whose time is over."""


@dataclass(frozen=True)
class Issued:
    """A token as its holder gets it."""

    token: str
    role: Role
    expires_in_s: float


class SessionTokens:
    """Signs tokens and reads them. Pure: the time, in seconds since 1970, is an argument."""

    def __init__(self, secret: str, life_s: float) -> None:
        self._secret = secret.encode()
        self._life_s = life_s

    def issue(self, session: str, role: Role, now_s: float) -> Issued:
        """A token for one session. role: VISITOR or VIEWER."""
        assert role in IN_A_SESSION
        content = {"session": session, "role": role, "expires": round(now_s + self._life_s, 3)}
        text = PREFIX + in_base64(json.dumps(content, separators=(",", ":")).encode())
        return Issued(f"{text}.{signature(self._secret, text)}", role, self._life_s)

    def read(self, token: str, now_s: float) -> Caller:
        """Whose token it is. Raises NotOursError, ExpiredError."""
        text, _, signed = token.rpartition(".")
        if not hmac.compare_digest(signed.encode(), signature(self._secret, text).encode()):
            raise NotOursError(
                "this session token was not signed here: gateways behind one address need the "
                "same token_key"
            )
        try:
            content = json.loads(from_base64(text.removeprefix(PREFIX)))
            session, role = str(content["session"]), Role(content["role"])
            expires_s = float(content["expires"])
        except (binascii.Error, ValueError, LookupError, TypeError):
            raise NotOursError("this session token is none") from None
        if role not in IN_A_SESSION:
            raise NotOursError("this session token is none")
        if now_s >= expires_s:
            raise ExpiredError("this session token has expired: it is renewed while it holds")
        return Caller(role, session=session)


def signature(secret: bytes, text: str) -> str:
    """HMAC-SHA256, in base64."""
    return in_base64(hmac.digest(secret, text.encode(), hashlib.sha256))


def in_base64(content: bytes) -> str:
    """Without the `=` at its end, which no subprotocol's name may hold."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def from_base64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
