"""What a viewer costs: one face, one encode, and more and more who look on.

    python -m tests.tools.bench.live.viewers whep websocket hls

Viewers are a process of their own, which decodes nothing; counted is the processor time of the one
that has the gateway, the doubles of its services and the bus's client. What a thousand would cost
is the slope times a thousand: an extrapolation, not a measurement.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import sys
import tempfile
import time
from pathlib import Path

import httpx
import numpy as np
import websockets
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription

from tests.browser.flash_and_beep import frames_of
from tests.gateway.doubles import FPS
from tests.tools.bench.live.counter import CounterRig
from visavis.client import GatewayClient
from visavis.serving.aiortc_private.incoming import take_packets

_COUNTS = {"whep": (1, 5, 10, 20), "websocket": (1, 10, 25, 50), "hls": (1, 20, 50, 100)}
_SETTLE_S, _FOR_S = 6.0, 12.0


async def look_on(way: str, url: str, count: int) -> None:
    """In the viewers' process: until it is killed."""
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            group.create_task(_VIEWERS[way](url))
            await asyncio.sleep(0.02 if number else 0.5)
        await asyncio.sleep(0.5)
        sys.stdout.write("all\n")
        sys.stdout.flush()


async def _by_websocket(url: str) -> None:
    address = f"ws{url.removeprefix('http')}/media"
    async with websockets.connect(address, max_size=None, proxy=None) as socket:
        async for _ in socket:
            pass


async def _by_whep(url: str) -> None:
    pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
    for kind in ("audio", "video"):
        transceiver = pc.addTransceiver(kind, direction="recvonly")
        take_packets(transceiver.receiver, _drop)
    await pc.setLocalDescription(await pc.createOffer())
    async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
        headers = {"Content-Type": "application/sdp"}
        told = await http.post(f"{url}/whep", content=pc.localDescription.sdp, headers=headers)
    await pc.setRemoteDescription(RTCSessionDescription(told.text, "answer"))
    await asyncio.Event().wait()


async def _drop(_packet: object) -> None:
    """Nobody looks at it."""


async def _by_hls(url: str) -> None:
    seen: set[str] = set()
    async with httpx.AsyncClient(base_url=f"{url}/hls/", trust_env=False, timeout=30) as http:
        stream = (await http.get("index.m3u8")).text.split()[-1]
        while True:
            playlist = await http.get(stream)
            for name in re.findall(r"^segment-.*$", playlist.text, re.M):
                if name not in seen:
                    seen.add(name)
                    await http.get(name)
            await asyncio.sleep(1.0)


_VIEWERS = {"websocket": _by_websocket, "whep": _by_whep, "hls": _by_hls}


async def measure(way: str, rig: CounterRig, client: GatewayClient) -> str:
    made = (await client.call("POST", "/v1/sessions", json={})).json()
    path = f"/v1/sessions/{made['id']}"
    counts, shares = _COUNTS[way], []
    for count in counts:
        module = "tests.tools.bench.live.viewers"
        command = [sys.executable, "-m", module, way, "--url", f"{client.url}{path}"]
        process = await asyncio.create_subprocess_exec(
            *command, "--count", str(count), stdout=asyncio.subprocess.PIPE
        )
        try:
            assert process.stdout is not None
            await process.stdout.readline()
            rig.doubles.script.voice_s = frames_of(40) / FPS
            await client.call("POST", f"{path}/text", json={"text": "Count."})
            await asyncio.sleep(_SETTLE_S)
            begun, used = time.monotonic(), time.process_time()
            await asyncio.sleep(_FOR_S)
            shares.append((time.process_time() - used) / (time.monotonic() - begun))
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        await asyncio.sleep(1.0)
    await client.call("DELETE", path)
    slope, base = np.polyfit(counts, shares, 1)
    measured = ", ".join(f"{n}: {100 * s:.1f} %" for n, s in zip(counts, shares, strict=True))
    return (
        f"{way}: of one core {measured}; without viewers {100 * base:.1f} %, each "
        f"{100 * slope:.2f} %; extrapolated to 1000: {1000 * slope:.1f} cores"
    )


async def main(ways: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rig = CounterRig(Path(folder))
        await rig.start(max_viewers=10_000)
        try:
            async with GatewayClient(rig.running.url) as client:
                for way in ways:
                    sys.stdout.write(f"{await measure(way, rig, client)}\n")
                    sys.stdout.flush()
        finally:
            await rig.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.tools.bench.live.viewers")
    parser.add_argument("ways", nargs="+", choices=tuple(_COUNTS))
    parser.add_argument("--url", default="", help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, default=0, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.url:
        asyncio.run(look_on(asked.ways[0], asked.url, asked.count))
    else:
        asyncio.run(main(asked.ways))
