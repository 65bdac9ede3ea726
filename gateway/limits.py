"""No request's body may be larger than its path allows, however it is sent."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

JSON_LIMIT_BYTES = 1_000_000
# Field names and boundaries around a photo.
FORM_EXTRA_BYTES = 100_000


class BodyLimit:
    """ASGI middleware: answers 413 as soon as more has come than is allowed."""

    def __init__(self, app: ASGIApp, upload_path: str, upload_limit_bytes: int) -> None:
        self._app = app
        self._upload_path = upload_path
        self._upload_limit = upload_limit_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        upload = scope["path"] == self._upload_path
        limit = self._upload_limit + FORM_EXTRA_BYTES if upload else JSON_LIMIT_BYTES
        received = 0

        async def counted() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                allowed = f"{(self._upload_limit if upload else limit) / 1e6:g} MB"
                raise HTTPException(413, f"the request is larger than {allowed}")
            return message

        await self._app(scope, counted, send)
