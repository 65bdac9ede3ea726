"""The WebSocket's player after its connection stood still: old pictures are not shown late."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page

from tests.browser.driving import start
from tests.browser.stub_gateway import StubGateway
from tests.browser.stub_media import FPS

# One event loop, and so one browser, for all of them; every test has a fresh profile.
pytestmark = pytest.mark.asyncio(loop_scope="session")

_LONG = 36
"""Messages, one with each picture."""
# A network that can be told to stand still: what comes meanwhile comes at once afterwards.
NETWORK = """
  window.held = null;
  const Native = window.WebSocket;
  window.WebSocket = class extends Native {
    addEventListener(type, listener, options) {
      const media = type === "message" && this.url.includes("/media");
      const later = (event) => {
        if (window.held) window.held.push(() => listener(event));
        else listener(event);
      };
      super.addEventListener(type, media ? later : listener, options);
    }
  };
"""

WATCH = """() => {
  const video = document.querySelector("video");
  window.seen_s = [];
  window.rates = [];
  window.jumped_when_behind_s = [];
  const place = Object.getOwnPropertyDescriptor(HTMLMediaElement.prototype, "currentTime");
  Object.defineProperty(video, "currentTime", {
    get: () => place.get.call(video),
    set: (to_s) => {
      const { buffered } = video;
      jumped_when_behind_s.push(buffered.end(buffered.length - 1) - place.get.call(video));
      place.set.call(video, to_s);
    },
  });
  video.addEventListener("ratechange", () => rates.push(video.playbackRate));
  const look = (_now, { mediaTime }) => {
    seen_s.push(mediaTime);
    video.requestVideoFrameCallback(look);
  };
  video.requestVideoFrameCallback(look);
}"""

BEHIND_S = """(() => {
  const { buffered, currentTime } = document.querySelector("video");
  return buffered.end(buffered.length - 1) - currentTime;
})()"""


async def stand_still(page: Page, messages: int) -> dict[str, Any]:
    """Until so many are held; when the last picture was seen before, and what is seen after."""
    await page.wait_for_function("() => seen_s.length > 0")  # a busy machine is long in showing any
    await page.evaluate("window.held = []")
    await page.wait_for_function(f"() => held.length >= {messages}")
    before_s = await page.evaluate("seen_s.at(-1)")
    await page.evaluate("{ const late = held; held = null; late.forEach((give) => give()); }")
    await page.wait_for_function(f"() => seen_s.at(-1) > {before_s} + {messages / FPS} + 1")
    seen_s = await page.evaluate("seen_s")
    return {"before_s": before_s, "after_s": [at_s for at_s in seen_s if at_s > before_s]}


async def test_a_network_that_stops_it_is_kept_further_from(page: Page, stub: StubGateway) -> None:
    await page.goto(f"{stub.url}/static/media_ws.js")
    wanted_s = await page.evaluate("""async () => {
      const { Closeness } = await import("/static/media_ws.js");
      const [closeness, wanted_s] = [new Closeness(), []];
      const stops = [[0.3, 10], [0.2, 12], [0, 20], [0, 37], [0, 90], [9, 100]];
      for (const [stopped_s, now_s] of stops) {
        if (stopped_s) closeness.stopped(stopped_s, now_s);
        wanted_s.push(closeness.wanted_s(now_s));
      }
      return wanted_s;
    }""")
    assert wanted_s == pytest.approx([0.55, 0.75, 0.75, 0.55, 0.25, 1.0])


async def test_after_a_long_standstill_the_newest_picture_is_seen(
    page: Page, stub: StubGateway
) -> None:
    await page.add_init_script(NETWORK)
    await start(page, stub)
    await page.evaluate(WATCH)
    seen = await stand_still(page, _LONG)
    skipped = [at_s for at_s in seen["after_s"] if at_s < seen["before_s"] + _LONG / FPS - 0.6]
    assert len(skipped) <= 5, "what was said and shown meanwhile is old"
    # How soon is the machine's affair: by playing faster alone it would take a quarter of a minute.
    await page.wait_for_function(f"() => {BEHIND_S} < 0.5")


async def test_after_a_short_one_nothing_is_missed(page: Page, stub: StubGateway) -> None:
    """Half a second is made good by playing a little faster, and without changing to and fro.

    On a busy machine the browser may stand still as well, and then jump rightly: what counts is
    how late it was.
    """
    await page.add_init_script(NETWORK)
    await start(page, stub)
    await page.wait_for_function("() => document.querySelector('video').playbackRate === 1")
    await page.evaluate(WATCH)
    await stand_still(page, 8)
    assert all(behind_s > 1 for behind_s in await page.evaluate("jumped_when_behind_s"))
    assert len(await page.evaluate("rates")) <= 6
