"""The face drawn by the page itself: a real stack sends its movements, and no pictures."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator

import numpy as np
import pytest
import pytest_asyncio
from playwright.async_api import Browser, FilePayload, Page, expect

from tests.browser.block_head import block_figure, block_head
from tests.browser.conftest import WEBGL, chromium, fresh_page
from tests.browser.driving import body, open_page
from tests.browser.stub_gateway import StubGateway
from tests.running_stack import KNOWN_QUESTION, RunningStack
from tests.stack.test_idle_life import Samples
from visavis.tools.client import GatewayClient

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(240)]

# A machine without a graphics card draws by its processor.
_SMALL = {"width": 360, "height": 420}
WATCH = """() => {
  const canvas = document.querySelector("#head");
  const brush = new OffscreenCanvas(48, 48).getContext("2d", { willReadFrequently: true });
  window.seen = [];
  canvas.addEventListener("drawn", ({ detail: pose }) => {
    const { state } = document.body.dataset;
    seen.push({ state, jaw: pose[24] });
    if (seen.length % 10 !== 1) return; // to read a picture back takes longer than to draw it
    brush.clearRect(0, 0, 48, 48);
    brush.drawImage(canvas, 0, 0, 48, 48);
    const { data } = brush.getImageData(0, 0, 48, 48);
    const opaque = data.filter((value, index) => index % 4 === 3 && value > 200).length;
    seen.at(-1).covered = opaque / 48 ** 2;
  });
}"""


async def until_true(page: Page, expression: str) -> None:
    """As Playwright waits for a function, which the page's policy forbids."""
    async with asyncio.timeout(30):
        while not await page.evaluate(expression):  # noqa: ASYNC110 - the page calls nobody
            await asyncio.sleep(0.1)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def drawing(chromium_path: str) -> AsyncIterator[Browser]:
    flags = ("--autoplay-policy=no-user-gesture-required", *WEBGL)
    async with chromium(chromium_path, *flags) as browser:
        yield browser


def file_of(content: bytes) -> FilePayload:
    return FilePayload(name="own.glb", mimeType="model/gltf-binary", buffer=content)


async def choose_own(page: Page, file: FilePayload) -> None:
    """In the open settings: another file than now."""
    async with page.expect_file_chooser() as chooser:
        if await page.input_value("#drawing-headFile") == "own":
            await page.click(".field:has(#drawing-headFile) button")
        else:
            await page.select_option("#drawing-headFile", "own")
    await (await chooser.value).set_files(file)


async def test_the_page_draws_a_head_whose_jaw_moves_with_the_voice_and_no_pictures_are_made(
    drawing: Browser, stack: RunningStack
) -> None:
    made = [f'face_frames_total{{mode="{mode}"}}' for mode in ("live", "speaking", "blendshapes")]
    async with GatewayClient(stack.url) as client, fresh_page(drawing, viewport=_SMALL) as page:
        said = Samples(client)
        before = [await said.value(sample) for sample in made]
        # The stack has a welcome, which would be heard before the answer.
        await page.add_init_script(
            "localStorage.setItem('visavis.preferences', '{\"welcome\": false}')"
        )
        avatar = (await client.call("GET", "/v1/avatars")).json()["avatars"][0]
        head = await client.call("GET", f"/v1/avatars/{avatar['name']}/head.glb")
        assert avatar["head"] and head.content.startswith(b"glTF")
        await page.goto(f"{stack.url}/?transport=websocket&drawnBy=client&language=en")
        # The avatar's own head takes a processor too long to draw.
        await page.click("#settings-open")
        await choose_own(page, file_of(block_head()))
        await page.click("#settings-close")
        await page.click("#start-type")
        await page.wait_for_selector("body[data-connection=live][data-drawn=client]")
        await page.evaluate(WATCH)
        # Where a processor draws, of an answer a few pictures are seen, maybe of shut lips alone.
        for _ in range(4):
            await page.fill("#message", KNOWN_QUESTION)
            await page.press("#message", "Enter")
            spoken = "seen.filter(({ state }) => state === 'speaking').length"
            before_it = await page.evaluate(spoken)
            over = f"{spoken} > {before_it} && document.body.dataset.state === 'idle'"
            await until_true(page, over)
            if await page.evaluate("seen.some(({ jaw }) => jaw > 0.1)"):
                break
        seen = await page.evaluate("seen")
        live, speaking, blendshapes = np.subtract([await said.value(s) for s in made], before)
    assert np.ptp([picture["jaw"] for picture in seen]) > 0.1
    covered = [picture["covered"] for picture in seen if "covered" in picture]
    assert np.median(covered) > 0.05, "the canvas is empty"
    assert (live, speaking) == (0, 0) and blendshapes > 25


KEPT_BYTES = """async () => {
  const { kept } = await import("/static/head/store.js");
  return (await kept("headFile"))?.size ?? 0;
}"""
"""Of the head that the browser keeps."""


async def test_a_head_of_ones_own_is_kept_in_the_browser_and_an_unfit_one_refused(
    drawing: Browser, stub: StubGateway
) -> None:
    async with fresh_page(drawing) as page:
        await open_page(page, stub, "?drawnBy=client&transport=websocket")
        await page.click("#settings-open")
        for content in (block_head(), block_figure()):
            await choose_own(page, file_of(content))
            await until_true(page, f"({KEPT_BYTES})().then((size) => size === {len(content)})")
        # Another visit finds it again, and asks the gateway for no head.
        await open_page(page, stub, "?drawnBy=client&transport=websocket")
        await page.click("#start-type")
        await page.wait_for_selector("#head")
        await stub.until(lambda seen: seen.sessions)
        assert stub.seen.sessions[-1]["drawn_by"] == "client"
        await page.click("#settings-open")
        await choose_own(page, file_of(block_head(["jawOpen"])))
        await expect(page.locator("#toasts")).to_contain_text("no ARKit shapes")
        # The stub's avatars have no head.
        await expect(page.locator("[name=drawnBy][value=server]")).to_be_checked()
        assert await page.evaluate(KEPT_BYTES) == len(block_figure())


async def test_without_webgl_the_page_says_so_and_the_server_draws(
    page: Page, stub: StubGateway
) -> None:
    await page.add_init_script(
        """const native = HTMLCanvasElement.prototype.getContext;
        HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
          return kind.startsWith("webgl") ? null : native.call(this, kind, ...rest);
        };"""
    )
    await open_page(page, stub, "?drawnBy=client&transport=websocket")
    await page.click("#start-type")
    await page.wait_for_selector("body[data-connection=live][data-video=playing]")
    await expect(page.locator("#toasts")).to_contain_text(re.compile("WebGL"))
    assert stub.seen.sessions[-1]["drawn_by"] == "server"
    assert await body(page, "drawn") is None
