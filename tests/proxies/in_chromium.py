"""The page behind nginx and Caddy, and its media by a TURN server, as docs/proxies.md sets them up.

The programs are Debian's (nginx, caddy, coturn, chromium), the gateway is real, services are
doubles. It takes a minute and is a command of its own: `make proxies`.
"""

from __future__ import annotations

import wave
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from gateway.settings import GatewaySettings
from tests.browser.conftest import NO_CHROMIUM, chromium, find_chromium, fresh_page
from tests.browser.test_https import complaints
from tests.gateway.conftest import Rig, RunningGateway
from tests.gateway.media import tone
from tests.proxies.conftest import KEY, ProxiedRig
from tests.proxies.programs import NAME, Proxy, ice_servers, needs, turn_server

pytestmark = pytest.mark.asyncio(loop_scope="session")

NO_GREETING = """localStorage.setItem("visavis.preferences", JSON.stringify({ welcome: false }))"""
MIC_RATE_HZ = 48_000


@pytest.fixture(scope="module")
def chromium_path() -> str:
    return find_chromium() or pytest.skip(NO_CHROMIUM)


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def elsewhere(
    chromium_path: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Browser]:
    """A browser for which the proxy's name is at this machine, and whose visitor speaks once."""
    spoken = tmp_path_factory.mktemp("microphone") / "spoken.wav"
    quiet = np.zeros(MIC_RATE_HZ, np.int16)
    with wave.open(str(spoken), "wb") as file:
        file.setparams((1, 2, MIC_RATE_HZ, 0, "NONE", ""))
        file.writeframes(
            np.concatenate([quiet, tone(MIC_RATE_HZ // 2, rate_hz=MIC_RATE_HZ), quiet]).tobytes()
        )
    flags = (
        f"--use-file-for-fake-audio-capture={spoken}%noloop",
        "--autoplay-policy=no-user-gesture-required",
        f"--host-resolver-rules=MAP {NAME} 127.0.0.1",
    )
    async with chromium(chromium_path, *flags) as browser:
        yield browser


async def enter(page: Page, url: str, button: str) -> None:
    """Show the key, and come as far as a moving picture."""
    await page.add_init_script(NO_GREETING)
    await page.goto(url)
    await page.fill("#key-value", KEY)
    await page.press("#key-value", "Enter")
    await expect(page.locator("#key")).to_be_hidden()
    await page.click(button)
    await page.wait_for_selector("body[data-connection=live][data-video=playing]")


async def answered(page: Page, question: str, rig: Rig) -> None:
    """The captions show it, and all of its answer, which has been spoken."""
    await expect(page.locator(".line[data-side=visitor]").last).to_have_text(question)
    answer = page.locator(".line[data-side=avatar]").last
    await expect(answer).to_contain_text(rig.doubles.script.answer)
    await expect(answer).not_to_have_attribute("data-partial", "")
    await page.wait_for_selector("body[data-state=idle]")


async def ask(page: Page, rig: Rig) -> None:
    """Type a question, and have it answered."""
    await page.fill("#message", "How are you?")
    await page.press("#message", "Enter")
    await answered(page, "How are you?", rig)


# ------------------------------------------------------------ the page


@pytest.mark.parametrize("transport", ["webrtc", "websocket"])
async def test_the_page_is_heard_and_answered(
    elsewhere: Browser, rig: ProxiedRig, gateway: RunningGateway, front: Proxy, transport: str
) -> None:
    async with fresh_page(elsewhere, ignore_https_errors=True) as page:
        said = complaints(page)
        rig.doubles.script.hears = "Why is the sky blue?"
        await enter(page, f"{front.url}/?transport={transport}", "#start-talk")
        await page.wait_for_selector("body[data-microphone=on]")
        assert await page.get_attribute("body", "data-transport") == transport
        await answered(page, "Why is the sky blue?", rig)
        await ask(page, rig)
        assert [line for line in said if "401" not in line] == []


# ------------------------------------------------------------ TURN

RELAY_ALONE = """{
  const Native = window.RTCPeerConnection;
  window.connections = [];
  window.RTCPeerConnection = class extends Native {
    constructor(configuration) {
      super({ ...configuration, iceTransportPolicy: "relay" });
      window.connections.push(this);
    }
  };
}"""
"""As for a visitor who has no other way: the browser uses what the TURN server gives it alone."""
BY_RELAY = """async () => {
  const reports = [...(await connections.at(-1).getStats()).values()];
  const transport = reports.find(({ type }) => type === "transport");
  const pair = reports.find(({ id }) => id === transport.selectedCandidatePairId);
  const local = reports.find(({ id }) => id === pair.localCandidateId);
  const came = reports.filter(({ type }) => type === "inbound-rtp");
  return {
    way: local.candidateType,
    protocol: local.relayProtocol,
    port: Number(new URL(local.url.replace(":", "://")).port),
    packets: Object.fromEntries(came.map(({ kind, packetsReceived }) => [kind, packetsReceived])),
  };
}"""
SECRET = "what-the-turn-server-and-the-gateway-know"


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def inside(chromium_path: str) -> AsyncIterator[Browser]:
    """A browser that reaches a TURN server of its own machine, where that has no other network."""
    flags = ("--autoplay-policy=no-user-gesture-required", "--allow-loopback-in-peer-connection")
    async with chromium(chromium_path, *flags) as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def turn_port(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[int]:
    needs("turnserver")
    async with turn_server(tmp_path_factory.mktemp("turn"), SECRET) as port:
        yield port


@asynccontextmanager
async def told_of_turn(rig: Rig, servers: list[str], key: Path) -> AsyncIterator[RunningGateway]:
    settings = {
        "nats_url": rig.nats.url,
        "api_key": KEY,
        "ice_servers": servers,
        "turn_key_file": key,
    }
    running = RunningGateway(GatewaySettings.model_validate(settings))
    await running.start()
    try:
        yield running
    finally:
        await running.stop()


@pytest.mark.parametrize("transport", ["udp", "tcp"])
async def test_picture_and_sound_come_by_the_relay(
    inside: Browser,
    rig: ProxiedRig,
    gateway: RunningGateway,
    turn_port: int,
    tmp_path: Path,
    transport: str,
) -> None:
    key = tmp_path / "turn-key"
    key.write_text(SECRET + "\n")
    async with (
        told_of_turn(rig, ice_servers(turn_port, transport), key) as running,
        fresh_page(inside) as page,
    ):
        await page.add_init_script(RELAY_ALONE)
        await enter(page, f"{running.url}/?transport=webrtc", "#start-type")
        before = await page.evaluate(BY_RELAY)
        await ask(page, rig)
        after = await page.evaluate(BY_RELAY)
    for seen in (before, after):
        assert (seen["way"], seen["protocol"], seen["port"]) == ("relay", transport, turn_port)
    for kind in ("audio", "video"):
        assert after["packets"][kind] > before["packets"].get(kind, 0)


async def test_with_a_wrong_secret_the_page_falls_back(
    inside: Browser, rig: ProxiedRig, gateway: RunningGateway, turn_port: int, tmp_path: Path
) -> None:
    key = tmp_path / "turn-key"
    key.write_text("another\n")
    async with (
        told_of_turn(rig, ice_servers(turn_port), key) as running,
        fresh_page(inside) as page,
    ):
        await page.add_init_script(RELAY_ALONE)
        await enter(page, running.url, "#start-type")
        assert await page.get_attribute("body", "data-transport") == "websocket"
        await ask(page, rig)
