"""What tests do with the page again and again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Page

from tests.browser.stub_gateway import StubGateway


async def open_page(page: Page, stub: StubGateway, query: str = "") -> None:
    await page.goto(f"{stub.url}/{query}")
    await page.wait_for_selector("body[data-ready]")


async def start(page: Page, stub: StubGateway, query: str = "?transport=websocket") -> None:
    """Open the page and talk by typing, with the picture moving."""
    await open_page(page, stub, query)
    await page.click("#start-type")
    await page.wait_for_selector("body[data-connection=live][data-video=playing]")


async def join(page: Page, stub: StubGateway, session: str) -> None:
    """Look on at a conversation that there is, with the picture moving."""
    stub.begin(session)
    await open_page(page, stub, f"?session={session}&transport=websocket")
    await page.click("#start-talk")
    await page.wait_for_selector("body[data-connection=live][data-video=playing]")


@asynccontextmanager
async def reconnecting(page: Page) -> AsyncIterator[None]:
    """What is done within has the page say to its visitor that it reconnects. It may do so within
    half a second, in which a busy machine may not look: so the page itself notes what it says."""
    await page.evaluate(NOTES_RECONNECTING)
    yield
    await page.wait_for_function("window.said !== ''")
    assert "reconnecting" in await page.evaluate("window.said")


NOTES_RECONNECTING = """() => {
  const { body } = document;
  window.said = "";
  new MutationObserver((_, observer) => {
    if (body.dataset.connection !== "reconnecting") return;
    observer.disconnect();
    window.said = document.querySelector("#state").textContent;
  }).observe(body, { attributeFilter: ["data-connection"] });
}"""


async def body(page: Page, name: str) -> str | None:
    return await page.get_attribute("body", f"data-{name}")


async def moves(page: Page, stub: StubGateway) -> bool:
    """Whether the video shows that the stub's face opens and closes its mouth."""
    stub.push({"type": "state", "state": "speaking"})
    changed: bool = await page.evaluate(
        """async () => {
          const video = document.querySelector("video");
          const brush = new OffscreenCanvas(32, 32).getContext("2d");
          const look = () => {
            brush.drawImage(video, 0, 0, 32, 32);
            return brush.getImageData(0, 0, 32, 32).data;
          };
          const frame = () => new Promise((done) => video.requestVideoFrameCallback(done));
          await frame();
          const first = look();
          for (let i = 0; i < 60; i += 1) {
            await frame();
            if (look().some((value, index) => Math.abs(value - first[index]) > 20)) return true;
          }
          return false;
        }"""
    )
    return changed
