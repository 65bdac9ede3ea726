"""A broadcast through media servers of others, played by FFmpeg: `make clients`."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

import av
import numpy as np
import pytest

from tests.gateway.live.peers import free_port
from tests.stack.client_table import Record
from tests.tools.bench.live.servers import nginx, node_media_server
from visavis.client import GatewayClient

_ROOT = Path(__file__).parents[2]
_CLIENTS = Path(os.environ.get("VISAVIS_CLIENTS", _ROOT / ".venv-clients")).absolute()
_NGINX_RTMP = Path("/usr/lib/nginx/modules/ngx_rtmp_module.so")
SAID = "Good evening, and welcome to everybody who watches us tonight."
_LOUD, _PICTURES = 0.05, 25


@dataclass
class Played:
    pictures: int = 0
    width: int = 0
    loud_s: float = 0.0


def play(address: str, enough_s: float) -> Played:
    """What FFmpeg makes of it, until so much of it is loud, and a second was seen. Blocks."""
    played = Played()
    with av.open(address, timeout=30) as container:
        for frame in container.decode(video=0, audio=0):
            if isinstance(frame, av.VideoFrame):
                played.pictures, played.width = played.pictures + 1, frame.width
            elif np.abs(frame.to_ndarray()).max() > _LOUD:
                played.loud_s += frame.samples / frame.sample_rate
            if played.loud_s > enough_s and played.pictures > _PICTURES:
                return played
    raise AssertionError(f"it has ended: {played}")


async def through(
    gateway: GatewayClient, server: AbstractAsyncContextManager[None], port: int, address: str
) -> Played:
    made = (await gateway.call("POST", "/v1/sessions", json={"language": "en"})).json()
    where = f"/v1/sessions/{made['id']}"
    async with server:
        body = {"url": f"rtmp://127.0.0.1:{port}/live", "key": "key"}
        await gateway.call("POST", f"{where}/broadcasts", json=body)
        while True:
            (told,) = (await gateway.call("GET", f"{where}/broadcasts")).json()["broadcasts"]
            if told["state"] == "live" and told["sent_pictures"] > 25:
                break
            await asyncio.sleep(0.1)
        playing = asyncio.create_task(asyncio.to_thread(play, address, 1.0))
        await gateway.call("POST", f"{where}/say", json={"text": SAID})
        await gateway.call("POST", f"{where}/say", json={"text": SAID})
        async with asyncio.timeout(60):
            played = await playing
        await gateway.call("DELETE", where)
    return played


@pytest.mark.client("node-media-server", "a broadcast pushed by RTMP, played by FFmpeg as HTTP-FLV")
@pytest.mark.skipif(
    not (_CLIENTS / "node_modules/node-media-server").exists(),
    reason="node-media-server is not installed: `make clients` installs it, with npm",
)
async def test_by_node_media_server(
    gateway: GatewayClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Record,
) -> None:
    monkeypatch.setenv("NODE_MEDIA_SERVER", str(_CLIENTS))
    port, http_port = free_port(), free_port()
    server = node_media_server(tmp_path, port, http_port)
    flv = f"http://127.0.0.1:{http_port}/live/key.flv"
    tell(record_property, await through(gateway, server, port, flv))


@pytest.mark.client("nginx-rtmp", "a broadcast pushed by RTMP, played by FFmpeg by RTMP")
@pytest.mark.skipif(
    not _NGINX_RTMP.exists() or shutil.which("nginx") is None,
    reason="nginx with libnginx-mod-rtmp is not installed",
)
async def test_by_nginx(gateway: GatewayClient, tmp_path: Path, record_property: Record) -> None:
    port = free_port()
    address = f"rtmp://127.0.0.1:{port}/live/key"
    tell(record_property, await through(gateway, nginx(tmp_path, port), port, address))


def tell(record_property: Callable[[str, object], None], played: Played) -> None:
    assert played.width == 512
    record_property("seen", f"{played.pictures} pictures 512 wide, {played.loud_s:.1f} s of voice")
