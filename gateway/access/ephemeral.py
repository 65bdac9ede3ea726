"""Keys that an app lends to browsers: each begins sessions of the app's, for a while.

`ek_PAYLOAD.SIGNATURE`, as a session's token is: whose it is, how much of it, until when, and with
which settings a session begins. Any gateway with the same secret takes it, and none remembers it.
"""

from __future__ import annotations

import binascii
import hmac
import json
import zlib

from gateway.access.callers import Caller, Limits, Role
from gateway.access.tokens import ExpiredError, NotOursError, from_base64, in_base64, signature
from visavis.serving.errors import InvalidInputError

PREFIX = "ek_"
USUAL_LIFE_S, SHORTEST_LIFE_S, LONGEST_LIFE_S = 600.0, 10.0, 7200.0
LONGEST = 7_000
"""Characters: servers take about eight thousand in a header."""
_LARGEST_WISH = 64_000


class EphemeralKeys:
    """Signs keys and reads them. Pure: the time, in seconds since 1970, is an argument."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()

    def issue(self, owner: Caller, wish: str, expires_s: float) -> str:
        """A key for sessions of the owner's. wish: how they begin, as JSON.

        Raises InvalidInputError where that is too much for a key.
        """
        limits = owner.limits
        content = {
            "owner": owner.owner,
            "limits": [limits.max_sessions, limits.sessions_per_minute],
            "expires": round(expires_s, 3),
            "wish": wish,
        }
        packed = zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 9)
        text = PREFIX + in_base64(packed)
        key = f"{text}.{signature(self._secret, text)}"
        if len(key) > LONGEST or len(wish) > _LARGEST_WISH:
            raise InvalidInputError(
                "session: it is too long for an ephemeral key, which carries it; have the client "
                "send the rest with session.update"
            )
        return key

    def read(self, key: str, now_s: float) -> Caller:
        """Who shows it. Raises NotOursError, ExpiredError."""
        text, _, signed = key.rpartition(".")
        if not hmac.compare_digest(signed.encode(), signature(self._secret, text).encode()):
            raise NotOursError("this ephemeral key was not signed here")
        try:
            packed = from_base64(text.removeprefix(PREFIX))
            content = json.loads(zlib.decompress(packed))
            owner, (most, per_minute) = str(content["owner"]), content["limits"]
            wish, expires_s = str(content["wish"]), float(content["expires"])
        except (binascii.Error, zlib.error, ValueError, LookupError, TypeError):
            raise NotOursError("this ephemeral key is none") from None
        if now_s >= expires_s:
            raise ExpiredError("this ephemeral key has expired: ask the application for another")
        limits = Limits(most, per_minute)
        return Caller(Role.GUEST, owner, limits=limits, wish=wish, lent=signed)
