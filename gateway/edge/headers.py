"""Security headers of every answer, and the sign of life.

What an answer says itself stands: a page with a policy of its own, a portrait that may be kept.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence

from starlette.datastructures import MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LIVE_PATH = "/livez"
_ANSWERS = ("http.response.start", "websocket.http.response.start")
_OF_A_SESSION = "/v1/sessions"
_HSTS = "max-age=31536000"
_NOT_NEEDED = ("camera", "display-capture", "geolocation", "payment", "usb")
_INLINE_SCRIPT = re.compile(r"<script>(.*?)</script>", re.S)


def page_policy(embed_origins: Sequence[str]) -> str:
    """Content-Security-Policy of our page, which brings all that it needs from where it is."""
    return "; ".join(
        (
            "default-src 'self'",
            "img-src 'self' blob: data:",
            "media-src 'self' blob:",
            *_common(embed_origins),
        )
    )


def docs_policy(embed_origins: Sequence[str], html: str) -> str:
    """That of the API's page: its one script stands in `html`, and it sets styles as it goes."""
    digests = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
        for script in _INLINE_SCRIPT.findall(html)
    ]
    scripts = " ".join(f"'sha256-{digest}'" for digest in digests)
    return "; ".join(
        (
            "default-src 'self'",
            f"script-src 'self' {scripts}",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data:",
            *_common(embed_origins),
        )
    )


def _common(embed_origins: Sequence[str]) -> tuple[str, ...]:
    framed_by = " ".join(("'self'", *embed_origins))
    return (
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
        f"frame-ancestors {framed_by}",
    )


def security_headers(
    embed_origins: Sequence[str], allowed_origins: Sequence[str] = ()
) -> dict[str, str]:
    """What stands in every answer, whatever it is to.

    embed_origins: whose pages may show ours in a frame; allowed_origins: use the API.
    """
    microphone = " ".join(("self", *(f'"{origin}"' for origin in embed_origins)))
    return {
        "Content-Security-Policy": page_policy(embed_origins),
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "same-origin",
        "Permissions-Policy": ", ".join(
            (f"microphone=({microphone})", *(f"{name}=()" for name in _NOT_NEEDED))
        ),
        # A page that keeps strangers out of its process wants this of what it embeds.
        "Cross-Origin-Resource-Policy": (
            "cross-origin" if embed_origins or allowed_origins else "same-origin"
        ),
    }


class SecurityHeaders:
    """ASGI middleware around everything: each answer says what browsers may do with it.

    always: what stands in each. loopback: browsers reach us by it alone, and trust it as they trust
    https.

    It also answers `/livez` itself, to anybody: that needs an event loop that turns, and no more.
    """

    def __init__(self, app: ASGIApp, always: Mapping[str, str], *, loopback: bool) -> None:
        self._app = app
        self._always = always
        self._loopback = loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        said = dict(self._always)
        secure = scope["scheme"] in ("https", "wss")
        if secure:
            said["Strict-Transport-Security"] = _HSTS
        if secure or self._loopback:
            # Elsewhere browsers do not heed it, and complain.
            said["Cross-Origin-Opener-Policy"] = "same-origin"
        if scope["path"].startswith(_OF_A_SESSION):
            said["Cache-Control"] = "no-store"

        async def saying(message: Message) -> None:
            if message["type"] in _ANSWERS:
                headers = MutableHeaders(scope=message)
                for name, value in said.items():
                    headers.setdefault(name, value)
            await send(message)

        if scope["type"] == "http" and scope["path"] == LIVE_PATH:
            await JSONResponse({"status": "ok"})(scope, receive, saying)
        else:
            await self._app(scope, receive, saying)
