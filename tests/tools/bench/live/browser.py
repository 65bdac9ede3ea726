"""Chromium with `whip-whep`, a client that is not ours: it plays by WHEP and publishes by WHIP.

    WHIP_WHEP=FOLDER/node_modules/whip-whep python -m tests.tools.bench.live.browser

Its modules are shown to the page as if they were the gateway's own. The microphone is Chromium's
false one, which beeps.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from playwright.async_api import Route

from tests.browser.conftest import NO_CHROMIUM, chromium, find_chromium, fresh_page
from tests.gateway.conftest import Rig
from visavis.client import GatewayClient
from visavis.wire.subjects import Kind

PLAY = """async (url) => {
  const { WHEPClient } = await import("/static/proof/whep.js");
  const pc = globalThis.playing = new RTCPeerConnection();
  const video = Object.assign(document.createElement("video"), { muted: true, autoplay: true });
  const stream = video.srcObject = new MediaStream();
  document.body.append(video);
  pc.ontrack = ({ track }) => stream.addTrack(track);
  for (const kind of ["audio", "video"]) pc.addTransceiver(kind, { direction: "recvonly" });
  const client = globalThis.player = new WHEPClient();
  await client.view(pc, url, "");
  while (!video.videoWidth) await new Promise((then) => setTimeout(then, 20));
  return { width: video.videoWidth, state: pc.connectionState };
}"""
PUBLISH = """async (url) => {
  const { WHIPClient } = await import("/static/proof/whip.js");
  const stream = await navigator.mediaDevices.getUserMedia({ audio: true, video: true });
  const pc = globalThis.publishing = new RTCPeerConnection();
  for (const track of stream.getTracks()) pc.addTransceiver(track, { direction: "sendonly" });
  const client = globalThis.publisher = new WHIPClient();
  await client.publish(pc, url, "");
}"""


async def main() -> None:
    path = find_chromium() or sys.exit(NO_CHROMIUM)
    modules = Path(os.environ["WHIP_WHEP"])

    async def own(route: Route) -> None:
        name = route.request.url.rpartition("/")[2]
        await route.fulfill(path=modules / name, content_type="text/javascript")

    with tempfile.TemporaryDirectory() as folder:
        rig = Rig(Path(folder))
        await rig.start()
        try:
            async with GatewayClient(rig.running.url) as client, chromium(path) as browser:
                made = (await client.call("POST", "/v1/sessions", json={})).json()
                url = f"{client.url}/v1/sessions/{made['id']}"
                async with fresh_page(browser, permissions=["microphone", "camera"]) as page:
                    await page.route("**/static/proof/*", own)
                    await page.goto(f"{client.url}/static/live.html")
                    played = await page.evaluate(PLAY, f"{url}/whep")
                    sys.stdout.write(f"WHEP: {played}\n")
                    async with rig.bus.subscribe(made["id"], Kind.MIC) as mic:
                        await page.evaluate(PUBLISH, f"{url}/whip")
                        sys.stdout.write(f"WHIP: {await _heard(mic)}\n")
                    await page.evaluate("publisher.stop()")
                    await page.evaluate("player.stop()")
                    (session,) = rig.running.inside.sessions.all()
                    async with asyncio.timeout(10):
                        while session.audience.present:  # noqa: ASYNC110
                            await asyncio.sleep(0.05)
                    sys.stdout.write("both have ended in order\n")
        finally:
            await rig.stop()


async def _heard(mic: Any) -> str:
    heard: list[Any] = []
    async with asyncio.timeout(20):
        while len(heard) < 100:
            heard.append((await anext(mic)).pcm)
    loudest = int(np.abs(np.concatenate(heard)).max())
    return f"{len(heard)} chunks of the microphone, loudest sample {loudest}"


if __name__ == "__main__":
    asyncio.run(main())
