"""Glass to glass: from the moment at which a numbered picture leaves the gateway's clock to the one
at which a receiver has decoded it, and how far its beep is from it.

    python -m tests.tools.bench.live.measure whep rtmp nginx node whip hls restart --flashes 40

`rtmp` is FFmpeg listening; `nginx` and `node` are servers from which FFmpeg plays; `restart` ends
nginx and starts it again. All processes share one machine and one clock.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gateway.live.push.flow import Figures
from tests.browser.flash_and_beep import frames_of
from tests.gateway.doubles import FPS
from tests.gateway.live.peers import free_port
from tests.tools.bench.live.counter import CounterRig, Witness, beep_of
from tests.tools.bench.live.servers import nginx, node_media_server
from visavis.client import GatewayClient

KEY = "key"
_SETTLE_S = 3.0
_RESTARTS = 5
# Of WebRTC: what a receiver makes of it, what came to it, and what the sender's reports say.
_CLOCKS = {"wall_s": "as decoded", "came_s": "as it came", "report_s": "by RTCP"}


@dataclass
class Receiver:
    """What a process of `receivers` has told."""

    pictures: list[dict[str, Any]] = field(default_factory=list)
    beeps: list[dict[str, Any]] = field(default_factory=list)

    async def follow(self, lines: asyncio.StreamReader) -> None:
        async for line in lines:
            told = json.loads(line)
            (self.pictures if told["what"] == "picture" else self.beeps).append(told)


@asynccontextmanager
async def receiving(*arguments: str) -> AsyncIterator[Receiver]:
    command = [sys.executable, "-m", "tests.tools.bench.live.receivers", *arguments]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    receiver = Receiver()
    following = asyncio.create_task(receiver.follow(process.stdout))
    try:
        yield receiver
    finally:
        process.kill()
        await process.wait()
        await following


def told(way: str, receiver: Receiver, witness: Witness, *, by_stream: bool) -> str:
    """by_stream: sound and picture share the stream's clock; else they are compared as decoded."""
    first = {p["number"]: p for p in reversed(receiver.pictures) if p["number"]}
    late = [first[n]["wall_s"] - left for n, left in witness.left.items() if n in first]
    at = np.percentile(1000 * np.array(late or [np.nan]), (50, 95, 100))
    lines = [
        f"{way}: glass to glass median {at[0]:.0f} ms, P95 {at[1]:.0f}, max {at[2]:.0f} "
        f"({len(late)} of {len(witness.left)} pictures)"
    ]
    clocks = {"stream_s": "by time stamps"} if by_stream else _CLOCKS
    for clock, named in clocks.items():
        marks = sorted(p[clock] for n, p in first.items() if beep_of(n) and clock in p)
        beeps = [b[clock] for b in receiver.beeps if clock in b]
        if len(skews := np.array(skews_ms(marks, beeps))):
            lines.append(
                f"  picture after sound, {named}: median {np.median(skews):+.0f} ms, "
                f"absolute max {np.abs(skews).max():.0f} ({len(skews)} beeps)"
            )
    return "\n".join(lines)


def skews_ms(marks: Iterable[float], beeps: Sequence[float]) -> list[float]:
    """How long after its beep each marked picture is; without those that have none within 0.3 s.

    Both in seconds.
    """
    pairs = [min((m - b for b in beeps), key=abs) for m in marks] if beeps else []
    return [1000 * pair for pair in pairs if abs(pair) < 0.3]


async def until(met: Callable[[], Any], limit_s: float = 40.0) -> None:
    async with asyncio.timeout(limit_s):
        while not met():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


class Stand:
    """A gateway that shows the counter, and one session of it."""

    def __init__(self, rig: CounterRig, client: GatewayClient, folder: Path) -> None:
        self.rig = rig
        self.client = client
        self.folder = folder
        self.path = ""
        self.witness = Witness()

    async def begin(self) -> None:
        made = (await self.client.call("POST", "/v1/sessions", json={})).json()
        self.path = f"/v1/sessions/{made['id']}"
        self.witness = Witness()
        self.rig.running.inside.sessions.get(made["id"]).audience.add(self.witness)

    async def end(self) -> None:
        await self.client.call("DELETE", self.path)

    async def broadcast(self, url: str, key: str = KEY) -> Callable[[], Any]:
        """Starts one; what tells how it stands."""
        body = {"url": url, "key": key}
        made = (await self.client.call("POST", f"{self.path}/broadcasts", json=body)).json()
        (session,) = self.rig.running.inside.sessions.all()
        target = session.outlets.live.broadcasts.get(made["id"])
        return lambda: target

    async def count(self, flashes: int) -> None:
        """Begins a turn of the counter."""
        self.rig.doubles.script.voice_s = frames_of(flashes) / FPS
        await self.client.call("POST", f"{self.path}/text", json={"text": "Count."})

    async def show(self, receiver: Receiver, flashes: int) -> None:
        """The whole counter, once something comes at all."""
        await until(lambda: receiver.pictures)
        await asyncio.sleep(_SETTLE_S)
        await self.count(flashes)
        await until(lambda: len(self.witness.left) >= frames_of(flashes) - 2, 30 + flashes)
        await asyncio.sleep(2 * _SETTLE_S)


