"""What is lost comes back: connections, sessions, the microphone."""

from __future__ import annotations

import pytest
from playwright.async_api import Page

from tests.browser.driving import moves, open_page, start
from tests.browser.stub_gateway import StubGateway

# One event loop, and so one browser, for all of them; every test has a fresh profile.
pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize("transport", ["websocket", "auto"])
async def test_reconnects_to_the_same_session(
    page: Page, stub: StubGateway, transport: str
) -> None:
    await start(page, stub, f"?transport={transport}")
    stub.drop()
    await page.wait_for_selector("body[data-connection=reconnecting]")
    await page.wait_for_selector("body[data-connection=live][data-video=playing]")
    assert len(stub.seen.sessions) == 1
    assert await moves(page, stub)


async def test_makes_a_new_session_after_a_restart_of_the_gateway(
    page: Page, stub: StubGateway
) -> None:
    await start(page, stub)
    stub.drop(forget=True)
    await page.wait_for_selector("body[data-connection=reconnecting]")
    await page.wait_for_selector("body[data-connection=live]")
    assert [s["welcome"] for s in stub.seen.sessions] == [True, False], "nobody is greeted twice"


async def test_the_microphone_survives_a_reconnect(page: Page, stub: StubGateway) -> None:
    await open_page(page, stub, "?autostart=1&mic=1&transport=websocket")
    await page.wait_for_selector("body[data-microphone=on]")
    stub.drop()
    await page.wait_for_selector("body[data-connection=reconnecting]")
    await page.wait_for_selector("body[data-connection=live]")
    before = len(stub.seen.pcm)
    await stub.until(lambda seen: len(seen.pcm) > before + 6400)


async def test_leaving_the_page_ends_the_session(page: Page, stub: StubGateway) -> None:
    await start(page, stub)
    await page.goto("about:blank")
    await stub.until(lambda seen: seen.deleted == ["session1"])
