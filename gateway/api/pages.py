"""The page, its files, and the page of the API.

While gateways are updated those of two versions answer at one address, and each of the page's
dozens of files may be asked of another one. So pages name the version of their files in the
addresses of these, and a gateway that has other ones has them brought from one that has those
(`gateway/peers/passing.py`).
"""

from __future__ import annotations

import hashlib
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

import swagger_ui_bundle
from fastapi import FastAPI, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles
from starlette.types import Scope

from gateway.edge.headers import docs_policy
from gateway.settings import GatewaySettings

STATIC = Path(__file__).parents[1] / "static"
_VERSION = re.compile(r"[0-9a-f]{16}")
_FILE = re.compile(rf"/static/({_VERSION.pattern})/.+")


@cache
def version_of(folder: Path) -> str:
    """Of the page's files: of what is in them, and what they are called."""
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            content = file.read_bytes()
            digest.update(f"{file.relative_to(folder)} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:16]


def version_in(path: str) -> str:
    """The version of a page's file that is asked for; "": any, or none is asked for."""
    found = _FILE.fullmatch(path)
    return found[1] if found else ""


class _PageFiles(StaticFiles):
    """Asked for anew each time, and sent where they have changed: a browser that kept some of them
    would make a page of two versions.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(directory=folder, check_dir=False)
        self._folder, self._version = folder, version_of(folder)

    def get_path(self, scope: Scope) -> str:
        """Of a version that no gateway has any more our own file is better than none."""
        path = super().get_path(scope)
        version, _, file = path.partition(os.sep)
        return file if file and _VERSION.fullmatch(version) else path

    def file_response(self, full_path: Any, *args: Any, **kwargs: Any) -> Response:
        if os.fspath(full_path).endswith(".html"):
            return self.page(full_path)
        response = super().file_response(full_path, *args, **kwargs)
        response.headers["Cache-Control"] = "no-cache"
        return response

    def page(self, name: str) -> HTMLResponse:
        """One that asks for files of its own version."""
        told = (self._folder / name).read_text(encoding="utf-8")
        told = told.replace('="static/', f'="static/{self._version}/')
        return HTMLResponse(told, headers={"Cache-Control": "no-cache"})


def add_pages(app: FastAPI, settings: GatewaySettings) -> None:
    """At `/`, `/docs` and `/static`."""
    files = _PageFiles(STATIC)

    @app.get("/", include_in_schema=False)
    async def page() -> HTMLResponse:
        return files.page("index.html")

    @app.get("/docs", include_in_schema=False)
    async def docs(request: Request) -> HTMLResponse:
        # Relative addresses, so that a reverse proxy may serve all of it under a prefix.
        page = get_swagger_ui_html(
            openapi_url="openapi.json",
            title="visavis API",
            swagger_js_url="docs/swagger-ui-bundle.js",
            swagger_css_url="docs/swagger-ui.css",
            swagger_favicon_url="docs/favicon-32x32.png",
            # It would tell a site elsewhere where this one is.
            swagger_ui_parameters={"validatorUrl": None},
        )
        policy = docs_policy(settings.embed_origins, bytes(page.body).decode())
        page.headers["Content-Security-Policy"] = policy
        return page

    vendor = Path(swagger_ui_bundle.__file__).parent / "vendor"
    app.mount("/docs", StaticFiles(directory=next(vendor.glob("swagger-ui-*"))))
    app.mount("/static", files)
