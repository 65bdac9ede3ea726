"""A real Chromium, driven by Playwright; without one, the tests that need it say so and skip."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")

from playwright.async_api import Browser, Page, async_playwright  # noqa: E402

from tests.browser.stub_gateway import StubGateway  # noqa: E402

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

Launch = Callable[..., "Browser"]


@pytest.fixture(scope="session")
def chromium_path() -> str:
    for name in _NAMES:
        if found := shutil.which(name):
            return found
    pytest.skip("no Chromium: install it with `apt-get install chromium` (needs root)")


class Launcher:
    """Starts browsers with extra flags."""

    def __init__(self, playwright: object, path: str) -> None:
        self._playwright = playwright
        self._path = path
        self.browsers: list[Browser] = []

    async def start(
        self, *, microphone: Path | None = None, flags: tuple[str, ...] = ()
    ) -> Browser:
        """microphone: a WAV file, heard once from the moment the page opens the microphone."""
        if microphone is not None:
            flags = (*flags, f"--use-file-for-fake-audio-capture={microphone}%noloop")
        browser = await self._playwright.chromium.launch(  # type: ignore[attr-defined]
            executable_path=self._path, args=[*_FLAGS, *flags]
        )
        self.browsers.append(browser)
        return browser


@pytest.fixture
async def launcher(chromium_path: str) -> AsyncIterator[Launcher]:
    async with async_playwright() as driver:
        launcher = Launcher(driver, chromium_path)
        yield launcher
        for browser in launcher.browsers:
            await browser.close()


@pytest.fixture
async def page(launcher: Launcher) -> AsyncIterator[Page]:
    """A desktop page; whatever it throws fails the test."""
    browser = await launcher.start(flags=("--autoplay-policy=no-user-gesture-required",))
    context = await browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-US")
    page = await context.new_page()
    thrown: list[str] = []
    page.on("pageerror", lambda error: thrown.append(str(error)))
    yield page
    assert not thrown


@pytest.fixture
def stub() -> Iterator[StubGateway]:
    with StubGateway() as gateway:
        yield gateway
