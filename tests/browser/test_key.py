"""The page and a gateway that wants a key: it opens every door and is written down nowhere."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest
import pytest_asyncio
from playwright.async_api import BrowserContext, Page, expect

from tests.browser.conftest import tab
from tests.browser.flash_and_beep import SignalRig

pytestmark = pytest.mark.asyncio(loop_scope="session")

# What no subprotocol's name may hold, and what an address would.
KEY = "open (sesame), 100%41"


@pytest_asyncio.fixture(loop_scope="session")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SignalRig]:
    rig = SignalRig(tmp_path_factory.mktemp("key"))
    await rig.start(api_key=KEY)
    yield rig
    await rig.stop()


@pytest.mark.parametrize("transport", ["websocket", "webrtc"])
async def test_the_key_opens_the_sockets_and_is_logged_nowhere(
    profile: BrowserContext, rig: SignalRig, caplog: pytest.LogCaptureFixture, transport: str
) -> None:
    caplog.set_level(logging.INFO, "uvicorn.error")
    async with tab(profile, rig.running.url) as page:
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("websocket", lambda socket: asked.append(socket.url))
        await talk(page, f"{rig.running.url}/?transport={transport}")
    assert any(url.startswith("ws:") and "/events" in url for url in asked)
    logged = [record.getMessage() for record in caplog.records]
    assert any("/events" in line for line in logged), "the server tells of each socket"
    for line in [*asked, *logged]:
        assert not any(said in line for said in ("sesame", quote(KEY))), line


async def talk(page: Page, url: str) -> None:
    """Give the key once, and come as far as a moving picture."""
    await page.goto(url)
    await page.fill("#key-value", KEY)
    await page.press("#key-value", "Enter")
    await expect(page.locator("#key")).to_be_hidden()
    await page.wait_for_selector("body[data-ready]")
    await page.click("#start-type")
    await page.wait_for_selector("body[data-connection=live][data-video=playing]")
