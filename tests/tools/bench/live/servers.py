"""Media servers of others, for as long as they are needed: nginx with its RTMP module (Debian's
nginx and libnginx-mod-rtmp), node-media-server 4 (npm, in the folder NODE_MEDIA_SERVER names).
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

_NGINX = """
load_module /usr/lib/nginx/modules/ngx_rtmp_module.so;
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ }}
rtmp {{ server {{ listen 127.0.0.1:{port}; application live {{ live on; wait_key on; }} }} }}
"""
_NODE = """
const NodeMediaServer = require("node-media-server");
new NodeMediaServer({config}).run();
"""


async def _listens(port: int) -> None:
    async with asyncio.timeout(20):
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            await asyncio.sleep(0.01)


@asynccontextmanager
async def _running(command: list[str], port: int, cwd: Path) -> AsyncIterator[None]:
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL)  # noqa: ASYNC220
    try:
        await _listens(port)
        yield
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait)


@asynccontextmanager
async def nginx(folder: Path, port: int) -> AsyncIterator[None]:
    """RTMP at `/live` of the port, to publish and to play."""
    (folder / "nginx.conf").write_text(_NGINX.format(folder=folder, port=port))
    command = ["nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")]
    async with _running(command, port, folder):
        yield


@asynccontextmanager
async def node_media_server(folder: Path, port: int, http_port: int) -> AsyncIterator[None]:
    """RTMP at `/live` of the port, HTTP-FLV at `/live/KEY.flv` of the other."""
    config = {
        "bind": "127.0.0.1",
        "auth": {"play": False, "publish": False, "secret": ""},
        "notify": {"url": ""},
        "rtmp": {"port": port},
        "http": {"port": http_port},
        "static": {"router": "/", "root": str(folder)},
        "record": {"path": ""},
    }
    (folder / "server.js").write_text(_NODE.format(config=json.dumps(config)))
    modules = Path(os.environ["NODE_MEDIA_SERVER"])
    (folder / "node_modules").symlink_to(modules / "node_modules")
    async with _running(["node", str(folder / "server.js")], port, folder):
        yield
