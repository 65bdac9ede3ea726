"""A real Chromium, driven by Playwright; without one, the tests that need it say so and skip."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from deploy.chromium import NO_CHROMIUM, find_chromium
from tests.browser.stub_gateway import StubGateway
from tests.gateway.conftest import Rig

_FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-fake-ui-for-media-stream",
    "--use-fake-device-for-media-stream",
)


WEBGL = ("--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist")
"""Has a browser without a graphics card draw in three dimensions all the same."""
HEARD = Path(__file__).with_name("heard.js").read_text("utf-8")


@pytest.fixture(scope="session")
def chromium_path() -> str:
    return find_chromium() or pytest.skip(NO_CHROMIUM)


@asynccontextmanager
async def chromium(path: str, *flags: str) -> AsyncIterator[Browser]:
    """A browser of its own, for those who need special flags."""
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=path, args=[*_FLAGS, *flags])
        yield browser
        await browser.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(chromium_path: str) -> AsyncIterator[Browser]:
    async with chromium(chromium_path, "--autoplay-policy=no-user-gesture-required") as browser:
        yield browser


# Reduced motion: a machine without a GPU would draw the page's animations picture by picture.
VISITOR: dict[str, Any] = {
    "viewport": {"width": 1280, "height": 800},
    "locale": "en-US",
    "reduced_motion": "reduce",
}


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def profile(browser: Browser) -> AsyncIterator[BrowserContext]:
    """One profile for the tabs of all tests. An empty tab stays open: with it lives the process
    that draws the others', which is slow to start."""
    async with await browser.new_context(**VISITOR) as profile:
        await profile.new_page()
        yield profile


@asynccontextmanager
async def tab(profile: BrowserContext, url: str) -> AsyncIterator[Page]:
    """A desktop page for the gateway at `url`, of which nothing is remembered: where an earlier
    one had the same port, its choices are forgotten."""
    page = await profile.new_page()
    await page.add_init_script(HEARD)
    storage = await profile.new_cdp_session(page)
    whose = {"origin": url, "storageTypes": "local_storage"}
    await storage.send("Storage.clearDataForOrigin", whose)
    await storage.detach()
    with _nothing_thrown(page):
        yield page
        await page.close()


@asynccontextmanager
async def fresh_page(browser: Browser, **options: Any) -> AsyncIterator[Page]:
    """A desktop page with a profile of its own, for those who need special options."""
    async with await browser.new_context(**{**VISITOR, **options}) as context:
        await context.add_init_script(HEARD)
        page = await context.new_page()
        with _nothing_thrown(page):
            yield page


@contextmanager
def _nothing_thrown(page: Page) -> Iterator[None]:
    """Whatever the page throws fails the test."""
    thrown: list[str] = []
    page.on("pageerror", lambda error: thrown.append(str(error)))
    yield
    assert not thrown


@pytest_asyncio.fixture(loop_scope="session")
async def page(profile: BrowserContext, stub: StubGateway) -> AsyncIterator[Page]:
    async with tab(profile, stub.url) as page:
        yield page


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def rig(request: Any, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    """A real gateway above doubles: the module's RIG, if it has one, with its SETTINGS."""
    rig: Rig = getattr(request.module, "RIG", Rig)(tmp_path_factory.mktemp("rig"))
    await rig.start(**getattr(request.module, "SETTINGS", {}))
    yield rig
    await rig.stop()


@pytest.fixture
def stub() -> Iterator[StubGateway]:
    with StubGateway() as gateway:
        yield gateway