async def measure(way: str, stand: Stand, flashes: int) -> str:
    port, url = free_port(), f"{stand.client.url}{stand.path}"
    async with AsyncExitStack() as stack:
        match way:
            case "whep":
                receiver = await stack.enter_async_context(receiving("whep", f"{url}/whep"))
            case "hls":
                playlist = f"{url}/hls/index.m3u8"
                receiver = await stack.enter_async_context(receiving("open", playlist))
            case "whip":
                receiver = await stack.enter_async_context(receiving("whip", str(port), KEY))
                await stand.broadcast(f"http://127.0.0.1:{port}/whip")
            case "rtmp":
                address = f"rtmp://127.0.0.1:{port}/live"
                receiver = await stack.enter_async_context(
                    receiving("open", f"{address}/{KEY}", "listen")
                )
                await stand.broadcast(address)
            case _:
                playing = await served(way, stand, port, stack)
                receiver = await stack.enter_async_context(receiving("open", playing))
        await stand.show(receiver, flashes)
    return told(way, receiver, stand.witness, by_stream=way not in ("whep", "whip"))


async def served(way: str, stand: Stand, port: int, stack: AsyncExitStack) -> str:
    """A server that is published to; where its stream is played from."""
    folder = stand.folder / way
    folder.mkdir()
    playing = f"rtmp://127.0.0.1:{port}/live/{KEY}"
    if way == "nginx":
        await stack.enter_async_context(nginx(folder, port))
    else:
        http_port = free_port()
        await stack.enter_async_context(node_media_server(folder, port, http_port))
        playing = f"http://127.0.0.1:{http_port}/live/{KEY}.flv"
    target = await stand.broadcast(f"rtmp://127.0.0.1:{port}/live")
    await until(lambda: target().figures.sent_pictures > 0)
    return playing


async def restarted(stand: Stand) -> str:
    port, folder, back = free_port(), stand.folder / "restart", []
    folder.mkdir()
    target: Callable[[], Any] | None = None
    for _ in range(_RESTARTS + 1):
        async with nginx(folder, port):
            begun = time.monotonic()
            if target is None:
                target = await stand.broadcast(f"rtmp://127.0.0.1:{port}/live")
            figures = target().figures
            await until(partial(_more, figures, figures.sent_pictures))
            back.append(time.monotonic() - begun)
            await asyncio.sleep(2 * _SETTLE_S)
        await asyncio.sleep(1.0)
    return (
        f"restart: nginx away for 1 s, {_RESTARTS} times: pictures come again "
        f"{np.median(back[1:]):.1f} s after it listens (longest {max(back[1:]):.1f})"
    )


def _more(figures: Figures, before: int) -> bool:
    return figures.sent_pictures > before


async def main() -> None:
    asked = _asked()
    with tempfile.TemporaryDirectory() as folder:
        rig = CounterRig(Path(folder))
        await rig.start()
        try:
            async with GatewayClient(rig.running.url) as client:
                stand = Stand(rig, client, Path(folder))
                for way in asked.ways:
                    await stand.begin()
                    try:
                        line = await (
                            restarted(stand)
                            if way == "restart"
                            else measure(way, stand, asked.flashes)
                        )
                    except (TimeoutError, KeyError) as error:
                        line = f"{way}: {type(error).__name__} {error}"
                    sys.stdout.write(f"{line}\n")
                    sys.stdout.flush()
                    await stand.end()
        finally:
            await rig.stop()


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.tools.bench.live.measure")
    ways = ("whep", "rtmp", "nginx", "node", "whip", "hls", "restart")
    parser.add_argument("ways", nargs="+", choices=ways)
    parser.add_argument("--flashes", type=int, default=20, help="0.6 s each (20)")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main())
