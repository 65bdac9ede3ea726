"""Sessions that end rudely leave nothing behind: no slot, descriptor, thread or memory."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import httpx
import numpy as np
from aiortc import RTCPeerConnection
from websockets.asyncio.client import ClientConnection

from tests.running_stack import RunningStack
from tests.stack.test_conversation import until_turn
from visavis.client import MIC_RATE_HZ, GatewayClient, GatewaySession

PROCESSES = ("gateway", "services.asr", "services.llm", "services.tts", "services.face")
ROUNDS = 3
LONG = "Tell me a long story about a dragon and a castle."
# Pools grow when they are first used; one for every other session would be a leak.
SLACK = 5
# A session that stayed would hold its queues, codecs and a face: megabytes each.
GROWTH_LIMIT_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True)
class Footprint:
    descriptors: dict[str, int]
    threads: dict[str, int]
    memory_bytes: dict[str, int]


def footprint(stack: RunningStack) -> Footprint:
    processes = {name: stack.child(name) for name in PROCESSES}
    return Footprint(
        {name: p.num_fds() for name, p in processes.items()},
        {name: p.num_threads() for name, p in processes.items()},
        {name: p.memory_info().rss for name, p in processes.items()},
    )


async def nothing_attached(stack: RunningStack) -> None:
    """Returns once the metrics of all four services say that no session is attached."""
    async with httpx.AsyncClient(trust_env=False) as http, asyncio.timeout(15):
        targets = (await http.get(f"{stack.url}/v1/metrics-targets")).json()
        addresses = [t["targets"][0] for t in targets if t["labels"]["service"] != "gateway"]
        assert len(addresses) == 4
        while True:
            pages = [(await http.get(f"http://{a}/metrics")).text for a in addresses]
            counts = [re.findall(r"^attached_sessions (\S+)$", page, re.M) for page in pages]
            if counts == [["0.0"]] * 4:
                return
            await asyncio.sleep(0.1)


class Visitor:
    """A session with what its client has open; its sockets end without a word."""

    def __init__(self, client: GatewayClient, session: str, sockets: AsyncExitStack) -> None:
        self.client = client
        self.path = f"/v1/sessions/{session}"
        self._sockets = sockets

    async def connect(self, path: str) -> ClientConnection:
        """A socket that is cut off once the session is gone."""
        socket = await self._sockets.enter_async_context(self.client.connect(f"{self.path}/{path}"))
        self._sockets.callback(socket.transport.abort)
        return socket


async def cut_off(visitor: Visitor) -> None:
    """All sockets are gone at once."""
    media, events = await visitor.connect("media?role=speaker"), await visitor.connect("events")
    await media.send(np.zeros(MIC_RATE_HZ // 50, np.int16).tobytes())
    await media.recv()
    for socket in (media, events):
        socket.transport.abort()


async def stop_reading(visitor: Visitor) -> None:
    """Viewers that have connected and read nothing of what they are sent."""
    for path in ("media", "events"):
        (await visitor.connect(path)).transport.pause_reading()


async def never_connect(visitor: Visitor) -> None:
    """A browser that makes an offer and is not heard of again."""
    browser = RTCPeerConnection()
    browser.addTransceiver("audio", direction="sendrecv")
    browser.addTransceiver("video", direction="recvonly")
    await browser.setLocalDescription(await browser.createOffer())
    offer = {"sdp": browser.localDescription.sdp, "type": "offer", "role": "speaker"}
    await visitor.client.call("POST", f"{visitor.path}/webrtc", json=offer)
    await browser.close()


async def interrupt_and_ask(visitor: Visitor) -> None:
    """The session is deleted while its next turn opens."""
    for _ in range(10):
        await visitor.client.call("POST", f"{visitor.path}/interrupt")
        await visitor.client.call("POST", f"{visitor.path}/text", json={"text": "And then?"})


ENDINGS = (cut_off, stop_reading, never_connect, interrupt_and_ask)


async def rude_session(stack: RunningStack, end: Callable[[Visitor], Awaitable[None]]) -> None:
    """Deleted while it speaks, is watched and is recorded."""
    async with GatewayClient(stack.url) as client, AsyncExitStack() as sockets:
        created = (await client.call("POST", "/v1/sessions", json={})).json()
        visitor = Visitor(client, created["id"], sockets)
        session = GatewaySession(client, created["id"], await visitor.connect("events"))
        await client.call("POST", f"{visitor.path}/recording", json={})
        media = await visitor.connect("media")
        await session.ask(LONG)
        await until_turn(session, "speaking")
        await media.recv()
        await end(visitor)
        await client.call("DELETE", visitor.path)


async def rude_round(stack: RunningStack) -> None:
    """One session for each ending, all at once."""
    await asyncio.gather(*(rude_session(stack, ending) for ending in ENDINGS))
    await nothing_attached(stack)


async def test_rude_sessions_leave_nothing_behind(rested: RunningStack) -> None:
    await rude_round(rested)  # fills caches and pools
    before = footprint(rested)
    for _ in range(ROUNDS):
        await rude_round(rested)
    # Sockets are closed once the other side is known to be gone.
    for _ in range(100):
        after = footprint(rested)
        if not grown(before, after):
            break
        await asyncio.sleep(0.1)
    assert not grown(before, after), "grown from, to"
    grew = {n: after.memory_bytes[n] - size for n, size in before.memory_bytes.items()}
    assert max(grew.values()) < GROWTH_LIMIT_BYTES, grew


def grown(before: Footprint, after: Footprint) -> dict[str, tuple[int, int]]:
    """Descriptors and threads that are more than they were."""
    return {
        f"{what} of {name}": (old[name], new[name])
        for what, old, new in (
            ("descriptors", before.descriptors, after.descriptors),
            ("threads", before.threads, after.threads),
        )
        for name in old
        if new[name] > old[name] + SLACK
    }
