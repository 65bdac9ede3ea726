"""Programs of others between a browser and the gateway, with the configurations of docs/proxies.md.

What stands there is taken as it stands: only ports, names and the paths of certificates are
replaced, and what a test wants beside it (its folder, no daemon) is put around it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.gateway.conftest import until
from tests.gateway.live.peers import free_port

PAGE = (Path(__file__).parents[2] / "docs" / "proxies.md").read_text(encoding="utf-8")
NAME = "avatar.test"
_WRITTEN_NAME, _WRITTEN_GATEWAY, _WRITTEN_TURN = "avatar.example", "127.0.0.1:8080", "turn.example"
_NGINX = """
daemon off; master_process off; pid nginx.pid; error_log stderr;
events {{ }}
http {{
access_log off;
client_body_temp_path body; proxy_temp_path proxy;
fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
{written}
}}
"""
_CADDY = """{{
admin off
auto_https disable_redirects
}}
{written}
"""


def written(language: str) -> str:
    """The page's one example in this language."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def replaced(text: str, changes: Mapping[str, str]) -> str:
    """`text` with each of these changed; each has to stand in it."""
    for old, new in changes.items():
        assert old in text, f"docs/proxies.md does not say {old!r} any more"
        text = text.replace(old, new)
    return text


def told_the_gateway(heading: str, changes: Mapping[str, str]) -> dict[str, Any]:
    """Settings that the section has the operator export, by their names, changed so."""
    (section,) = re.findall(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
    exported = re.findall(r"^export VISAVIS_GATEWAY_(\w+)='(.*)'$", section, re.MULTILINE)
    return {name.lower(): json.loads(replaced(value, changes)) for name, value in exported}


def behind_a_proxy() -> dict[str, Any]:
    """Settings of a gateway behind a proxy of its machine."""
    told = told_the_gateway("A reverse proxy", {})
    assert told["allowed_hosts"] == [_WRITTEN_NAME]
    return {**told, "allowed_hosts": [NAME]}


def needs(program: str) -> None:
    """Skips the test where it is not installed."""
    if shutil.which(program) is None:
        package = "coturn" if program == "turnserver" else program
        pytest.skip(f"no {program}: `apt-get install {package}` (needs root)")


class Proxy:
    """https at 127.0.0.1:`port` for NAME, with a gateway behind it."""

    def __init__(self, kind: str, port: int) -> None:
        self.kind, self.port = kind, port
        self.url = f"https://{NAME}:{port}"


@asynccontextmanager
async def proxy(
    kind: str,
    folder: Path,
    gateway_url: str,
    certificate: tuple[Path, Path],
    changes: Mapping[str, str] | None = None,
) -> AsyncIterator[Proxy]:
    """nginx or Caddy with the page's configuration. changes: to that, beside ports and names."""
    port = free_port()
    here = {_WRITTEN_GATEWAY: urlsplit(gateway_url).netloc, **(changes or {})}
    chain, key = map(str, certificate)
    if kind == "nginx":
        here |= {
            "443 ssl": f"127.0.0.1:{port} ssl",
            "/etc/ssl/avatar/fullchain.pem": chain,
            "/etc/ssl/avatar/key.pem": key,
            _WRITTEN_NAME: NAME,
        }
        text = _NGINX.format(written=replaced(written("nginx"), here))
        command = ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")]
    else:
        its_own = f"{NAME}:{port} {{\n    bind 127.0.0.1\n    tls {chain} {key}"
        here[f"{_WRITTEN_NAME} {{"] = its_own
        text = _CADDY.format(written=replaced(written("caddyfile"), here))
        command = ["caddy", "run", "--adapter", "caddyfile", "--config", str(folder / "caddy.conf")]
    async with _running(command, port, folder, {f"{kind}.conf": text}):
        yield Proxy(kind, port)


@asynccontextmanager
async def turn_server(folder: Path, secret: str) -> AsyncIterator[int]:
    """coturn as the page starts it, on loopback alone; its port, for UDP and TCP."""
    port = free_port()
    (line,) = re.findall(r"^turnserver .*$", PAGE, re.MULTILINE)
    line = replaced(line, {'"$SECRET"': secret, "3478": str(port), _WRITTEN_NAME: NAME})
    # Beside what operators want: no file of the machine is read or written, no other address used.
    alone = ["-n", "--no-cli", "--listening-ip", "127.0.0.1", "--relay-ip", "127.0.0.1"]
    alone += ["--allow-loopback-peers", "--log-file", "stdout"]
    alone += ["--pidfile", str(folder / "pid"), "--userdb", str(folder / "turndb")]
    async with _running([*shlex.split(line), *alone], port, folder):
        yield port


def ice_servers(port: int, transport: str = "udp") -> list[str]:
    """Those of the page, at this port of loopback."""
    changes = {
        f"{_WRITTEN_TURN}:3478": f"127.0.0.1:{port}",
        "transport=udp": f"transport={transport}",
    }
    servers: list[str] = told_the_gateway("WebRTC behind a NAT", changes)["ice_servers"]
    return servers


@asynccontextmanager
async def _running(
    command: list[str], port: int, folder: Path, files: Mapping[str, str] | None = None
) -> AsyncIterator[None]:
    """files: what is written into the folder before."""
    folder.mkdir(exist_ok=True)  # noqa: ASYNC240
    for name, text in (files or {}).items():
        (folder / name).write_text(text)
    own = {name: str(folder) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
    with (folder / "output.txt").open("wb") as output:
        process = subprocess.Popen(  # noqa: ASYNC220
            command, cwd=folder, stdout=output, stderr=output, env={**os.environ, **own}
        )
        try:
            await until(lambda: _listens(port) or process.poll() is not None)
            told = (folder / "output.txt").read_text("utf-8", "replace")
            assert process.poll() is None, f"{command[0]} has ended:\n{told}"
            yield
        finally:
            process.terminate()
            process.wait(10)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
