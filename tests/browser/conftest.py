"""A real Chromium, driven by Playwright; without one, the tests that need it say so and skip."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, async_playwright

from tests.browser.stub_gateway import StubGateway

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
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


HEARD = Path(__file__).with_name("heard.js").read_text("utf-8")
NO_CHROMIUM = "no Chromium: `make browser` installs it (needs root)"


def find_chromium() -> str | None:
    """Where the system's browser is, if there is one."""
    return next(filter(None, map(shutil.which, _NAMES)), None)


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


@asynccontextmanager
async def fresh_page(browser: Browser, **options: Any) -> AsyncIterator[Page]:
    """A desktop page with a fresh profile; whatever it throws fails the test."""
    async with await browser.new_context(
        viewport={"width": 1280, "height": 800}, locale="en-US", **options
    ) as context:
        await context.add_init_script(HEARD)
        page = await context.new_page()
        thrown: list[str] = []
        page.on("pageerror", lambda error: thrown.append(str(error)))
        yield page
    assert not thrown


@pytest_asyncio.fixture(loop_scope="session")
async def page(browser: Browser) -> AsyncIterator[Page]:
    async with fresh_page(browser) as page:
        yield page


@pytest.fixture
def stub() -> Iterator[StubGateway]:
    with StubGateway() as gateway:
        yield gateway
