"""The page with a head drawn by itself: `python -m tests.browser.drawn_here docs/drawn-here.jpg`.

Wants a running stack and a Chromium: asks a question in each layout, on a desktop, a phone and
embedded in another page, and takes the picture while it is answered.
"""

from __future__ import annotations

import argparse
import asyncio

import cv2
import numpy as np
from numpy.typing import NDArray
from playwright.async_api import Browser, ViewportSize

from deploy.chromium import find_chromium
from tests.browser.conftest import VISITOR, WEBGL, chromium

_LAYOUTS = {
    "desktop": ((1280, 800), "ada", ""),
    "phone": ((390, 844), "cleo", ""),
    "embedded": ((520, 420), "dai", "&embed=1"),
}
_ANSWERING_MS = 900
_HEIGHT, _GAP = 844, 12


async def picture(browser: Browser, url: str, layout: str) -> NDArray[np.uint8]:
    """Of one layout, [height, width, 3] BGR, while the head speaks."""
    (width, height), avatar, more = _LAYOUTS[layout]
    view = ViewportSize(width=width, height=height)
    async with await browser.new_context(**{**VISITOR, "viewport": view}) as profile:
        page = await profile.new_page()
        await page.goto(f"{url}/?language=en&drawnBy=client&avatar={avatar}&captions=1{more}")
        await page.evaluate("localStorage.setItem('visavis.preferences', '{\"welcome\": false}')")
        await page.reload()
        await page.click("#start-type", timeout=60_000)
        await page.wait_for_selector("#head", timeout=60_000)
        await page.wait_for_selector("body[data-connection=live]", timeout=60_000)
        await page.fill("#message", "Please tell me a long story about a fisherman and his boat.")
        await page.press("#message", "Enter")
        await page.wait_for_selector("body[data-state=speaking]", timeout=60_000)
        await page.wait_for_timeout(_ANSWERING_MS)
        taken = await page.screenshot(type="png")
    decoded = cv2.imdecode(np.frombuffer(taken, np.uint8), cv2.IMREAD_COLOR)
    assert decoded is not None
    return np.asarray(decoded, np.uint8)


async def take(url: str, to: str) -> None:
    """Writes all layouts beside each other to the file `to`."""
    path = find_chromium()
    if path is None:
        raise SystemExit("no Chromium: `make browser` installs it")
    flags = ("--autoplay-policy=no-user-gesture-required", *WEBGL)
    cells: list[NDArray[np.uint8]] = []
    async with chromium(path, *flags) as browser:
        for layout in _LAYOUTS:
            shown = await picture(browser, url, layout)
            below = _HEIGHT - len(shown)
            padded = np.pad(shown, ((0, below), (0, _GAP), (0, 0)), constant_values=255)
            cells.append(np.asarray(padded, np.uint8))
    cv2.imwrite(to, np.hstack(cells)[:, :-_GAP], [cv2.IMWRITE_JPEG_QUALITY, 85])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("to", help="where to write it, for example docs/drawn-here.jpg")
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    given = parser.parse_args()
    asyncio.run(take(given.url, given.to))
