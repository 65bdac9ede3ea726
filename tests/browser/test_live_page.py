"""The page of broadcasts: a session is made, watched, pushed to a server, and stopped."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from playwright.async_api import BrowserContext, Error, Route, expect

from tests.browser.conftest import tab
from tests.browser.test_layout import AXE, axe
from tests.gateway.conftest import Rig, until
from tests.gateway.live.peers import RtmpServer, free_port

pytestmark = pytest.mark.asyncio(loop_scope="session")

KEY = "a-stream-key-that-nobody-else-may-see"
SETTINGS = {"api_key": "an operator's"}


async def test_start_watch_stop(profile: BrowserContext, rig: Rig) -> None:
    port = free_port()
    server = RtmpServer(port, f"/live/{KEY}")
    async with tab(profile, rig.running.url) as page:
        await page.goto(f"{rig.running.url}/static/live.html?language=en")
        await page.fill("#key-value", "an operator's")
        await page.press("#key-value", "Enter")
        await expect(page.locator("#session")).to_contain_text("None is open")
        await page.fill("#target-url", f"rtmp://127.0.0.1:{port}/live")
        await page.fill("#target-key", KEY)
        await page.press("#target-key", "Enter")
        target = page.locator("#targets li")
        await expect(target).to_contain_text("trying again")
        await expect(target).to_contain_text("refused")
        server.start()
        await expect(page.locator("#onair")).to_have_text("On air: 1")
        await until(lambda: server.received.pictures)
        await page.click("#watch")
        await page.wait_for_selector("body[data-video=playing]")
        await expect(page.locator("#viewers")).to_have_text("Watching now: 1")
        await page.click("#watch")
        await page.evaluate("delete window.RTCPeerConnection")
        await page.click("#watch")
        await page.wait_for_selector("body[data-video=playing]")
        await page.evaluate(AXE)
        found = [await axe(page)]
        await page.check("input[name=language][value=zh]", force=True)
        await expect(page.locator("#onair")).to_have_text("直播中：1")
        found.append(await axe(page))
        assert found == [[], []]
        await page.route("**/v1/sessions", lambda route: route.abort())
        await expect(page.locator("#onair:not([data-live])")).to_contain_text("无法连接")
        await page.unroute("**/v1/sessions")
        await expect(page.locator("#onair")).to_have_text("直播中：1")
        await target.locator("button").click()
        await expect(target).to_contain_text("已停止")
        assert KEY not in await page.content() and await page.input_value("#target-key") == ""
        await page.click("#session-end")
        await expect(page.locator("#session")).to_contain_text("还没有会话")
    await server.stop()
    assert server.codecs


async def test_watching_can_be_stopped_while_it_connects(profile: BrowserContext, rig: Rig) -> None:
    offers: list[str] = []
    stopped = asyncio.Event()

    async def hold_back(route: Route) -> None:
        await stopped.wait()
        with suppress(Error):  # nobody waits for it any more
            await route.continue_()

    async with tab(profile, rig.running.url) as page:
        page.on("request", lambda r: offers.append(r.url) if r.url.endswith("/webrtc") else None)
        await page.route("**/ice-servers", hold_back)
        kept = """localStorage.setItem("visavis.api-key", "an operator's")"""
        await page.add_init_script(kept)
        await page.goto(f"{rig.running.url}/static/live.html?language=en")
        await page.click("#session-new")
        await page.click("#watch:enabled")
        await expect(page.locator("#watch")).to_have_text("Stop watching")
        await page.click("#watch")
        await expect(page.locator("#watch")).to_have_text("Watch")
        stopped.set()
        await page.click("#watch")
        await page.wait_for_selector("body[data-video=playing]")
        await expect(page.locator("#viewers")).to_have_text("Watching now: 1")
        assert len(offers) == 1
        await expect(page.locator(".toast")).to_have_count(0)
