"""A package index, npm registry and file host on loopback, with faults on demand."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import sys
import tarfile
import threading
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote


@dataclass
class Fault:
    """What goes wrong with one answer."""

    status: int = 0
    """Answer with this status instead."""
    retry_after: str = ""
    cut_after_bytes: int = -1
    """Close the connection after so many bytes of the body."""
    piece_bytes: int = 0
    """Send no more than this, as a part."""
    damage: bool = False
    """Flip the last byte."""
    led_to: str = ""
    """With `status` of a redirection: where."""


@dataclass
class Hosted:
    """One file of the server."""

    body: bytes
    content_type: str = "application/octet-stream"
    ranges: bool = True
    etag: bool = True
    faults: list[Fault] = field(default_factory=list)
    """Used up one per request."""
    gate: threading.Event | None = None
    """If set, the answer waits for it."""


@dataclass(frozen=True)
class Asked:
    """A request that came in."""

    path: str
    range: str
    authorization: str


def wheel(members: Mapping[str, bytes]) -> bytes:
    """Bytes of a wheel (or any zip) that holds `members`."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as zipped:
        for name, body in members.items():
            # A fixed date: the same members are the same bytes.
            zipped.writestr(zipfile.ZipInfo(name), body, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def tarball(members: Mapping[str, bytes]) -> bytes:
    """Bytes of a .tar.gz that holds `members`."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tarred:
        for name, body in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(body)
            tarred.addfile(entry, io.BytesIO(body))
    return out.getvalue()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that hang up are part of the tests; anything else is shown."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class Registry:
    """Serves what was added, remembers what was asked."""

    def __init__(self) -> None:
        self.hosted: dict[str, Hosted] = {}
        self.asked: list[Asked] = []
        self._links: dict[str, list[dict[str, object]]] = {}
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def index_url(self) -> str:
        return f"{self.url}/simple/"

    @property
    def npm_url(self) -> str:
        return f"{self.url}/npm/"

    def add_pypi(
        self,
        project: str,
        filename: str,
        body: bytes,
        *,
        stated_sha256: str | None = None,
        files_at: str = "../..",
    ) -> Hosted:
        """Put one distribution on the index, with its digest (or a given, wrong one)."""
        hosted = self.add(f"/files/{filename}", body)
        entry = {
            "filename": filename,
            "url": f"{files_at}/files/{filename}",
            "hashes": {"sha256": stated_sha256 or hashlib.sha256(body).hexdigest()},
            "size": len(body),
        }
        self._links.setdefault(project, []).append(entry)
        page = {"meta": {"api-version": "1.1"}, "name": project, "files": self._links[project]}
        self.hosted[f"/simple/{project}/"] = Hosted(
            json.dumps(page).encode(), "application/vnd.pypi.simple.v1+json"
        )
        return hosted

    def add_npm(self, package: str, version: str, body: bytes, *, host: str = "") -> Hosted:
        """Put one tarball on the npm registry; `host` is what the document says its host is."""
        path = f"/npm/{package}/-/package-{version}.tgz"
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(body).digest()).decode()
        tarball_url = f"{host}{path.removeprefix('/npm')}" if host else self.url + path
        dist = {"tarball": tarball_url, "integrity": integrity}
        document = {"name": package, "versions": {version: {"dist": dist}}}
        self.hosted[f"/npm/{package}"] = Hosted(json.dumps(document).encode(), "application/json")
        return self.add(path, body)

    def add(self, path: str, body: bytes) -> Hosted:
        self.hosted[path] = Hosted(body)
        return self.hosted[path]

    def ranges_asked(self, ending: str) -> list[str]:
        """Range headers of the requests for the file, in order ("" where there was none)."""
        return [asked.range for asked in self.asked if asked.path.endswith(ending)]


def _handler(registry: Registry) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = unquote(self.path.partition("?")[0])
            wanted = self.headers.get("Range", "")
            registry.asked.append(Asked(path, wanted, self.headers.get("Authorization", "")))
            hosted = registry.hosted.get(path)
            if hosted is None:
                self._answer(404, b"")
                return
            if hosted.gate is not None:
                hosted.gate.wait(10)
            fault = hosted.faults.pop(0) if hosted.faults else Fault()
            if fault.status:
                told = {"Retry-After": fault.retry_after or "0", "Location": fault.led_to}
                self._answer(fault.status, b"", {k: v for k, v in told.items() if v})
                return
            self._serve(hosted, fault, wanted)

        def _serve(self, hosted: Hosted, fault: Fault, wanted: str) -> None:
            etag = f'"{hashlib.md5(hosted.body).hexdigest()}"'
            headers = {"Content-Type": hosted.content_type}
            if hosted.etag:
                headers["ETag"] = etag
            body, status, start = hosted.body, 200, 0
            found = re.fullmatch(r"bytes=(\d+)-", wanted)
            same = self.headers.get("If-Range", etag) == etag
            if found and hosted.ranges and same:
                start = int(found[1])
                if start >= len(body):
                    self._answer(416, b"")
                    return
                body, status = body[start:], 206
            if fault.piece_bytes:
                body, status = body[: fault.piece_bytes], 206
            if status == 206:
                part = f"{start}-{start + len(body) - 1}"
                headers["Content-Range"] = f"bytes {part}/{len(hosted.body)}"
            if fault.damage:
                body = body[:-1] + bytes([body[-1] ^ 1])
            self._answer(status, body, headers, fault.cut_after_bytes)

        def _answer(
            self,
            status: int,
            body: bytes,
            headers: Mapping[str, str] | None = None,
            cut_after_bytes: int = -1,
        ) -> None:
            self.send_response(status)
            for key, value in (headers or {}).items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if cut_after_bytes >= 0:
                self.wfile.write(body[:cut_after_bytes])
                self.close_connection = True
            else:
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    return Handler
