"""The picture of the page that README shows: `python -m tests.browser.page_picture docs/page.jpg`.

Wants a running stack (`make run`) and a Chromium: asks a question as a visitor does, and takes the
picture while it is answered.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import Literal

from deploy.chromium import find_chromium
from tests.browser.conftest import VISITOR, chromium

_ANSWERING_MS = 2500
"""Into the answer: a few words of it are written by then."""


async def take(url: str, question: str, scheme: Literal["dark", "light"], to: str) -> None:
    """Writes the picture to the file `to`."""
    path = find_chromium()
    if path is None:
        raise SystemExit("no Chromium: `make browser` installs it")
    async with (
        chromium(path, "--autoplay-policy=no-user-gesture-required") as browser,
        await browser.new_context(
            **VISITOR, color_scheme=scheme, device_scale_factor=1.5
        ) as profile,
    ):
        page = await profile.new_page()
        await page.goto(f"{url}/?language=en")
        await page.evaluate("localStorage.setItem('visavis.preferences', '{\"welcome\": false}')")
        await page.reload()
        await page.click("#start-type", timeout=60_000)
        await page.wait_for_selector("body[data-connection=live][data-video=playing]")
        for asked in ("Hello! Who are you?", question):
            await page.fill("#message", asked)
            await page.press("#message", "Enter")
            await page.wait_for_selector("body[data-state=speaking]", timeout=60_000)
            if asked != question:
                await page.wait_for_selector("body[data-state=idle]", timeout=90_000)
        await page.wait_for_timeout(_ANSWERING_MS)
        await page.screenshot(path=to, type="jpeg", quality=88)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("to", help="where to write it, for example docs/page.jpg")
    parser.add_argument("--url", default="http://127.0.0.1:8080")
    parser.add_argument("--question", default="What would you recommend on a rainy day?")
    parser.add_argument("--scheme", choices=("dark", "light"), default="dark")
    given = parser.parse_args()
    asyncio.run(take(given.url, given.question, given.scheme, given.to))
