"""The page and a gateway that wants a key: it opens every door and is written down nowhere."""

from __future__ import annotations

import logging
from urllib.parse import quote

import pytest
from playwright.async_api import BrowserContext, Page, Request, expect

from tests.browser.conftest import tab
from tests.browser.flash_and_beep import SignalRig
from visavis.client import GatewayClient

pytestmark = pytest.mark.asyncio(loop_scope="session")

# What no subprotocol's name may hold, and what an address would.
KEY = "open (sesame), 100%41"
RIG, SETTINGS = SignalRig, {"api_key": KEY}


@pytest.mark.parametrize("transport", ["websocket", "webrtc"])
async def test_the_key_opens_the_sockets_and_is_logged_nowhere(
    profile: BrowserContext, rig: SignalRig, caplog: pytest.LogCaptureFixture, transport: str
) -> None:
    caplog.set_level(logging.INFO, "uvicorn.error")
    async with tab(profile, rig.running.url) as page:
        asked: list[str] = []
        shown: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("request", lambda request: shown.extend(shown_for_a_session(request)))
        page.on("websocket", lambda socket: asked.append(socket.url))
        await talk(page, f"{rig.running.url}/?transport={transport}")
    assert any(url.startswith("ws:") and "/events" in url for url in asked)
    logged = [record.getMessage() for record in caplog.records]
    assert any("/events" in line for line in logged), "the server tells of each socket"
    for line in [*asked, *logged]:
        assert not any(said in line for said in ("sesame", quote(KEY), "vs1.")), line
    assert all(secret.startswith("Bearer vs1.") for secret in shown), "the key made the session"
    assert shown or transport == "websocket"


def shown_for_a_session(request: Request) -> list[str]:
    of_one = "/v1/sessions/" in request.url
    return [request.headers.get("authorization", "")] if of_one else []


@pytest.mark.parametrize("role", ["visitor", "viewer"])
async def test_a_token_opens_its_session_without_a_key(
    profile: BrowserContext, rig: SignalRig, role: str
) -> None:
    """The page's own server has made the session; the token leaves the address at once."""
    async with GatewayClient(rig.running.url, KEY) as client:
        made = (await client.call("POST", "/v1/sessions", json={})).json()
        path = f"/v1/sessions/{made['id']}"
        told = (await client.call("POST", f"{path}/token", json={"role": role})).json()
        async with tab(profile, rig.running.url) as page:
            query = f"?session={made['id']}&transport=websocket"
            await page.goto(f"{rig.running.url}/{query}#token={told['token']}")
            await page.wait_for_selector("body[data-ready]")
            assert "token" not in page.url
            await expect(page.locator("#key")).to_be_hidden()
            assert await page.locator("#start-type").is_visible() is (role == "visitor")
            await page.click("#start-talk" if role == "viewer" else "#start-type")
            await page.wait_for_selector("body[data-connection=live][data-video=playing]")
        await client.call("DELETE", path)


async def talk(page: Page, url: str) -> None:
    """Give the key once, and come as far as a moving picture."""
    await page.goto(url)
    await page.fill("#key-value", KEY)
    await page.press("#key-value", "Enter")
    await expect(page.locator("#key")).to_be_hidden()
    await page.wait_for_selector("body[data-ready]")
    await page.click("#start-type")
    await page.wait_for_selector("body[data-connection=live][data-video=playing]")
